"""Installed packages as wheels again, for workers that cannot reach where they came from.

A worker on Dataflow installs what is staged with the job. What a person installed from an index, a private
one or a folder is not always there to be had again, but the files are: a wheel is those files and a list.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import Distribution, distribution, entry_points
from pathlib import Path

#: The entry points under which packages of other people add to ours.
PLUGIN_GROUPS = ("ldpbeam.mechanisms",)
#: What an installer leaves, and a wheel does not have.
_NOT_IN_WHEELS = frozenset({"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"})


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


def wheel_of(package: Distribution | str, folder: Path) -> Path:
    """A wheel of an installed package; the same files give the same bytes.

    Raises:
        ValueError: if it is not plain Python, or only linked to (an editable install) and not installed.
    """
    found = distribution(package) if isinstance(package, str) else package
    tags = [
        line.removeprefix("Tag: ")
        for line in (found.read_text("WHEEL") or "").splitlines()
        if line.startswith("Tag: ")
    ]
    if not tags or any(not tag.endswith("-none-any") for tag in tags):
        raise ValueError(f"{found.name}: not a package of plain Python; name a wheel with --extra_package")
    files = [
        (str(file), found.locate_file(file))
        for file in found.files or ()
        if ".." not in file.parts and "__pycache__" not in file.parts and file.name not in _NOT_IN_WHEELS
    ]
    if not any(name.endswith(".py") for name, _ in files) or any(name.endswith(".pth") for name, _ in files):
        raise ValueError(
            f"{found.name}: an editable install; install it, or name a wheel with --extra_package"
        )
    stem = f"{found.name.replace('-', '_')}-{found.version}"
    path = folder / f"{stem}-{tags[0]}.whl"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, place in sorted(files):
            data = Path(str(place)).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            wheel.writestr(zipfile.ZipInfo(name), data)
        record_name = f"{stem}.dist-info/RECORD"
        wheel.writestr(zipfile.ZipInfo(record_name), "\n".join([*record, f"{record_name},,", ""]))
    return path
