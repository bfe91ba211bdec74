"""Input files: finding them by pattern, recognising their format, and splitting them into ranges."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple

from ldpbeam.errors import without_number
from ldpbeam.schemas.encodings import avro_headers, per_byte
from ldpbeam.schemas.files import json_lines, parquet
from ldpbeam.schemas.files.local_files import NotAFileError
from ldpbeam.transforms.patterns import Entry, matching
from ldpbeam.transforms.storage import exists, is_local, literal, open_raw
from ldpbeam.untrusted import shown

#: The reason of dead letters of files that cannot be read.
BAD_FILE = "bad_file"
GZIP_MAGIC = b"\x1f\x8b"
#: Endings of file names whose formats have a header, so that a file is never empty.
_NEVER_EMPTY = (".avro", ".parquet", ".gz")
#: Files are read in ranges of about this many bytes.
RANGE_BYTES = 16 * 2**20
#: Row groups of Parquet are read in ranges of about this many rows: each range parses the footer again.
RANGE_ROWS = 2**18


#: This many bytes at the start and at the end of a file that may grow are compared with those read before.
ENDS_BYTES = 4096


class Identity(NamedTuple):
    """What tells a file on this machine from one that was written in its place.

    Attributes:
        inode: the numbers of its device and of its inode.
        modified: when it was last written, in nanoseconds.
        ends: a hash of its first and last bytes.
    """

    inode: tuple[int, int]
    modified: int
    ends: str


class ReportFile(NamedTuple):
    """A file of reports.

    Attributes:
        path: its path on this machine or in an object store.
        size: its length in bytes.
        format: avro, parquet, jsonl or jsonl.gz, by its first bytes.
        metadata: the entries of its metadata that are ldpbeam's, such as a stamp.
        identity: as it was found; None if it is not on this machine.
    """

    path: str
    size: int
    format: str
    metadata: tuple[tuple[str, str], ...] = ()
    identity: Identity | None = None


class FileRange(NamedTuple):
    """A part of a file that one worker reads.

    Attributes:
        path: the file.
        format: as in :class:`ReportFile`.
        start: the first byte (Avro, JSON lines) or row group (Parquet).
        stop: the first byte or row group after the range.
        size: the file's length in bytes when it was found.
        identity: as in :class:`ReportFile`.
    """

    path: str
    format: str
    start: int
    stop: int
    size: int
    identity: Identity | None = None


class BadFile(NamedTuple):
    """A malformed file, the problem in words, and the reason of its dead letter."""

    path: str
    problem: str
    reason: str = BAD_FILE


def reason_of(error: Exception) -> str:
    """The reason of the dead letter of a file that an error ends."""
    return per_byte.TOO_MANY_REPORTS if isinstance(error, per_byte.TooManyError) else BAD_FILE


def absolute(path: str) -> str:
    """A local path or pattern made absolute; a URL stays as it is."""
    return str(Path(path).absolute()) if is_local(path) else path


def real(path: str) -> str:
    """A local path without links; a URL stays as it is. Files of one real path are one file."""
    return str(Path(path).resolve()) if is_local(path) else path


def entries_of(patterns: Sequence[str]) -> list[list[Entry]]:
    """The files that each name or pattern from the user matches.

    The name of an existing file matches itself.

    Raises:
        PermissionError: if a folder in which a pattern looks may not be read.
    """
    return [matching(literal(path) if exists(path) else path) for path in patterns]


def match(patterns: Sequence[str]) -> list[tuple[str, int]]:
    """(path, bytes) of the files that the patterns match, sorted, each file once.

    Raises:
        FileNotFoundError: if a pattern matches no file, or a folder in which it looks may not be read; it
            names the first such pattern or folder.
    """
    try:
        found = entries_of(patterns)
    except OSError as error:
        raise FileNotFoundError(f"--input: {without_number(str(error))}") from None
    sizes: dict[str, tuple[str, int]] = {}
    for pattern, entries in zip(patterns, found, strict=True):
        if not entries:
            hint = "; in a pattern, [[] stands for a bracket" if "[" in pattern else ""
            raise FileNotFoundError(f"--input {pattern or repr(pattern)}: no file has this name{hint}")
        for entry in entries:
            sizes.setdefault(real(entry.path), (entry.path, entry.size))
    return sorted(sizes.values())


def sniff(path: str, size: int) -> ReportFile | BadFile:
    """Recognise a file's format by its first bytes, and for Parquet also by its footer.

    An empty file counts as JSON Lines without a line, unless its name ends like a format that is never empty.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        return BadFile(shown(path), "its name is not UTF-8; rename it")
    try:
        with open_raw(path) as stream:
            identity = _identity(stream, size)
            start = stream.read(4096)
            stream.seek(0)
            if start.startswith(avro_headers.MAGIC):
                header = avro_headers.read_header(stream)
                return ReportFile(path, size, "avro", _ours(header.metadata), identity)
            if start.startswith(parquet.MAGIC):
                metadata = parquet.metadata_of(stream, parquet.read_footer(stream))
                return ReportFile(path, size, "parquet", _ours(metadata), identity)
    except ValueError as error:
        return BadFile(path, str(error), reason_of(error))
    except IsADirectoryError:
        return BadFile(path, "it is a folder; to read the files in it, add /*")
    except NotAFileError as error:
        return BadFile(path, str(error))
    except OSError as error:
        return BadFile(path, f"it cannot be opened: {error}")
    if not start and path.endswith(_NEVER_EMPTY):
        return BadFile(path, "a file of its kind is never empty: it was cut off, or is still being written")
    kind = "jsonl"
    if start.startswith(GZIP_MAGIC):
        kind = "jsonl.gz"
        with contextlib.suppress(zlib.error):
            start = zlib.decompressobj(31).decompress(start, 4096)
    if (other := json_lines.other_text(start)) is not None:
        return BadFile(path, f"it is {other}")
    lines = start.removeprefix(json_lines.BYTE_ORDER_MARK).split(b"\n")
    if not start.strip() or any(line.lstrip().startswith(b"{") for line in lines):
        return ReportFile(path, size, kind, identity=identity)
    return BadFile(path, "it starts neither like Avro or Parquet, nor (gzipped or not) with JSON objects")


def _ours(metadata: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, text) for key, text in sorted(metadata.items()) if key.startswith("ldpbeam."))


def sniff_all(files: Iterable[tuple[str, int]]) -> tuple[list[ReportFile], list[BadFile]]:
    """Recognise many files in parallel: (the files that can be read, the malformed ones)."""
    with ThreadPoolExecutor(16) as pool:
        kinds = list(pool.map(lambda entry: sniff(*entry), files))
    return (
        [kind for kind in kinds if isinstance(kind, ReportFile)],
        [kind for kind in kinds if isinstance(kind, BadFile)],
    )


def _identity(stream: IO[bytes], size: int) -> Identity | None:
    """The identity of an open file that had a size; None if it is not on this machine. Goes to its start."""
    try:
        state = os.fstat(stream.fileno())
    except (AttributeError, OSError):
        return None
    ends = hashlib.blake2b(stream.read(min(size, ENDS_BYTES)))
    stream.seek(max(0, size - ENDS_BYTES))
    ends.update(stream.read(min(size, ENDS_BYTES)))
    stream.seek(0)
    return Identity((state.st_dev, state.st_ino), state.st_mtime_ns, ends.hexdigest())


def check_unchanged(stream: IO[bytes], file: ReportFile | FileRange, *, read: bool) -> None:
    """Check that an open file is the one that was found, and go to its start.

    A file of Avro or uncompressed JSON Lines may have grown; what was added is not read. It may also have
    become shorter before it was read: what is left is read. For a file that is not on this machine, only
    the size is compared.

    Args:
        stream: the file.
        file: as it was found.
        read: whether this part of the file has been read.

    Raises:
        ValueError: if it has changed.
    """
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    stream.seek(0)
    may_grow = file.format in ("avro", "jsonl")
    if size < file.size and may_grow and not read:
        return
    if size < file.size or (size > file.size and not may_grow):
        raise ValueError(f"it has {size:,} bytes, and had {file.size:,} when it was found")
    before = file.identity
    now = None if before is None else _identity(stream, file.size)
    if before is None or now is None or now == before:
        return
    appended = size > file.size and now.inode == before.inode and now.ends == before.ends
    if not appended:
        raise ValueError("it was rewritten after it was found: its reports are lost, or count twice")


def split(file: ReportFile, length: int | None = None) -> Iterator[FileRange]:
    """The ranges of a file; a gzipped file has one range.

    Args:
        file: the file.
        length: the bytes of a range of a file that is split by bytes; :data:`RANGE_BYTES` by default.

    Raises:
        ValueError: if a Parquet file has changed, or its footer cannot be read.
        OSError: if a Parquet file cannot be opened any more.
    """
    if file.format == "jsonl.gz":
        yield FileRange(file.path, file.format, 0, file.size, file.size, file.identity)
        return
    if file.format == "parquet":
        with open_raw(file.path) as stream:
            check_unchanged(stream, file, read=False)
            groups = parquet.rows_of(parquet.read_footer(stream))
        start = rows = 0
        for index, of_group in enumerate(groups, 1):
            rows += of_group
            if rows >= RANGE_ROWS or index == len(groups):
                yield FileRange(file.path, file.format, start, index, file.size, file.identity)
                start, rows = index, 0
        return
    length = length or RANGE_BYTES
    for start in range(0, file.size, length):
        stop = min(start + length, file.size)
        yield FileRange(file.path, file.format, start, stop, file.size, file.identity)
