"""Refusal of FIFOs, devices and sockets before they are opened: opening a FIFO could wait for ever."""

from __future__ import annotations

import stat
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotAFileError(OSError):
    """A path that is a FIFO, a device or a socket, which may have no end; the message says what to do."""


def refuse_special(path: str) -> None:
    """Check, without opening it, that a path on this machine is a file or a folder.

    Raises:
        NotAFileError: if the path is a FIFO, a device or a socket.
        OSError: if the path does not exist.
    """
    kind = _KINDS.get(stat.S_IFMT(Path(path).stat().st_mode))
    if kind is not None:
        raise NotAFileError(f"it is {kind}, not a file: write its output to a file, and name that file")
