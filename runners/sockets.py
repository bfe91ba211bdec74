"""Unix sockets in a folder that no other account may enter, so that no other account can connect to them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import quote

#: The most bytes of a socket's path that every system accepts.
LONGEST_PATH = 100
#: The most bytes that a socket's name adds to the path of its folder.
_LONGEST_NAME = 12


def private_folder() -> Path:
    """Make a temporary folder for sockets that only this account may enter; the caller deletes it.

    Raises:
        OSError: if the folder cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix="ldpbeam-"))
    if len(os.fsencode(folder)) + _LONGEST_NAME > LONGEST_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="ldpbeam-", dir="/tmp"))
    return folder


def target(socket: Path) -> str:
    """The address of a socket for gRPC clients and servers."""
    return f"unix://{quote(str(socket))}"
