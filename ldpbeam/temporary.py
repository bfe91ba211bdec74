"""Temporary folders of a run, which are deleted with their contents however the run ends.

A run holds the kernel's lock on each folder, which the kernel releases when the process ends. So a killed run
leaves a folder that nobody holds, and the next run deletes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ldpbeam.interrupts import sigterm_is_ctrl_c

PREFIX = "ldpbeam-run-"
_VARIABLES = ("TMPDIR", "TEMP", "TMP")


def temporary_root() -> Path:
    """The folder for everything temporary: that of ``TMPDIR``, ``TEMP`` or ``TMP``, else the system's.

    Python would skip a folder that it cannot write to, and put user ids where nobody asked for them.

    Raises:
        OSError: if no file can be made there.
    """
    name = next((name for name in _VARIABLES if name in os.environ), None)
    if name is None:
        return Path(tempfile.gettempdir())
    if not os.environ[name]:
        raise OSError(f"{name} is set and empty: name a folder, or unset it for the system's")
    root = Path(os.environ[name]).absolute()
    try:
        tempfile.TemporaryFile(dir=root).close()
    except OSError as error:
        raise OSError(
            f"{name}={root}: no temporary file can be made there ({error.strerror}); name a folder that this "
            "account can write to"
        ) from None
    return root


@contextlib.contextmanager
def temporary_folder(root: Path | None = None) -> Iterator[Path]:
    """A new folder of mode 0700; folders that killed runs of this account left beside it are deleted.

    Args:
        root: the folder that contains it; :func:`temporary_root` if None.

    Raises:
        OSError: if the folder cannot be made.
    """
    root = root or temporary_root()
    with held_folder(
        lambda: Path(tempfile.mkdtemp(prefix=PREFIX, dir=root)), root.glob(f"{PREFIX}*")
    ) as folder:
        yield folder


@contextlib.contextmanager
def held_folder(new: Callable[[], Path], left: Iterable[Path]) -> Iterator[Path]:
    """A new folder, which is deleted at the end.

    Args:
        new: makes the folder.
        left: folders of earlier runs; those of killed runs of this account are deleted.
    """
    for folder in left:
        _delete_unless_held(folder)
    folder, lock = _held(new)
    try:
        yield folder
    finally:
        _delete(folder)
        os.close(lock)


@contextlib.contextmanager
def folder_of_run() -> Iterator[Path]:
    """A temporary folder, which also contains those of Beam, because Beam does not delete them.

    While it is open, SIGTERM acts as Ctrl-C, so that the folder is deleted.

    Raises:
        OSError: if the folder cannot be made.
    """
    with sigterm_is_ctrl_c(), temporary_folder() as folder:
        before, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = before


def _held(new: Callable[[], Path]) -> tuple[Path, int]:
    """A new folder, and the open file that holds its lock."""
    while True:
        folder = new()
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            # Some network file systems have no locks on folders: there, nothing is deleted later.
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            # Another run deleted the folder before this process had the lock, as it seemed abandoned.
            os.close(lock)


def _delete_unless_held(folder: Path) -> None:
    """Delete a folder of this account if no process holds its lock."""
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
