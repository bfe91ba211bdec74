"""The temporary folder of a run: private, deleted at its end, and by the next run if the run was killed."""

from __future__ import annotations

import ast
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ldpbeam
from ldpbeam import pipelines, runners, schemas, transforms
from ldpbeam.temporary import temporary_folder, temporary_root

HOLDER = """
import sys
import tempfile
from ldpbeam.temporary import folder_of_run

with folder_of_run() as folder:
    tempfile.mkdtemp()  # as Beam does
    (folder / "spilled").write_bytes(b"user ids")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary files are made, here and in processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder(below: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a folder."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert Path(process.stdout.readline().strip()).parent == below
        yield process
        process.kill()


def test_it_is_private_and_is_deleted_after_an_error_too(below: Path) -> None:
    with pytest.raises(ValueError, match="the run failed"), temporary_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "spilled").write_bytes(b"user ids")
        raise ValueError("the run failed")
    assert not list(below.iterdir())


def test_a_worker_that_still_runs_finds_no_folder_to_write_to(
    below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = []

    def delete(gone: Path, **how: bool) -> None:
        deleted.append(gone)
        with pytest.raises(FileNotFoundError):
            (folder / "spilled late").write_bytes(b"user ids")
        rmtree(gone, **how)

    rmtree = shutil.rmtree
    monkeypatch.setattr("shutil.rmtree", delete)
    with temporary_folder() as folder:
        (folder / "spilled").write_bytes(b"user ids")
    assert len(deleted) == 1
    assert not list(below.iterdir())


def test_what_a_killed_run_left_is_deleted_by_the_next_one_and_what_others_hold_is_not(
    below: Path, holder: subprocess.Popen[str]
) -> None:
    (held,) = below.iterdir()
    with temporary_folder() as folder:
        assert set(below.iterdir()) == {held, folder}
    assert (held / "spilled").exists()
    holder.kill()
    holder.wait()
    with temporary_folder() as folder:
        assert set(below.iterdir()) == {folder}
    assert not list(below.iterdir())


def test_sigterm_deletes_it(below: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGTERM)
    assert holder.wait() != 0
    assert not list(below.iterdir())


def test_of_runs_that_start_together_none_deletes_the_folder_of_another(below: Path) -> None:
    together, lost = threading.Barrier(8), []

    def run() -> None:
        for _ in range(20):
            together.wait()
            with temporary_folder() as folder:
                together.wait()
                if not folder.is_dir():
                    lost.append(folder)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not lost
    assert not list(below.iterdir())


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


VARIABLES = ("TMPDIR", "TEMP", "TMP")
#: What the system says of a folder that is missing, that is a file, and in which no account can make a file.
UNUSABLE = {"/nowhere": "No such file or directory", __file__: "Not a directory", "/sys": "Permission denied"}


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("path", UNUSABLE)
def test_a_folder_that_cannot_be_written_to_is_not_passed_over(
    name: str, path: str, unset: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unset.setenv(name, path)
    for later in VARIABLES[VARIABLES.index(name) + 1 :]:
        unset.setenv(later, str(tmp_path))
    said = f"{name}={path}: no temporary file can be made there ({UNUSABLE[path]}); name a folder that"
    for make in (temporary_root, temporary_folder().__enter__):
        with pytest.raises(OSError, match=re.escape(said)):
            make()
    assert not list(tmp_path.iterdir())
    unset.setenv("TMPDIR", str(tmp_path))
    assert temporary_root() == tmp_path


def test_without_a_variable_it_is_the_systems_folder(unset: pytest.MonkeyPatch) -> None:
    unset.setattr("tempfile.tempdir", None)
    assert temporary_root() == Path("/tmp")


def test_an_empty_variable_is_not_the_systems_folder(unset: pytest.MonkeyPatch) -> None:
    unset.setenv("TMPDIR", "")
    with pytest.raises(OSError, match="TMPDIR is set and empty: name a folder, or unset it"):
        temporary_root()


def test_a_command_says_so_before_it_reads_or_spills(
    command: Any, tmp_path: Path, unset: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "reports.jsonl").write_text("")
    unset.chdir(tmp_path)
    unset.setenv("TMPDIR", "/nowhere")
    ran = command("estimate", "--study", "study.yaml", "--input", "reports.jsonl", "--output", "out")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("ldpbeam: TMPDIR=/nowhere: no temporary file can be made there")
    assert len(ran.err.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"study.yaml", "reports.jsonl"}


STUDY = """\
study: hours
attributes:
  x:
    domain: {numeric: [0, 1]}
    services: {a: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
windows: {size: 1h}
ledger: {period: 1d, cap: 5}
"""


@pytest.mark.parametrize("runner", ["local", "direct", "flink", "dataflow"])
def test_the_doctor_says_so(runner: str, command: Any, unset: pytest.MonkeyPatch) -> None:
    unset.setenv("TMPDIR", "/nowhere")
    ran = command("doctor", "--runner", runner)
    assert ran.code == 2
    assert "MISSING  temporary folder\n         TMPDIR=/nowhere: no temporary file can be made" in ran.out


def test_nothing_temporary_is_made_elsewhere() -> None:
    """Each call of tempfile's names a folder, but for the one that asks for the system's."""
    product = [Path(module.__file__ or "").parent for module in (pipelines, runners, schemas, transforms)]
    product.append(Path(ldpbeam.__file__ or "").parent)
    calls = [
        (path.name, ast.unparse(call))
        for folder in product
        for path in folder.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("tempfile.")
    ]
    assert len({path for path, _ in calls}) >= 2
    assert {pair for pair in calls if "dir=" not in pair[1]} == {("temporary.py", "tempfile.gettempdir()")}
