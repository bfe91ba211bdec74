"""Packages that are staged: wheels of what is installed, a source package of a checkout, and plugins."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.runners import wheels

MODULE = "WORTH = 7\nNAME = __name__\n"
POINT = "[ldpbeam.mechanisms]\nfair = fair_coin:Fair\n"


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., Distribution]:
    """A package as pip leaves it, in a folder of its own: (files, its name, tags, what is said of it)."""

    def install(
        files: Mapping[str, str],
        name: str = "fair-coin",
        tags: tuple[str, ...] = ("py3-none-any",),
        **said: str,
    ) -> Distribution:
        site = tmp_path / "site"
        about = f"{name.replace('-', '_').replace('.', '_').lower()}-1.5.dist-info"
        contents = {
            **files,
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
            + "".join(f"Tag: {tag}\n" for tag in tags),
            f"{about}/INSTALLER": "pip\n",
            f"{about}/direct_url.json": '{"url": "file:///home/somebody/fair-coin", "dir_info": {}}',
            **{f"{about}/{file.replace('_txt', '.txt')}": text for file, text in said.items()},
        }
        for file, text in contents.items():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).write_text(text)
        listed = [*contents, f"{about}/RECORD", "../../bin/fair-coin", "fair_coin/__pycache__/__init__.pyc"]
        (site / about / "RECORD").write_text("".join(f"{file},,\n" for file in listed))
        return Distribution.at(site / about)

    return install


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where wheels are made."""
    place = tmp_path / "wheels"
    place.mkdir()
    return place


def pip_install(package: Path, target: Path) -> None:
    """As a worker does, but that nothing may be looked for."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-cache-dir"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(target), str(package)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def seen(target: Path, expression: str) -> str:
    """What an expression is where nothing but that folder has packages."""
    told = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(target)!r}); {expression}"]
    return subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip()


def test_a_wheel_of_an_installed_package_installs(installed: Any, folder: Path, tmp_path: Path) -> None:
    files = {
        "fair_coin/__init__.py": MODULE,
        "fair_coin/table.txt": "1 2\n",
        "fair_coin/copies/other-1.dist-info/WHEEL": "Tag: cp311-cp311-linux_x86_64\n",
    }
    wheel = wheels.wheel_of(installed(files, entry_points_txt=POINT), folder)
    assert wheel == folder / "fair_coin-1.5-py3-none-any.whl"
    target = tmp_path / "target"
    pip_install(wheel, target)
    assert seen(target, "import fair_coin; print(fair_coin.WORTH)") == "7"
    assert (target / "fair_coin" / "table.txt").read_text() == "1 2\n"
    # What the last installer said, and where somebody had it, is nobody's concern.
    names = zipfile.ZipFile(wheel).namelist()
    assert not any(name.endswith(("INSTALLER", "direct_url.json", ".pyc")) or ".." in name for name in names)
    (again,) = target.glob("*.dist-info")
    assert (again / "entry_points.txt").read_text() == POINT


@pytest.mark.parametrize(
    ("name", "tags", "expected"),
    [
        ("Fair.Coin", ("py3-none-any",), "fair_coin-1.5-py3-none-any.whl"),
        ("fair-coin", ("py2-none-any", "py3-none-any"), "fair_coin-1.5-py2.py3-none-any.whl"),
    ],
)
def test_a_wheel_has_the_name_that_installers_take(
    installed: Any, folder: Path, name: str, tags: tuple[str, ...], expected: str
) -> None:
    assert wheels.wheel_of(installed({"fair_coin.py": MODULE}, name, tags), folder).name == expected


def test_the_same_files_are_the_same_wheel(
    installed: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = installed({"b.py": MODULE, "a.py": MODULE})
    first = wheels.wheel_of(package, folder).read_bytes()
    # Some other day, files that were copied, and a list in another order.
    monkeypatch.setattr(time, "localtime", lambda *_: time.struct_time((2040, 1, 1, 0, 0, 0, 0, 1, 0)))
    for file in (tmp_path / "site").glob("*.py"):
        file.touch()
    (listed,) = (tmp_path / "site").glob("*.dist-info/RECORD")
    listed.write_text("".join(reversed(listed.read_text().splitlines(keepends=True))))
    second = tmp_path / "second"
    second.mkdir()
    assert wheels.wheel_of(package, second).read_bytes() == first
    (tmp_path / "site" / "a.py").write_text("WORTH = 8\n")
    assert wheels.wheel_of(package, second).read_bytes() != first


@pytest.mark.parametrize(
    "files",
    [
        {"__editable__.fair_coin-1.5.pth": "/home/somebody/fair-coin\n"},
        {"__editable___fair_coin_finder.py": "", "__editable__.fair_coin-1.5.pth": "import finder\n"},
        {},
    ],
)
def test_an_editable_install_is_refused(installed: Any, folder: Path, files: dict[str, str]) -> None:
    with pytest.raises(
        ValueError, match="fair-coin: it was installed as editable; install it without -e, or name a wheel"
    ):
        wheels.wheel_of(installed(files), folder)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "tags", [("cp311-cp311-manylinux_2_17_x86_64",), ("py3-none-any", "py3-none-linux_x86_64")]
)
def test_a_package_for_one_kind_of_machine_is_refused(
    installed: Any, folder: Path, tags: tuple[str, ...]
) -> None:
    package = installed({"fair_coin.py": MODULE}, tags=tags)
    with pytest.raises(ValueError, match="fair-coin: it is not plain Python; name a wheel or source package"):
        wheels.wheel_of(package, folder)


@pytest.mark.parametrize("group", wheels.PLUGIN_GROUPS)
def test_a_plugin_is_found_by_its_entry_point(
    group: str, installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [package.name for package in wheels.plugins()]
    assert "ldpbeam" not in before
    installed(
        {"fair_coin.py": MODULE},
        entry_points_txt=f"[{group}]\nfair = fair_coin:Fair\nunfair = fair_coin:Unfair\n",
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert [package.name for package in wheels.plugins()] == sorted([*before, "fair-coin"])


def test_a_checkout_is_a_source_package_and_stays_as_it_is(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "checkout"
    here.mkdir()
    (here / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='fair-coin', version='1.5', py_modules=['fair_coin'])\n"
    )
    (here / "fair_coin.py").write_text(MODULE)
    before = sorted(here.rglob("*"))
    monkeypatch.chdir(tmp_path)
    made = wheels.source_package(here / "setup.py", folder.relative_to(tmp_path))
    assert sorted(here.rglob("*")) == before
    with tarfile.open(made) as package:
        names = package.getnames()
    assert "fair_coin-1.5/fair_coin.py" in names
    assert "fair_coin-1.5/PKG-INFO" in names


@pytest.mark.parametrize(
    ("setup", "says"),
    [("import setuptools_of_nobody", "No module named 'setuptools_of_nobody'"), ("", "it makes no package")],
)
def test_a_checkout_that_makes_no_source_package(tmp_path: Path, folder: Path, setup: str, says: str) -> None:
    (tmp_path / "setup.py").write_text(setup)
    with pytest.raises(ValueError, match=f"setup.py: workers need .*{says}.*pip install setuptools"):
        wheels.source_package(tmp_path / "setup.py", folder)


def test_what_is_ours_is_of_the_checkout_or_else_installed(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(wheels, "source_package", lambda setup, _: f"source package of {setup}")
    monkeypatch.setattr(wheels, "wheel_of", lambda package, _: f"wheel of {package}")
    setup = Path(__file__).parents[2] / "setup.py"
    assert wheels.checkout() == setup
    assert wheels.ours(folder) == f"source package of {setup}"
    monkeypatch.setattr(wheels, "checkout", lambda: None)
    assert wheels.ours(folder) == "wheel of ldpbeam"


def test_installed_code_is_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site-packages" / "ldpbeam" / "runners"
    installed.mkdir(parents=True)
    monkeypatch.setattr(wheels, "__file__", str(installed / "wheels.py"))
    assert wheels.checkout() is None
    # A file of that name that somebody else left there.
    (installed.parent / "setup.py").touch()
    assert (installed.parent / "schemas").is_dir() is False
    assert wheels.checkout() is None
