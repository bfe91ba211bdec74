"""Files of the ledger over periods, of received reports and of their sums: Arrow IPC, by the bits of users.

A file has 2^b batches. Batch i holds the users whose keyed hash begins with the b bits of i, each batch
sorted as by :func:`ldpbeam.over_time.received.distinct` or :func:`ldpbeam.over_time.received.summed`. So the
users of any prefix of bits can be read from many files by themselves, and what is in memory is bounded.

Arrow files have no checksums. So a file has the SHA-256 of its name and of what it says of itself, and each
batch that of this, its number and its columns: what is read is what was written under this name, or refused.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import IO, Any, TypeVar

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from ldpbeam.over_time.received import Received, Rows, UserReports
from ldpbeam.windows import FAR, Span

#: The version of the format.
FORMAT = 1
#: About how many rows a batch has.
BATCH_ROWS = 2**13
MOST_BITS = 20
_ABOUT, _HASH = b"ldpbeam", b"sha256"
_R = TypeVar("_R", bound=Rows)
_NOT_AS_WRITTEN = "damaged, or not what was written under this name"
_CURES: dict[type[Rows], str] = {
    Received: "restore it from a copy, or delete it: its reports are missing until a run reads them again",
    UserReports: "delete it: it is made anew from the files beside it",
}


@dataclass(frozen=True)
class About:
    """What a file says of itself.

    Attributes:
        study: what ``ledger_fingerprint`` says of the study.
        key: what ``key_check`` says of the key.
        start: the first event time of the run's windows, in milliseconds.
        stop: the first event time after them.
        written: which of two runs of a window came later, the larger.
        bits: the file has 2^bits batches.
        rows: how many rows it has, in all.
        windows: the starts of the windows of received reports; there may be none of some of them.
        files: of a file of sums, what it adds up: the names of files, and when each was written.
        format: the version of the format.
    """

    study: str
    key: str
    start: int = -FAR
    stop: int = FAR
    written: int = 0
    bits: int = 0
    rows: int = 0
    windows: tuple[int, ...] = ()
    files: tuple[tuple[str, int], ...] = ()
    format: int = FORMAT

    @property
    def span(self) -> Span:
        """The event times of the run's windows."""
        return Span(self.start, self.stop)


_CHECKED = TypeAdapter(About)


def bits_for(rows: int) -> int:
    """How many leading bits of a user's hash name the batch of a row, in a file of this many rows."""
    return min(MOST_BITS, (max(rows - 1, 0) // BATCH_ROWS).bit_length())


def schema_of(kind: type[Rows]) -> pa.Schema:
    """The columns of rows."""
    return pa.schema([(name, pa.from_numpy_dtype(dtype)) for name, dtype in kind.KINDS.items()])


def write_rows(stream: IO[bytes], path: str, kind: type[_R], about: About, parts: Iterable[_R]) -> None:
    """Write a file.

    Args:
        stream: where to.
        path: where the file will be; its name is hashed.
        kind: the rows.
        about: what it says of itself; its ``rows`` may be more than there are in the end.
        parts: the distinct rows, in the order of users; each part has whole batches.
    """
    said = json.dumps(asdict(about)).encode()
    head = _head_hash(path, said)
    schema = schema_of(kind).with_metadata({_ABOUT: said, _HASH: head})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    following = 0
    with pa.ipc.new_file(stream, schema, options=options) as writer:

        def write(number: int, rows: Rows) -> None:
            writer.write_batch(as_batch(rows, schema), {_HASH: _rows_hash(head, number, rows)})

        for part in parts:
            batches = batch_of(part.high, about.bits)
            last = int(batches[-1]) + 1 if len(part) else following
            ends = np.searchsorted(batches, np.arange(following, last + 1))
            for number, (start, stop) in enumerate(itertools.pairwise(ends), following):
                write(number, part.chosen(slice(start, stop)))
            following = last
        for number in range(following, 1 << about.bits):
            write(number, kind.concatenated([]))


def _head_hash(path: str, said: bytes) -> bytes:
    """The hash of a file's name, and of what it says of itself."""
    return hashlib.sha256(path.rpartition("/")[2].encode() + b"\0" + said).digest()


def _rows_hash(head: bytes, number: int, rows: Rows) -> bytes:
    """The hash of a batch of rows, whose number is that of its place in the file."""
    columns = (column.tobytes() for column in rows.columns.values())
    return hashlib.sha256(b"".join((head, number.to_bytes(4), *columns))).digest()


def batch_of(high: np.ndarray, bits: int) -> np.ndarray:
    """The batch of each user, shape (n,), by the first 64 bits of its hash."""
    if bits == 0:
        return np.zeros(len(high), dtype=np.int64)
    return (high >> np.uint64(64 - bits)).astype(np.int64)


def as_batch(rows: Rows, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Rows as an Arrow batch, with the metadata of a schema."""
    columns = [pa.array(column) for column in rows.columns.values()]
    return pa.RecordBatch.from_arrays(columns, schema=schema or schema_of(type(rows)))


def read_about(stream: IO[bytes], path: str, kind: type[Rows]) -> About:
    """What a file says of itself.

    Raises:
        ValueError: if it is no file of a ledger, damaged, another file than was written under this name, or
            of a newer version.
    """
    return _opened(stream, path, kind)[1]


def read_rows(stream: IO[bytes], path: str, kind: type[_R], bits: int, batch: int) -> _R:
    """The rows of the users whose hash begins with the ``bits`` bits of ``batch``.

    Raises:
        ValueError: as :func:`read_about`.
    """
    reader, about, head = _opened(stream, path, kind)
    each = 1 << max(about.bits - bits, 0)
    first = batch * each if about.bits >= bits else batch >> (bits - about.bits)
    parts = []
    for number in range(first, first + each):
        try:
            columns, metadata = reader.get_batch_with_custom_metadata(number)
            rows = from_batch(columns, kind)
            whole = metadata[_HASH] == _rows_hash(head, number, rows)
        except (pa.ArrowException, OSError, LookupError, TypeError, ValueError):
            whole = False
        if not whole:
            raise ValueError(f"{_NOT_AS_WRITTEN}, in batch {number}: {_CURES[kind]}")
        parts.append(rows)
    if about.bits >= bits:
        return kind.concatenated(parts)
    ends = np.searchsorted(batch_of(rows.high, bits), [batch, batch + 1])
    return rows.chosen(slice(*ends))


def from_batch(batch: pa.RecordBatch, kind: type[_R]) -> _R:
    """The inverse of :func:`as_batch`."""
    return kind(*(batch.column(name).to_numpy() for name in kind.KINDS))


def _opened(stream: IO[bytes], path: str, kind: type[Rows]) -> tuple[Any, About, bytes]:
    """(a reader of its batches, what the file says of itself, the hash of this)."""
    try:
        reader = pa.ipc.open_file(stream)
        said, head = reader.schema.metadata[_ABOUT], reader.schema.metadata[_HASH]
        whole = head == _head_hash(path, said)
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError):
        whole = False
    header = json.loads(said) if whole else {"format": FORMAT}
    if header["format"] > FORMAT:
        raise ValueError(f"a newer version of ldpbeam wrote it (format {header['format']}): update ldpbeam")
    if not (whole and reader.schema.equals(schema_of(kind))):
        raise ValueError(f"{_NOT_AS_WRITTEN}: {_CURES[kind]}")
    return reader, _CHECKED.validate_python(header), head
