"""One run per output folder at a time; runs that may share a folder share its lock.

A run takes a kernel lock on a file in the folder. The kernel releases it when the process ends, however it
ends. Object stores and some file systems have no locks: there the user must keep runs apart.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ldpbeam.errors import UserError
from ldpbeam.printing import warn
from ldpbeam.transforms.storage import make_folder

LOCK = ".lock"
#: The error numbers of file systems without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def locked(folder: str, *, alone: bool, wait: bool = False) -> Iterator[None]:
    """Hold the lock of an output folder, if it can have one; the folder is created if it does not exist.

    Args:
        folder: the output folder, a local path or a URL of an object store.
        alone: whether this run excludes all others; if not, runs that do not ask for this share the lock.
        wait: whether to wait until others release the lock.

    Raises:
        UserError: if another run holds the lock; after the block, if the folder was deleted or moved
            meanwhile, so that outputs are missing.
        OSError: if the folder cannot be created or written to.
    """
    make_folder(folder)
    if "://" in folder:
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
            raise UserError(
                f"--output {folder}: another run is writing there now; start this one when it has ended, or "
                "name another folder"
            ) from None
        except OSError as error:
            os.close(file)
            if error.errno not in _NO_LOCKS:
                raise
            Path(path).unlink(missing_ok=True)
            if not wait:
                warn(f"--output {folder}: its file system has no locks; see that no other run writes there")
            yield
            return
        if _is_there(path, file):
            break
        # The last holder of this lock file has just deleted it: try again with a new file.
        os.close(file)
    try:
        yield
        if not _is_there(path, file):
            raise UserError(
                f"--output {folder}: it was deleted or moved while the run was writing there; start the run "
                "again"
            )
    finally:
        with contextlib.suppress(OSError):
            # The last holder deletes the file; this fails while others share the lock.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(path, file):
                os.unlink(path)  # noqa: PTH108
        os.close(file)


def _is_there(path: str, file: int) -> bool:
    """Whether a path still names this open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
