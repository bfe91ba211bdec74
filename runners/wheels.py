"""What workers install: this package and the plugins beside it, as files that can be staged with a job.

A worker on Dataflow installs what is staged. What a person installed from an index, a private one or a
folder is not always there to be had again, but the files are: a wheel is those files and a list. Only a
checkout, whose files lie elsewhere, is made into a source package, by its own ``setup.py``.
"""

from __future__ import annotations

import base64
import hashlib
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, entry_points
from pathlib import Path

#: The entry points under which packages of other people add to ours.
PLUGIN_GROUPS = ("ldpbeam.mechanisms", "ldpbeam.estimators")
#: What an installer leaves, and a wheel does not have.
_NOT_IN_WHEELS = frozenset({"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"})
_NAME_IT = "name a wheel or source package of it with --extra_package"


def plugins() -> list[Distribution]:
    """The packages that add to ours by an entry point, each once, by name."""
    found = {
        point.dist.name: point.dist
        for group in PLUGIN_GROUPS
        for point in entry_points(group=group)
        if point.dist is not None
    }
    return [found[name] for name in sorted(found)]


def checkout() -> Path | None:
    """The ``setup.py`` beside which this code lies, where it is a checkout; None where it is installed."""
    here = Path(__file__).resolve().parents[1] / "setup.py"
    return here if here.is_file() and (here.parent / "schemas").is_dir() else None


def ours(folder: Path) -> Path:
    """This package as the person has it: a source package of a checkout, else a wheel.

    Raises:
        ValueError: if it cannot be made.
    """
    setup = checkout()
    return source_package(setup, folder) if setup else wheel_of("ldpbeam", folder)


def source_package(setup: Path, folder: Path) -> Path:
    """The source package that a ``setup.py`` makes; nothing is written beside it.

    Raises:
        ValueError: if it makes none.
    """
    place = Path(tempfile.mkdtemp(dir=folder.resolve()))
    made = subprocess.run(
        [sys.executable, setup.name, "--quiet", "egg_info", f"--egg-base={place}"]
        + ["sdist", "--formats=gztar", f"--dist-dir={place}"],
        cwd=setup.parent,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found = list(place.glob("*.tar.gz"))
    if made.returncode or len(found) != 1:
        said = (made.stderr.strip() or "it makes none").splitlines()[-1]
        raise ValueError(
            f"{setup}: workers need a source package of it ({said}); it takes setuptools: "
            "pip install setuptools"
        )
    return found[0]


def wheel_of(package: Distribution | str, folder: Path) -> Path:
    """A wheel of an installed package; the same files give the same bytes.

    Raises:
        ValueError: if it is not plain Python, or only linked to (an editable install) and not installed.
    """
    found = distribution(package) if isinstance(package, str) else package
    # A package may hold copies of others, with what is said of those.
    about = [file for file in found.files or () if file.match("*.dist-info/WHEEL") and len(file.parts) == 2]
    if not about:
        raise ValueError(f"{found.name}: it was not installed as a wheel; install it again, with pip")
    # As in Tag: py3-none-any: for which Python, which binary interface, which machine.
    tags = [
        line.removeprefix("Tag: ").strip().split("-")
        for line in about[0].read_text().splitlines()
        if line.startswith("Tag: ")
    ]
    if any(tag[1:] != ["none", "any"] for tag in tags):
        raise ValueError(f"{found.name}: it is not plain Python; {_NAME_IT}")
    files = [
        (str(file), found.locate_file(file))
        for file in found.files or ()
        if ".." not in file.parts and "__pycache__" not in file.parts and file.name not in _NOT_IN_WHEELS
    ]
    if not any(name.endswith(".py") for name, _ in files) or any(name.endswith(".pth") for name, _ in files):
        raise ValueError(f"{found.name}: an editable install; install it, or {_NAME_IT}")
    # The folder of what is said of the package has the name that its wheel had, whatever the package says.
    information = about[0].parent
    pythons = ".".join(sorted(tag[0] for tag in tags))
    path = folder / f"{information.stem}-{pythons}-none-any.whl"
    read = ((name, Path(str(place)).read_bytes(), False) for name, place in sorted(files))
    write_wheel(path, str(information), read)
    return path


def write_wheel(path: Path, information: str, files: Iterable[tuple[str, bytes, bool]]) -> None:
    """Write a wheel; the same files give the same bytes.

    Args:
        path: of the wheel.
        information: the name of the folder in it that says what it is.
        files: their names, contents, and whether they are programs.
    """
    record = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data, program in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            _write(wheel, name, data, program)
        listed = f"{information}/RECORD"
        _write(wheel, listed, "\n".join([*record, f"{listed},,", ""]).encode())


def _write(wheel: zipfile.ZipFile, name: str, data: bytes, program: bool = False) -> None:
    # An entry made so is of 1980, where one made of a file has its time.
    entry = zipfile.ZipInfo(name)
    if program:
        entry.external_attr = (stat.S_IFREG | 0o755) << 16
    wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)


def package_in(file: str) -> str:
    """The package that a wheel or source package has, by its name; written as indexes write names."""
    return canonical(re.split(r"[/\\]", file)[-1].partition("-")[0])


def canonical(name: str) -> str:
    """A package's name as indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()
