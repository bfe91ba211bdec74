"""The packages that are released, in an empty environment; and the versions that ``make install`` takes."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import setuptools
from packaging.requirements import Requirement
from support.operators import image_of

import ldpbeam
from ldpbeam.runners.doctor import checks_of
from ldpbeam.runners.installed import FOR_DEVELOPERS

ROOT = Path(__file__).parents[1]
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
#: The lines of the versions, each with the hashes of its files.
PINS = re.findall(r"^([^#\s].*?)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", CONSTRAINTS, re.MULTILINE)


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """What ``setup.py`` says."""
    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", found.update)
        exec((ROOT / "setup.py").read_text(encoding="utf-8"), {"__file__": ROOT / "setup.py"})
    return found


def test_constraints_are_exact_versions_and_name_no_index() -> None:
    versions = [Requirement(line) for line, _ in PINS]
    assert len(versions) > 50
    # Every line is a comment, or one of a version that has hashes.
    lines = [line for line in CONSTRAINTS.splitlines() if not line.startswith("#")]
    assert len(lines) == sum(1 + hashes.count("--hash") for _, hashes in PINS)
    assert "://" not in CONSTRAINTS
    for version in versions:
        assert version.url is None
        (bound,) = version.specifier
        assert bound.operator == "=="
        assert "*" not in bound.version


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_every_requirement_has_one_version_that_fits(
    described: dict[str, Any], python: str, platform: str
) -> None:
    place = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": platform}
    known = [Requirement(line) for line, _ in PINS]
    here = [known for known in known if known.marker is None or known.marker.evaluate(place)]
    for line in [*described["install_requires"], *described["extras_require"]["test"]]:
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate(place):
            continue
        (version,) = [known for known in here if known.name.lower() == wanted.name.lower()]
        (bound,) = version.specifier
        assert wanted.specifier.contains(bound.version), line


def test_the_plain_install_is_pinned_as_the_whole_is_and_has_no_beam(described: dict[str, Any]) -> None:
    text = (ROOT / "constraints-plain.txt").read_text(encoding="utf-8")
    pins = {Requirement(line.partition(" \\")[0]) for line in text.splitlines() if "==" in line}
    names = {pin.name.lower() for pin in pins}
    assert {str(pin.specifier) for pin in pins} <= {str(Requirement(line).specifier) for line, _ in PINS}
    assert {Requirement(line).name.lower() for line in described["install_requires"]} <= names
    assert "apache-beam" not in names
    assert "://" not in text


def test_what_an_index_shows_has_no_link_to_a_file_that_it_does_not_have(described: dict[str, Any]) -> None:
    page, readme = described["long_description"], (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/" in readme
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert not [link for link in links if not link.startswith("https://")]
    # Only links have changed.
    assert re.findall(r"^```.*?^```$", page, re.MULTILINE | re.DOTALL) == re.findall(
        r"^```.*?^```$", readme, re.MULTILINE | re.DOTALL
    )
    assert f"pip install './dist/ldpbeam-{described['version']}-py3-none-any.whl[report]'" in page


def test_the_package_knows_its_version(described: dict[str, Any]) -> None:
    assert f"\nversion: {described['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert ldpbeam.__version__ == described["version"] == metadata.version("ldpbeam")


def test_the_doctor_has_a_line_for_each_extra_of_users(described: dict[str, Any]) -> None:
    checks = {check.what: check for check in checks_of("local")}
    extras = {f"ldpbeam[{extra}]" for extra in set(described["extras_require"]) - set(FOR_DEVELOPERS)}
    assert {what for what in checks if what.startswith("ldpbeam[")} == extras
    assert checks["ldpbeam"].needed and not any(checks[extra].needed for extra in extras)
    # The tests run where this is installed.
    assert checks["ldpbeam[metrics]"].found.startswith(
        f"prometheus-client {metadata.version('prometheus-client')}"
    )


def test_an_older_python_is_told_at_the_first_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(ImportError, match=r"ldpbeam needs Python 3\.11 or newer; this is Python \d"):
        runpy.run_path(str(ROOT / "ldpbeam" / "__init__.py"))


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What a program says, which ends well."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def tool(name: str) -> Path:
    """A program that is installed beside this Python."""
    return Path(sys.executable).with_name(name)


@pytest.fixture(scope="session")
def online(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An index of packages answers."""
    asked = subprocess.run(
        [tool("uv"), "pip", "compile", "--quiet", "--no-deps", "--refresh-package", "setuptools", "-"],
        cwd=tmp_path_factory.mktemp("online"),
        input="setuptools",
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        if os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1":
            pytest.fail(asked.stderr)
        pytest.skip("no index of packages can be reached, and an empty environment needs one")


@pytest.fixture(scope="session")
def tracked() -> list[str]:
    """The files of this checkout, as git has them."""
    if not (ROOT / ".git").exists():
        pytest.skip("packages are made of the files that git has, and this is no checkout")
    return run("git", "ls-files", "-z", cwd=ROOT).split("\0")[:-1]


@pytest.fixture(scope="session")
def packages(online: None, tracked: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel and the source package, in this order, made of what git has and of nothing beside it."""
    tree = tmp_path_factory.mktemp("tree")
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name, follow_symlinks=False)
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", "dist", cwd=tree)
    made = sorted((tree / "dist").iterdir(), key=lambda path: path.suffix != ".whl")
    assert [path.suffix for path in made] == [".whl", ".gz"]
    return made


@pytest.fixture(scope="session")
def environment(packages: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel and what it requires, and nothing else."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    install(place, "--strict", packages[0])
    return place


def install(place: Path, *what: object) -> None:
    """Install packages in an environment, which is made where there is none."""
    if not place.exists():
        run(tool("uv"), "venv", "--quiet", "--python", sys.executable, place, cwd=place.parent)
    command = [tool("uv"), "pip", "install", "--quiet", "--python", place]
    run(*command, "--constraint", ROOT / "constraints.txt", *what, cwd=place.parent)


@pytest.mark.slow
def test_packages_are_as_an_index_wants_them(packages: list[Path], tmp_path: Path) -> None:
    run(tool("twine"), "check", "--strict", *packages, cwd=tmp_path)
    run(tool("check-wheel-contents"), packages[0], cwd=tmp_path)
    # The project has neither an address nor a home page of its own; all else has full marks.
    run(tool("pyroma"), "--min", 10, "--skip-tests", "AuthorEmail,Url", packages[1], cwd=tmp_path)


@pytest.mark.slow
def test_the_wheel_has_every_module_and_schema_the_licence_and_the_notice(
    packages: list[Path], tracked: list[str]
) -> None:
    with zipfile.ZipFile(packages[0]) as wheel:
        names = set(wheel.namelist())
        for text in ("LICENSE", "NOTICE"):
            (name,) = [name for name in names if name.endswith(f".dist-info/licenses/{text}")]
            assert wheel.read(name) == (ROOT / text).read_bytes()
    folders = ("schemas", "transforms", "pipelines", "runners")
    own = {name for name in tracked if name.startswith("ldpbeam/") and Path(name).suffix in (".py", ".typed")}
    for name in tracked:
        if name.partition("/")[0] in folders and (ROOT / name).parent.joinpath("__init__.py").exists():
            own |= {f"ldpbeam/{name}"} if Path(name).suffix in (".py", ".avsc", ".xml", ".patch") else set()
    own |= {"ldpbeam/schemas/test_vectors.json", "ldpbeam/schemas/memo_vectors.json"}
    own |= {f"ldpbeam/schemas/bigquery/{name}.json" for name in ("estimates", "distribution")}
    assert len(own) > 100
    assert own <= names
    assert not [name for name in names if not name.startswith("ldpbeam")]


@pytest.mark.slow
def test_the_program_says_its_version(environment: Path, tmp_path: Path) -> None:
    expected = f"ldpbeam {metadata.version('ldpbeam')}\n"
    assert run(environment / "bin" / "ldpbeam", "--version", cwd=tmp_path) == expected
    assert run(environment / "bin" / "python", "-m", "ldpbeam", "--version", cwd=tmp_path) == expected


@pytest.mark.slow
def test_the_demonstration_runs_on_what_is_installed(environment: Path, tmp_path: Path) -> None:
    example = shutil.copytree(ROOT / "examples" / "commute", tmp_path / "commute")
    python = environment / "bin" / "python"
    where = run(python, "-c", "import ldpbeam; print(ldpbeam.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment)
    said = run(python, example / "demo.py", "--people", 2000, "--output", "demo", cwd=tmp_path)
    # Two windows, and a report of each person to each of three services.
    assert "6,000 reports in = 6,000 used" in said
    estimates = (tmp_path / "demo" / "estimates" / "estimates.jsonl").read_text(encoding="utf-8")
    assert len(estimates.splitlines()) == 2 * 3


@pytest.mark.slow
def test_the_image_of_a_stream_has_what_the_page_on_operating_needs(
    packages: list[Path], tmp_path: Path
) -> None:
    extras = image_of("stream").extras
    assert extras == {"kafka", "ledger", "metrics", "pubsub", "report"}
    place = tmp_path / "venv"
    install(place, "--strict", f"{packages[0]}[{','.join(extras)}]")
    checks = json.loads(run(place / "bin" / "ldpbeam", "doctor", "--json", cwd=tmp_path))["checks"]
    found = {check["what"] for check in checks if check["found"] is not None}
    assert found >= {"ldpbeam", *(f"ldpbeam[{extra}]" for extra in extras)}
    assert "ldpbeam[gcp]" not in found
