"""Unix sockets in a folder that no other account may enter: what listens there is nobody else's to ask."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import quote

#: Bytes of a socket's path that every system takes.
LONGEST_PATH = 100
#: Bytes that a socket's name adds to the path of its folder.
_LONGEST_NAME = 12


def private_folder() -> Path:
    """Make a folder for sockets that only this account may enter; whoever asks for it deletes it.

    Raises:
        OSError: if there is no room for temporary files, or only where paths are too long for sockets.
    """
    folder = Path(tempfile.mkdtemp(prefix="ldpbeam-"))
    if len(os.fsencode(folder)) + _LONGEST_NAME > LONGEST_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="ldpbeam-", dir="/tmp"))
    return folder


def target(socket: Path) -> str:
    """A socket as gRPC clients and servers name it."""
    return f"unix://{quote(str(socket))}"
