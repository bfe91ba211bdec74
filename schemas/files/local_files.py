"""What a name on this machine stands for, before it is opened: a FIFO would be waited for without end."""

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
    """A name that stands for something whose end is not known; its text says for what, and what to do."""


def refuse_special(path: str) -> None:
    """See that a name on this machine stands for a file or a folder, without opening it.

    Raises:
        NotAFileError: if it stands for a FIFO, a device or a socket.
        OSError: if nothing has this name.
    """
    kind = _KINDS.get(stat.S_IFMT(Path(path).stat().st_mode))
    if kind is not None:
        raise NotAFileError(f"it is {kind}, not a file: write what comes from it to a file, and name that")
