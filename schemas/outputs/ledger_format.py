"""Files of the ledger over periods, of received reports and of their sums: Arrow IPC, by the bits of users.

A file has 2^b batches. Batch i holds the users whose keyed hash begins with the b bits of i, each batch
sorted as by :func:`ldpbeam.over_time.received.distinct` or :func:`ldpbeam.over_time.received.summed`. So the
users of any prefix of bits can be read from many files by themselves, and what is in memory is bounded.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import IO, Any, TypeVar

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from ldpbeam.over_time.received import Rows
from ldpbeam.windows import FAR, Span

#: The version of the format.
FORMAT = 1
#: About how many rows a batch has.
BATCH_ROWS = 2**13
MOST_BITS = 20
_ABOUT = b"ldpbeam"
_R = TypeVar("_R", bound=Rows)


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
_NO_LEDGER = "this is not a file of a ledger, or it is damaged"


def bits_for(rows: int) -> int:
    """How many leading bits of a user's hash name the batch of a row, in a file of this many rows."""
    return min(MOST_BITS, (max(rows - 1, 0) // BATCH_ROWS).bit_length())


def schema_of(kind: type[Rows]) -> pa.Schema:
    """The columns of rows."""
    return pa.schema([(name, pa.from_numpy_dtype(dtype)) for name, dtype in kind.KINDS.items()])


def write_rows(stream: IO[bytes], kind: type[_R], about: About, parts: Iterable[_R]) -> None:
    """Write a file.

    Args:
        stream: where to.
        kind: the rows.
        about: what it says of itself; its ``rows`` may be more than there are in the end.
        parts: the distinct rows, in the order of users; each part has whole batches.
    """
    schema = schema_of(kind).with_metadata({_ABOUT: json.dumps(asdict(about)).encode()})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    following = 0
    with pa.ipc.new_file(stream, schema, options=options) as writer:
        for part in parts:
            batches = batch_of(part.high, about.bits)
            last = int(batches[-1]) + 1 if len(part) else following
            ends = np.searchsorted(batches, np.arange(following, last + 1))
            for start, stop in itertools.pairwise(ends):
                writer.write_batch(as_batch(part.chosen(slice(start, stop)), schema))
            following = last
        for _ in range(following, 1 << about.bits):
            writer.write_batch(as_batch(kind.concatenated([]), schema))


def batch_of(high: np.ndarray, bits: int) -> np.ndarray:
    """The batch of each user, shape (n,), by the first 64 bits of its hash."""
    if bits == 0:
        return np.zeros(len(high), dtype=np.int64)
    return (high >> np.uint64(64 - bits)).astype(np.int64)


def as_batch(rows: Rows, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Rows as an Arrow batch, with the metadata of a schema."""
    columns = [pa.array(column) for column in rows.columns.values()]
    return pa.RecordBatch.from_arrays(columns, schema=schema or schema_of(type(rows)))


def read_about(stream: IO[bytes]) -> About:
    """What a file says of itself.

    Raises:
        ValueError: if it is no file of a ledger, or of a newer version.
    """
    return _opened(stream)[1]


def read_rows(stream: IO[bytes], kind: type[_R], bits: int, batch: int) -> _R:
    """The rows of the users whose hash begins with the ``bits`` bits of ``batch``.

    Raises:
        ValueError: if the file is damaged.
    """
    reader, about = _opened(stream)
    try:
        if about.bits >= bits:
            each = 1 << (about.bits - bits)
            batches = (reader.get_batch(i) for i in range(batch * each, (batch + 1) * each))
            return kind.concatenated([from_batch(one, kind) for one in batches])
        rows = from_batch(reader.get_batch(batch >> (bits - about.bits)), kind)
    except (pa.ArrowException, OSError, LookupError) as error:
        raise ValueError(f"damaged: {error}") from None
    ends = np.searchsorted(batch_of(rows.high, bits), [batch, batch + 1])
    return rows.chosen(slice(*ends))


def from_batch(batch: pa.RecordBatch, kind: type[_R]) -> _R:
    """The inverse of :func:`as_batch`."""
    return kind(*(batch.column(name).to_numpy() for name in kind.KINDS))


def _opened(stream: IO[bytes]) -> tuple[Any, About]:
    try:
        reader = pa.ipc.open_file(stream)
        text = (reader.schema.metadata or {})[_ABOUT]
        header = json.loads(text)
        if header["format"] > FORMAT:
            raise ValueError(
                f"a newer version of ldpbeam wrote it (format {header['format']}): update ldpbeam"
            )
        about = _CHECKED.validate_python(header)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"{_NO_LEDGER} ({type(error).__name__})") from None
    return reader, about
