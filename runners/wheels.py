"""Packages that workers install: this package and its plugins, as files that are staged with a job.

A worker on Dataflow installs the staged files. A package that the user installed from an index or a folder
may not be available there any more, but its installed files are: a wheel is those files and a list of them.
A checkout has no installed files, so its ``setup.py`` makes a source package.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, entry_points
from pathlib import Path

#: The groups of entry points under which other packages add mechanisms and estimators.
PLUGIN_GROUPS = ("ldpbeam.mechanisms", "ldpbeam.estimators")
#: Files that an installer writes and a wheel does not have.
_NOT_IN_WHEELS = frozenset({"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"})
_NAME_IT = "name a wheel or source package of it with --extra_package"


def plugins() -> list[Distribution]:
    """The distinct packages that have an entry point in ``PLUGIN_GROUPS``, sorted by name."""
    by_name = {
        point.dist.name: point.dist
        for group in PLUGIN_GROUPS
        for point in entry_points(group=group)
        if point.dist is not None
    }
    return [by_name[name] for name in sorted(by_name)]


def checkout() -> Path | None:
    """The path of ``setup.py`` if this code is in a checkout; None if it is installed."""
    here = Path(__file__).resolve().parents[1] / "setup.py"
    return here if here.is_file() and (here.parent / "schemas").is_dir() else None


def ours(folder: Path) -> Path:
    """Write this package to a folder, as a source package of a checkout, else as a wheel; return its path.

    Raises:
        ValueError: if the package cannot be made.
    """
    setup = checkout()
    return source_package(setup, folder) if setup else wheel_of("ldpbeam", folder)


def source_package(setup: Path, folder: Path) -> Path:
    """Let a ``setup.py`` write a source package into a folder, and nothing next to itself; return its path.

    Raises:
        ValueError: if ``setup.py`` fails.
    """
    built = Path(tempfile.mkdtemp(dir=folder.resolve()))
    made = subprocess.run(
        [sys.executable, setup.name, "--quiet", "egg_info", f"--egg-base={built}"]
        + ["sdist", "--formats=gztar", f"--dist-dir={built}"],
        cwd=setup.parent,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    packages = list(built.glob("*.tar.gz"))
    if made.returncode or len(packages) != 1:
        said = (made.stderr.strip() or "it makes no package").splitlines()[-1]
        raise ValueError(
            f"{setup}: workers need its source package, which was not built ({said}): pip install setuptools"
        )
    return packages[0]


def wheel_of(package: Distribution | str, folder: Path) -> Path:
    """Write a wheel of an installed package, and return its path; the same files give the same bytes.

    Args:
        package: the package or its name.
        folder: the folder for the wheel.

    Raises:
        ValueError: if the package was not installed from a wheel, is not plain Python, or is an editable
            install.
    """
    installed = distribution(package) if isinstance(package, str) else package
    # A package may contain copies of others, with their metadata.
    about = [
        file for file in installed.files or () if file.match("*.dist-info/WHEEL") and len(file.parts) == 2
    ]
    if not about:
        raise ValueError(f"{installed.name}: it was not installed as a wheel; install it again, with pip")
    # A line such as "Tag: py3-none-any" has the version of Python, the binary interface and the platform.
    tags = [
        line.removeprefix("Tag: ").strip().split("-")
        for line in about[0].read_text().splitlines()
        if line.startswith("Tag: ")
    ]
    if any(tag[1:] != ["none", "any"] for tag in tags):
        raise ValueError(f"{installed.name}: it is not plain Python; {_NAME_IT}")
    files = [
        (str(file), installed.locate_file(file))
        for file in installed.files or ()
        if ".." not in file.parts and "__pycache__" not in file.parts and file.name not in _NOT_IN_WHEELS
    ]
    if not any(name.endswith(".py") for name, _ in files) or any(name.endswith(".pth") for name, _ in files):
        raise ValueError(
            f"{installed.name}: it was installed as editable; install it without -e, or {_NAME_IT}"
        )
    # The wheel is named as its metadata folder is: the package may spell its own name otherwise.
    information = about[0].parent
    pythons = ".".join(sorted(tag[0] for tag in tags))
    path = folder / f"{information.stem}-{pythons}-none-any.whl"
    read = ((name, Path(str(source)).read_bytes()) for name, source in sorted(files))
    write_wheel(path, str(information), read)
    return path


def write_wheel(path: Path, information: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Write a wheel; the same files give the same bytes.

    Args:
        path: the path of the wheel.
        information: the name of the wheel's metadata folder.
        files: the name and the content of each file.
    """
    record = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            _write(wheel, name, data)
        listed = f"{information}/RECORD"
        _write(wheel, listed, "\n".join([*record, f"{listed},,", ""]).encode())


def _write(wheel: zipfile.ZipFile, name: str, data: bytes) -> None:
    # An entry made from a name has the date 1980; one made from a file would have the file's.
    wheel.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


def package_in(file: str) -> str:
    """The canonical name of the package in a wheel or source package, from the file's name."""
    return canonical(re.split(r"[/\\]", file)[-1].partition("-")[0])


def canonical(name: str) -> str:
    """A package's name in the normal form in which indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()
