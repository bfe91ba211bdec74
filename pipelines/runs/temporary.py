"""The temporary folder of a run, which is deleted with all that is in it however the run ends.

A run holds the kernel's lock of its folder, which the kernel releases when the process ends. So a killed run
leaves a folder that nobody holds, and the next run deletes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ldpbeam.pipelines.interrupts import sigterm_is_ctrl_c

_PREFIX = "ldpbeam-run-"


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder of mode 0700 below ``TMPDIR``; folders that killed runs of this account left are deleted.

    While it is open, SIGTERM is Ctrl-C, so that the folder is deleted.

    Raises:
        OSError: if there is no temporary folder, or it cannot be written to.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _delete_unless_held(left)
    with sigterm_is_ctrl_c():
        folder, lock = _held()
        try:
            yield folder
        finally:
            _delete(folder)
            os.close(lock)


def _held() -> tuple[Path, int]:
    """A new folder, and the open file that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            # Some file systems of networks have no locks on folders: there, nothing is deleted later.
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            # Another run deleted the folder before this process had the lock: it seemed abandoned.
            os.close(lock)


def _delete_unless_held(folder: Path) -> None:
    """Delete a folder of this account, if no process holds its lock and it can be deleted."""
    with contextlib.suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_uid == os.geteuid():
                _delete(folder)
        finally:
            os.close(lock)


def _delete(folder: Path) -> None:
    """Delete a folder, as far as this account can; a worker that still runs finds no folder of this name."""
    gone = folder.with_name(f"{folder.name}-gone")
    with contextlib.suppress(OSError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
