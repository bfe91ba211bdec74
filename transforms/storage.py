"""Reading and writing whole files on any file system that Beam knows; devices and sockets are refused.

Every file is written under a temporary name and then renamed, so that a retried or failed worker leaves no
half-written file under the final name. A local file is on disk before success is reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from ldpbeam.schemas.files.local_files import refuse_special


def literal(path: str) -> str:
    """A pattern that matches one path alone, since Beam's match and delete take patterns."""
    return re.sub(r"([*?[])", r"[\1]", path)


def open_raw(path: str) -> IO[bytes]:
    """Open a file without decompressing it, whatever its name ends with.

    Raises:
        NotAFileError: if it is a FIFO, a device or a socket; it is not opened.
    """
    if is_local(path):
        refuse_special(path)
    return cast("IO[bytes]", FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))


@contextlib.contextmanager
def replacing(path: str, *, private: bool = False, durable: bool = True) -> Iterator[IO[bytes]]:
    """A stream to a temporary file, which is renamed to ``path`` at the end, or deleted after an error.

    Args:
        path: a path on any file system that Beam knows.
        private: whether the owner alone may read the file, from its creation on. On object stores the rules
            of the bucket hold instead.
        durable: whether the disk has the file at the end, for which some milliseconds are waited; if not, a
            power failure may take it.
    """
    folder, name = FileSystems.split(path)
    durable = durable and is_local(path)
    # File systems take names of at most 255 bytes.
    temporary = FileSystems.join(folder, f".{name[:200]}.{uuid.uuid4().hex}")
    if private and is_local(temporary):
        stream: Any = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    else:
        stream = FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED)
    try:
        with stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        FileSystems.rename([temporary], [path])
        if durable:
            sync_folder(folder)
    except BaseException:
        with contextlib.suppress(Exception):
            FileSystems.delete([literal(temporary)])
        raise


def sync_folder(path: str) -> None:
    """Let the disk have the names in a local folder."""
    folder = os.open(path or os.curdir, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_local(path: str) -> bool:
    """Whether a path or pattern is of this machine, and not a URL."""
    return "://" not in path


def half_written(name: str) -> bool:
    """Whether this is the name of a temporary file that a killed process left in :func:`replacing`."""
    return re.fullmatch(r"\..*\.[0-9a-f]{32}", name) is not None


def make_folder(path: str, *, private: bool = False) -> None:
    """Create a folder and its parents, if the file system has folders and this one does not exist.

    Args:
        path: a path on any file system that Beam knows.
        private: whether the owner alone may enter the new folder, on a local file system. A folder that
            exists keeps its mode.
    """
    if FileSystems.exists(path):
        return
    local = is_local(path)
    new = [each for each in (Path(path), *Path(path).parents) if local and not each.exists()]
    try:
        if private and local:
            Path(path).mkdir(mode=0o700, parents=True)
        else:
            FileSystems.mkdirs(path)
        for each in new:
            sync_folder(str(each.parent))
    except OSError:
        # Another run may have made it just now.
        if not FileSystems.exists(path):
            raise


def write_bytes(path: str, data: bytes) -> None:
    """Write a file; it appears whole or not at all."""
    with replacing(path) as stream:
        stream.write(data)


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
