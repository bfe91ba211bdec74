"""Files on any file system that Beam knows: whole ones or none, and none that is not a file.

Every file is written under a temporary name and renamed, so that a retried or failed worker leaves no half of
one.
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
from apache_beam.io.localfilesystem import LocalFileSystem

from ldpbeam.schemas.files.local_files import refuse_special


def literal(path: str) -> str:
    """A path as a pattern of itself: Beam's match and delete take patterns."""
    return re.sub(r"([*?[])", r"[\1]", path)


def open_raw(path: str) -> IO[bytes]:
    """A file's own bytes, whatever its name says of compression.

    Raises:
        NotAFileError: if it is a FIFO, a device or a socket; it is not opened.
    """
    if "://" not in path:
        refuse_special(path)
    return cast("IO[bytes]", FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))


@contextlib.contextmanager
def replacing(path: str, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A stream to a temporary file that becomes ``path`` at the end, or nothing if there is an error.

    Args:
        path: on any file system Beam knows.
        private: whether its owner alone may read it, from the moment it is there, on a local file system. On
            others the bucket's own rules hold.
    """
    folder, name = FileSystems.split(path)
    # File systems take names of 255 bytes.
    temporary = FileSystems.join(folder, f".{name[:200]}.{uuid.uuid4().hex}")
    stream = _create_private(temporary) if private and _is_local(temporary) else _create(temporary)
    try:
        with stream:
            yield stream
        FileSystems.rename([temporary], [path])
    except BaseException:
        with contextlib.suppress(Exception):
            FileSystems.delete([literal(temporary)])
        raise


def _create(path: str) -> IO[bytes]:
    return cast("IO[bytes]", FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED))


def _create_private(path: str) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _is_local(path: str) -> bool:
    return isinstance(FileSystems.get_filesystem(path), LocalFileSystem)


def half_written(name: str) -> bool:
    """Whether a file of this name is one that :func:`replacing` left behind when its process was killed."""
    return re.fullmatch(r"\..*\.[0-9a-f]{32}", name) is not None


def make_folder(path: str, *, private: bool = False) -> None:
    """A folder, where the file system has folders and this one is not there yet.

    Args:
        path: on any file system Beam knows.
        private: whether its owner alone may enter a new one, on a local file system. One that is there keeps
            the mode that somebody gave it.
    """
    if FileSystems.exists(path):
        return
    try:
        if private and _is_local(path):
            Path(path).mkdir(mode=0o700, parents=True)
        else:
            FileSystems.mkdirs(path)
    except OSError:
        # Another run may have made it just now.
        if not FileSystems.exists(path):
            raise


def write_bytes(path: str, data: bytes) -> None:
    """A whole file, at once."""
    with replacing(path) as stream:
        stream.write(data)


def read_json(path: str) -> Any:
    """What is in a file of JSON.

    Raises:
        ValueError: if it is damaged.
    """
    with open_raw(path) as stream:
        try:
            return json.load(stream)
        except ValueError as error:
            raise ValueError(f"{path}: this is no JSON ({error})") from None


def read_json_lines(path: str) -> list[dict[str, Any]]:
    """The records in a file that has one a line."""
    with open_raw(path) as stream:
        return [json.loads(line) for line in stream.read().splitlines()]
