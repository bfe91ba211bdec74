"""One run per output folder at a time; runs that may share a folder share its lock.

On a local file system a run takes a kernel lock on a file in the folder. The kernel releases it when the
process ends, however it ends. Object stores have no locks: there a run writes a marker file, renews it, and
looks for the markers of other runs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import uuid
from collections.abc import Iterator

from apache_beam.io.filesystems import FileSystems

from ldpbeam.pipelines.errors import UserError
from ldpbeam.transforms.patterns import matching
from ldpbeam.transforms.storage import literal, make_folder, write_bytes

LOCK = ".lock"
_ALONE, _SHARED = f"{LOCK}.alone.", f"{LOCK}.shared."
#: Seconds between two renewals of a marker, and the age in seconds from which a marker is ignored.
RENEWED_SECONDS, STALE_SECONDS = 60.0, 300.0
#: The error numbers of file systems without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def is_lock(name: str) -> bool:
    """Whether a file of this name is a lock or a marker, and so not an output."""
    return name.startswith((LOCK, f".{LOCK}"))


@contextlib.contextmanager
def locked(folder: str, *, alone: bool, wait: bool = False) -> Iterator[None]:
    """Hold the lock of an output folder; the folder is created if it does not exist.

    Args:
        folder: the output folder, a local path or a URL of an object store.
        alone: whether this run excludes all others; if not, runs that do not ask for this share the lock.
        wait: whether to wait until others release the lock; ignored on object stores.

    Raises:
        UserError: if another run holds the lock; after the block, if the folder was deleted or moved
            meanwhile, so that outputs are missing.
        OSError: if the folder cannot be created or written to.
    """
    make_folder(folder)
    if "://" in folder:
        with _marked(folder, alone):
            yield
        return
    path = os.path.join(folder, LOCK)  # noqa: PTH118
    kind = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB)
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(file, kind)
        except BlockingIOError:
            os.close(file)
            raise UserError(_taken(folder)) from None
        except OSError as error:
            os.close(file)
            if error.errno not in _NO_LOCKS:
                raise
            with _marked(folder, alone):
                yield
            return
        if _is_there(path, file):
            break
        # The last holder of this lock file has just deleted it: try again with a new file.
        os.close(file)
    try:
        yield
        if not _is_there(path, file):
            raise UserError(_gone(folder))
    finally:
        with contextlib.suppress(OSError):
            # The last holder deletes the file; this fails while others share the lock.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(path, file):
                os.unlink(path)  # noqa: PTH108
        os.close(file)


def _taken(folder: str) -> str:
    return (
        f"--output {folder}: another run is writing there now; start this one when it has ended, or name "
        "another folder"
    )


def _gone(folder: str) -> str:
    return f"--output {folder}: it was deleted or moved while the run was writing there; start the run again"


def _is_there(path: str, file: int) -> bool:
    """Whether a path still names this open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def _marked(folder: str, alone: bool) -> Iterator[None]:
    mark = FileSystems.join(folder, f"{_ALONE if alone else _SHARED}{uuid.uuid4().hex}")
    write_bytes(mark, b"")
    done = threading.Event()

    def renew() -> None:
        while not done.wait(RENEWED_SECONDS):
            # If the store cannot be reached now, the next renewal tries again.
            with contextlib.suppress(Exception):
                if FileSystems.exists(mark):
                    write_bytes(mark, b"")

    thread = threading.Thread(target=renew, daemon=True)
    try:
        # Each run writes its marker before it looks: of two that start together, at least one sees the other.
        if _others(folder, mark, alone):
            raise UserError(f"{_taken(folder)}; a run that was killed is forgotten after 5 minutes")
        thread.start()
        yield
        if not FileSystems.exists(mark):
            raise UserError(_gone(folder))
    finally:
        done.set()
        if thread.is_alive():
            thread.join()
        if FileSystems.exists(mark):
            FileSystems.delete([literal(mark)])


def _others(folder: str, marker: str, alone: bool) -> list[str]:
    """The paths of markers of other runs that exclude this run; stale markers are left out."""
    pattern = FileSystems.join(literal(folder), f"{f'{LOCK}.' if alone else _ALONE}*")
    # Both times come from the clock of the store.
    updated = {entry.path: entry.last_updated_in_seconds for entry in matching(pattern)}
    (mine,) = matching(literal(marker))
    now = mine.last_updated_in_seconds
    return [
        path
        for path, time in updated.items()
        if path != mine.path and (time is None or now is None or time > now - STALE_SECONDS)
    ]
