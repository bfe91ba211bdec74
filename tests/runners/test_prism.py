"""Which Prism is taken, how one with closed doors is built, and what Beam's own runners need."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from apache_beam.runners.portability.prism_runner import PrismJobServer

from ldpbeam.errors import UserError
from ldpbeam.runners.cache import CACHE
from ldpbeam.runners.engines import engine_of
from ldpbeam.runners.prism import build, find
from ldpbeam.runners.prism import wheel as wheels
from ldpbeam.runners.prism.server import GARBAGE_PERCENT, PrismServer
from ldpbeam.runners.request import EngineRequest

CLOSED, OPEN = "  -job_socket string\n  -job_port int", "  -job_port int"
GIT = shutil.which("git")


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all programs, with no Prism, Go or cache anywhere."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    monkeypatch.setattr(PrismJobServer, "BIN_CACHE", str(tmp_path / "beam"))
    monkeypatch.setattr(find, "WHEEL", "no_such_wheel")
    return tmp_path / "bin"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The binary of an installed wheel."""
    package = tmp_path / "site" / "a_wheel_of_prism"
    binary = program(package / "prism", CLOSED)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(find, "WHEEL", package.name)
    return binary


def test_nothing_is_found_on_a_bare_machine() -> None:
    assert find.here() is None
    assert find.closed() is None


def test_closed_doors_come_before_open_ones(bare_machine: Path, tmp_path: Path, wheel: Path) -> None:
    on_path = program(bare_machine / "prism", OPEN)
    cached = program(build.place(), CLOSED)
    assert find.here() == find.closed() == find.Prism(str(wheel), closed=True)
    wheel.parent.rename(wheel.parent.with_name("gone"))
    assert find.here() == find.closed() == find.Prism(str(cached), closed=True)
    cached.unlink()
    assert find.here() == find.fetched() == find.Prism(str(on_path), closed=False)
    assert find.closed() is None
    # It is what the program says that counts, not where it lies.
    program(on_path, CLOSED)
    assert find.closed() == find.Prism(str(on_path), closed=True)
    program(on_path, "another program of this name")
    released = program(tmp_path / "beam" / "prism", OPEN)
    assert find.here() == find.Prism(str(released), closed=False)


PATCH = "--- a/go/say\n+++ b/go/say\n@@ -1 +1 @@\n-open\n+closed\n"


@pytest.fixture
def go(bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs in place of Go's: a module of one file, which "building" copies; gives the log of builds."""
    module, log = tmp_path / "module", tmp_path / "log"
    (module / "go").mkdir(parents=True)
    (module / "go" / "say").write_text("open\n")
    for name in ("go.mod", "go.sum"):
        (module / name).touch()
    answer = json.dumps({"Dir": str(module), "Sum": build.MODULE_SUM})
    bare_machine.mkdir(exist_ok=True)
    (bare_machine / "go").write_text(
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys, time\n"
        "if sys.argv[1] == 'mod':\n"
        f"    print('''{answer}''')\n"
        "else:\n"
        f"    pathlib.Path({str(log)!r}).open('a').write('built\\n')\n"
        "    shutil.copy('go/say', sys.argv[sys.argv.index('-o') + 1])\n"
    )
    (bare_machine / "go").chmod(0o755)
    (bare_machine / "git").symlink_to(str(GIT))
    (tmp_path / "patch").write_text(PATCH)
    monkeypatch.setattr(build, "PATCH", tmp_path / "patch")
    # Module caches are not writable.
    (module / "go" / "say").chmod(0o444)
    (module / "go").chmod(0o555)
    return log


needs_git = pytest.mark.skipif(GIT is None, reason="there is no git on PATH")


@needs_git
def test_several_who_ask_at_once_get_one_build(go: Path) -> None:
    said: list[str] = []
    with ThreadPoolExecutor(4) as threads:
        built = set(threads.map(lambda _: build.build(said.append), range(4)))
    (binary,) = built
    assert binary == build.place()
    assert binary.read_text() == "closed\n"
    assert os.access(binary, os.X_OK)
    assert go.read_text() == "built\n"
    assert len(said) == 1 and "1 to 4 minutes, once" in said[0]
    assert [path.name for path in binary.parent.parent.iterdir() if path.is_dir()] == [binary.parent.name]


@needs_git
def test_another_module_than_the_one_that_was_read_is_not_built(
    go: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "MODULE_SUM", "h1:another")
    with pytest.raises(build.BuildError, match=r"has the checksum h1:.*, and should have h1:another"):
        build.build()
    assert not build.place().exists()
    assert find.closed() is None
    assert "ldpbeam: Prism could not be built: " in capsys.readouterr().err


@needs_git
def test_a_patch_that_does_not_fit_is_said(go: Path) -> None:
    build.PATCH.write_text(PATCH.replace("open", "something else"))
    with pytest.raises(build.BuildError, match="git apply said: error: go/say: patch does not apply"):
        build.build()


def test_without_go_it_is_said(bare_machine: Path) -> None:
    with pytest.raises(build.BuildError, match="there is no go on PATH"):
        build.build()
    program(bare_machine / "go", "")
    with pytest.raises(build.BuildError, match="there is no git on PATH"):
        build.build()


@pytest.mark.parametrize("named", [None, "100"])
def test_prism_collects_garbage_early_unless_the_operator_says_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    if named is not None:
        monkeypatch.setenv("GOGC", named)
    prism = tmp_path / "prism"
    prism.write_text(f"#!/bin/sh\necho $GOGC > {tmp_path}/percent\n")
    prism.chmod(0o755)
    with pytest.raises(OSError, match="ended at once"):
        PrismServer(find.Prism(str(prism), closed=True), tmp_path).start()
    assert (tmp_path / "percent").read_text().strip() == (named or str(GARBAGE_PERCENT))


@pytest.mark.parametrize("runner", ["DirectRunner", "PrismRunner", "FlinkRunner"])
def test_engines_that_beam_would_start_with_open_ports(
    runner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"--runner {runner}: what Beam starts here for it (Prism, a job server,"
    with pytest.raises(UserError) as caught:
        engine_of(EngineRequest(runner), tmp_path)
    assert str(caught.value).startswith(said) and "--allow-open-ports" in str(caught.value)
    engine_of(EngineRequest(runner, allow_open_ports=True), tmp_path)
    assert capsys.readouterr().err.startswith("ldpbeam: what Beam starts here for it")


def test_an_engine_of_one_process_needs_no_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine_of(EngineRequest("FnApiRunner"), tmp_path)
    assert capsys.readouterr().err == ""


def test_wheels_of_one_binary_are_the_same_bytes_and_say_which_platforms_they_are_for(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    packed = wheels.pack(b"prism", one)
    assert packed.read_bytes() == wheels.pack(b"prism", two).read_bytes()
    name, release, python, interface, platforms = packed.stem.split("-")
    assert (name, release, python, interface) == ("ldpbeam_prism", build.BEAM, "py3", "none")
    with zipfile.ZipFile(packed) as archive:
        said = archive.read(f"ldpbeam_prism-{build.BEAM}.dist-info/WHEEL").decode()
    tags = [line.removeprefix("Tag: ") for line in said.splitlines() if line.startswith("Tag: ")]
    assert tags == [f"py3-none-{platform}" for platform in platforms.split(".")]


def test_a_wheel_installs_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = program(tmp_path / "built", CLOSED).read_bytes()
    packed = wheels.pack(binary, tmp_path)
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(installed), str(packed)], check=True)
    assert (installed / "ldpbeam_prism" / "prism").read_bytes() == binary
    monkeypatch.setattr(find, "WHEEL", "ldpbeam_prism")
    monkeypatch.syspath_prepend(str(installed))
    assert find.here() == find.Prism(str(installed / "ldpbeam_prism" / "prism"), closed=True)
