"""``make prism-wheel``: a wheel with the Prism that is built here, for machines without Go.

    python -m ldpbeam.runners.prism.wheel FOLDER

The binary needs no library of the system. The wheel's SHA-256 is written next to the wheel.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import sys
import sysconfig
from pathlib import Path

from ldpbeam.runners.prism.build import BEAM, BuildError, build
from ldpbeam.runners.prism.find import WHEEL
from ldpbeam.runners.wheels import write_wheel

_ABOUT = f"""Metadata-Version: 2.1
Name: ldpbeam-prism
Version: {BEAM}
Summary: Apache Beam's Prism, patched to serve on a Unix socket, for ldpbeam
License: Apache-2.0
"""


def main() -> int:
    """Build Prism, pack the wheel and print its path; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="for the wheel and its checksum")
    folder = parser.parse_args().folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        wheel = pack(build().read_bytes(), folder)
    except (BuildError, OSError) as error:
        print(f"make prism-wheel: {error}", file=sys.stderr)
        return 1
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    wheel.with_name(f"{wheel.name}.sha256").write_text(f"{digest}  {wheel.name}\n")
    print(f"{wheel} (SHA-256 {digest})")
    return 0


def pack(binary: bytes, folder: Path) -> Path:
    """Write a wheel with a binary, and return its path; the same binary gives the same bytes.

    Args:
        binary: a Prism that was built on this machine.
        folder: the folder for the wheel.
    """
    tag = f"py3-none-{_platforms()}"
    information = f"{WHEEL}-{BEAM}.dist-info"
    files = [
        (f"{WHEEL}/__init__.py", b'"""A binary of Prism, which ldpbeam finds here."""\n', False),
        (f"{WHEEL}/prism", binary, True),
        (f"{information}/METADATA", _ABOUT.encode(), False),
        (f"{information}/WHEEL", _wheel_file(tag).encode(), False),
    ]
    path = folder / f"{WHEEL}-{BEAM}-{tag}.whl"
    write_wheel(path, information, files)
    return path


def _platforms() -> str:
    """The platform tags of the binary, in a wheel's notation."""
    machine = platform.machine()
    if sys.platform == "linux":
        # The binary was built without the C library, so it runs with every C library.
        return f"manylinux2014_{machine}.manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _wheel_file(tag: str) -> str:
    python, interface, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{interface}-{platform}\n" for platform in platforms.split("."))
    return f"Wheel-Version: 1.0\nGenerator: ldpbeam\nRoot-Is-Purelib: false\n{tags}"


if __name__ == "__main__":
    sys.exit(main())
