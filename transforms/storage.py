"""Reading and writing whole files on this machine and in object stores; devices and sockets are refused.

A file of this machine is written under a temporary name and then renamed, so that a retried or failed worker
leaves no half-written file under the final name, and is on disk before success is reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from ldpbeam.schemas.files.local_files import refuse_special
from ldpbeam.transforms import object_stores


class Disk:
    """The steps in which this machine's disk changes; a simulation puts another in its place."""

    def create(self, path: str, mode: int) -> IO[bytes]:
        """A new file."""
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")

    def sync(self, file: IO[bytes]) -> None:
        """Let the disk have the contents of a file."""
        file.flush()
        os.fsync(file.fileno())

    def make_folder(self, path: str, mode: int) -> None:
        """A new folder in one that exists, unless another process has made it."""
        Path(path).mkdir(mode, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, in the place of a file that has it."""
        Path(source).rename(target)

    def sync_folder(self, path: str) -> None:
        """Let the disk have the names in a folder."""
        folder = os.open(path or os.curdir, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def unlink(self, path: str) -> None:
        """Delete a file, if it exists."""
        Path(path).unlink(missing_ok=True)


disk = Disk()


def literal(path: str) -> str:
    """A pattern that matches one path alone."""
    return re.sub(r"([*?[])", r"[\1]", path)


def is_local(path: str) -> bool:
    """Whether a path or pattern is of this machine, and not a URL."""
    return "://" not in path


def join(folder: str, *names: str) -> str:
    """A path below a folder."""
    return posixpath.join(folder, *names)


def split(path: str) -> tuple[str, str]:
    """The folder of a file, absolute if it is of this machine, and its name in it."""
    return posixpath.split(posixpath.abspath(path) if is_local(path) else path)


def exists(path: str) -> bool:
    """Whether there is such a file or folder."""
    return posixpath.exists(path) if is_local(path) else object_stores.object_at(path) is not None


def rename(source: str, target: str) -> None:
    """Give a file another name on the same disk or in the same store, in the place of a file that has it."""
    if is_local(source):
        disk.rename(source, target)
    else:
        object_stores.rename(source, target)


def delete(paths: Sequence[str]) -> None:
    """Delete those of the files that exist.

    Raises:
        OSError: if one cannot be deleted.
    """
    for path in filter(is_local, paths):
        disk.unlink(path)
    remote = [path for path in paths if not is_local(path)]
    if remote:
        object_stores.delete(remote)


def open_raw(path: str) -> IO[bytes]:
    """Open a file without decompressing it, whatever its name ends with.

    Raises:
        NotAFileError: if it is a FIFO, a device or a socket; it is not opened.
    """
    if is_local(path):
        refuse_special(path)
        return Path(path).open("rb")
    return object_stores.opened(path)


@contextlib.contextmanager
def replacing(path: str, *, private: bool = False, durable: bool = True) -> Iterator[IO[bytes]]:
    """A stream whose bytes are the file at the end; after an error the file is as it was.

    Args:
        path: a path of this machine or in an object store.
        private: whether the owner alone may read the file, from its creation on. In object stores the rules
            of the bucket hold instead.
        durable: whether the disk has the file at the end, for which some milliseconds are waited; if not, a
            power failure may take it.
    """
    if not is_local(path):
        with object_stores.uploading(path) as stream:
            yield stream
        return
    folder, name = split(path)
    # File systems take names of at most 255 bytes.
    temporary = join(folder, f".{name[:200]}.{uuid.uuid4().hex}")
    if not private:
        make_folder(folder)
    stream = disk.create(temporary, 0o600 if private else 0o666)
    try:
        with stream:
            yield stream
            if durable:
                disk.sync(stream)
        disk.rename(temporary, path)
        if durable:
            disk.sync_folder(folder)
    except BaseException as error:
        with contextlib.suppress(Exception):
            disk.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            # A write that finds the disk full does not say which disk.
            error.filename = path
        raise


def half_written(name: str) -> bool:
    """Whether this is the name of a temporary file that a killed process left in :func:`replacing`."""
    return re.fullmatch(r"\..*\.[0-9a-f]{32}", name) is not None


def make_folder(path: str, *, private: bool = False) -> None:
    """Create a folder and its parents on this machine, if it does not exist; object stores need none.

    Args:
        path: the folder.
        private: whether the owner alone may enter the new folder. A folder that exists keeps its mode.
    """
    if not is_local(path) or exists(path):
        return
    try:
        new = [each for each in (Path(path), *Path(path).parents) if not each.exists()]
        for each in reversed(new):
            disk.make_folder(str(each), 0o700 if private and each == Path(path) else 0o777)
            disk.sync_folder(str(each.parent))
    except OSError:
        # Another run may have made it just now.
        if not exists(path):
            raise


def write_bytes(path: str, data: bytes) -> None:
    """Write a file; it appears whole or not at all."""
    with replacing(path) as stream:
        stream.write(data)


def write_json(path: str, value: object) -> None:
    """Write a value as JSON; the file appears whole or not at all."""
    write_bytes(path, json.dumps(value, indent=2).encode() + b"\n")


def read_json(path: str) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: if it is not JSON; it names the file.
    """
    with open_raw(path) as stream:
        try:
            return json.load(stream)
        except ValueError as error:
            raise ValueError(f"{path}: this is not JSON ({error})") from None


@contextlib.contextmanager
def spilling_in(folder: str) -> Iterator[None]:
    """Make an error of the disk name the folder in which a run spills, and say how to choose another."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{error.strerror}: '{folder}'; reports that are compared or refused are spilled there, and "
            "TMPDIR names another folder"
        ) from error
