"""Files of the ledger over periods, of received reports and of their sums, as Arrow IPC.

Arrow files have no checksums. So a file has the SHA-256 of its name and of what it says of itself, and each
batch that of this, its number and its columns. The last batch is empty, so that none can be missing. What is
read is what was written under this name, or refused.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import IO, Any

import pyarrow as pa
from pydantic import TypeAdapter

from ldpbeam.windows import FAR, Span

#: The version of the format.
FORMAT = 2
#: At most how many rows a batch has.
BATCH_ROWS = 2**16
_USER = [("high", pa.uint64()), ("low", pa.uint64())]
#: Reports that were received: the halves of the keyed hash of the user id; the start of the window, of the
#: step of windows that slide, and without windows of the period; the place of the service in
#: :func:`ldpbeam.spent.services_of`; and a keyed hash of the payload, and of the report id, or else
#: the event time, where a user may have several reports in a window. No two rows of a file are equal.
RECEIVED_SCHEMA = pa.schema(
    [*_USER, ("window", pa.int64()), ("service", pa.uint16()), ("payload", pa.uint64())]
)
_ABOUT, _HASH = b"ldpbeam", b"sha256"
_NOT_AS_WRITTEN = "damaged, or not what was written under this name"


def sums_schema(services: int) -> pa.Schema:
    """The columns of sums: how many distinct reports a user sent to each service in a period."""
    return pa.schema(
        [*_USER, ("period", pa.int64()), *((f"service_{i}", pa.int64()) for i in range(services))]
    )


@dataclass(frozen=True)
class About:
    """What a file says of itself.

    Attributes:
        study: what ``ledger_fingerprint`` says of the study.
        key: what ``key_check`` says of the key.
        start: the first event time of the run's windows, in milliseconds.
        stop: the first event time after them.
        written: which of two runs of a window came later, the larger.
        rows: at most how many received reports it has.
        windows: the starts of the windows of received reports; there may be none of some of them.
        files: of a file of sums, what it adds up: the names of files, and when each was written.
        format: the version of the format.
    """

    study: str
    key: str
    start: int = -FAR
    stop: int = FAR
    written: int = 0
    rows: int = 0
    windows: tuple[int, ...] = ()
    files: tuple[tuple[str, int], ...] = ()
    format: int = FORMAT

    @property
    def span(self) -> Span:
        """The event times of the run's windows."""
        return Span(self.start, self.stop)


_CHECKED = TypeAdapter(About)


def write_rows(
    stream: IO[bytes], path: str, schema: pa.Schema, about: About, batches: Iterable[pa.RecordBatch]
) -> None:
    """Write a file.

    Args:
        stream: where to.
        path: where the file will be; its name is hashed.
        schema: :data:`RECEIVED_SCHEMA` or :func:`sums_schema`.
        about: what it says of itself.
        batches: the rows.
    """
    said = json.dumps(asdict(about)).encode()
    head = _head_hash(path, said)
    tagged = schema.with_metadata({_ABOUT: said, _HASH: head})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    last = pa.RecordBatch.from_pylist([], schema=schema)
    with pa.ipc.new_file(stream, tagged, options=options) as writer:
        for number, batch in enumerate(itertools.chain(_cut(batches), [last])):
            rows = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            writer.write_batch(rows, {_HASH: _rows_hash(head, number, rows)})


def read_about(stream: IO[bytes], path: str, schema: pa.Schema) -> About:
    """What a file says of itself.

    Raises:
        ValueError: if it is no file of a ledger, damaged, another file than was written under this name, or
            of a newer version.
    """
    return _CHECKED.validate_python(_opened(stream, path, schema)[1])


def read_rows(stream: IO[bytes], path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file.

    Raises:
        ValueError: as :func:`read_about`.
    """
    reader, _, head = _opened(stream, path, schema)
    whole, rows = reader.schema.equals(schema), -1
    for number in range(reader.num_record_batches):
        try:
            batch, metadata = reader.get_batch_with_custom_metadata(number)
            whole = whole and metadata[_HASH] == _rows_hash(head, number, batch)
        except (pa.ArrowException, OSError, LookupError, TypeError, ValueError):
            whole = False
        if not whole:
            raise ValueError(f"{_NOT_AS_WRITTEN}, in batch {number}: {_cure(schema)}")
        rows = batch.num_rows
        if rows:
            yield batch
    if rows:
        raise ValueError(f"{_NOT_AS_WRITTEN}: {_cure(schema)}")


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at most :data:`BATCH_ROWS`, none of them empty."""
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _head_hash(path: str, said: bytes) -> bytes:
    """The hash of a file's name, and of what it says of itself."""
    return hashlib.sha256(path.rpartition("/")[2].encode() + b"\0" + said).digest()


def _rows_hash(head: bytes, number: int, rows: pa.RecordBatch) -> bytes:
    """The hash of a batch of rows, whose number is that of its place in the file."""
    hashed = hashlib.sha256(head + number.to_bytes(4))
    for column in rows.columns:
        hashed.update(column.to_numpy())
    return hashed.digest()


def _opened(stream: IO[bytes], path: str, schema: pa.Schema) -> tuple[Any, dict[str, Any], bytes]:
    """(a reader of its batches, what the file says of itself, the hash of this)."""
    try:
        reader = pa.ipc.open_file(stream)
        said, head = reader.schema.metadata[_ABOUT], reader.schema.metadata[_HASH]
        whole = head == _head_hash(path, said)
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"{_NOT_AS_WRITTEN}: {_cure(schema)}")
    header = json.loads(said)
    if header["format"] > FORMAT:
        raise ValueError(f"a newer version of ldpbeam wrote it (format {header['format']}): update ldpbeam")
    return reader, header, head


def _cure(schema: pa.Schema) -> str:
    if schema.equals(RECEIVED_SCHEMA):
        return "restore it from a copy, or delete it: its reports are missing until a run reads them again"
    return "delete it: it is rebuilt from the files beside it"
