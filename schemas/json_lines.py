"""JSON lines, read as columns by pyarrow; a line that is no record costs only itself."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.json
from numpy.typing import NDArray

from ldpbeam.schemas.reports import Columns, columns_of, decoded

#: Text is decoded this many bytes at a time, cut at a line's end.
CHUNK_BYTES = 8 * 2**20
#: Stretches of this many lines that pyarrow does not take as a whole are read one by one.
FEW_LINES = 64
_BLANK = b" \t\r"


@dataclass(frozen=True)
class BadLine:
    """A line that is no JSON object.

    Attributes:
        position: the byte offset of its start.
        data: the line.
        problem: why it cannot be used.
    """

    position: int
    data: bytes
    problem: str


def read_chunks(stream: IO[bytes], start: int, stop: int | None) -> Iterator[tuple[int, bytes]]:
    """(offset, text) of the lines that begin in [start, stop), in chunks of whole lines.

    Args:
        stream: seekable, unless start is 0.
        start: lines that begin before it are left to another range.
        stop: likewise; None for the end of the stream.
    """
    position = start
    if start > 0:
        stream.seek(start - 1)
        skipped = stream.readline()
        position = start - 1 + len(skipped)
    while stop is None or position < stop:
        size = CHUNK_BYTES if stop is None else min(CHUNK_BYTES, stop - position)
        text = stream.read(size)
        if not text:
            return
        if not text.endswith(b"\n"):
            text += stream.readline()
        yield position, text
        position += len(text)


def decode_lines(position: int, text: bytes, wanted: Columns) -> Iterator[pa.RecordBatch | BadLine]:
    """Batches of reports from whole lines; lines that are no JSON object come back as bad ones."""
    starts, ends = _lines(text)
    yield from _decode(text, position, starts, ends, wanted)


def _lines(text: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the lines that are not blank start and end."""
    breaks = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    ends = np.append(breaks, len(text)) if not text.endswith(b"\n") else breaks
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    # A line of one or two characters can be blank ("\r"); only short ones are looked at.
    short = np.flatnonzero(ends - starts < 8)
    blank = [i for i in short if not text[starts[i] : ends[i]].strip(_BLANK)]
    return np.delete(starts, blank).astype(np.int64), np.delete(ends, blank).astype(np.int64)


def _decode(
    text: bytes,
    position: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    wanted: Columns,
) -> Iterator[pa.RecordBatch | BadLine]:
    if not len(starts):
        return
    columns = _columns(text[starts[0] : ends[-1]], len(starts), wanted)
    if columns is not None:
        yield _batch(columns, position, starts, wanted)
    elif len(starts) > FEW_LINES:
        middle = len(starts) // 2
        yield from _decode(text, position, starts[:middle], ends[:middle], wanted)
        yield from _decode(text, position, starts[middle:], ends[middle:], wanted)
    else:
        yield from _decode_few(text, position, starts, ends, wanted)


def _batch(
    columns: dict[str, pa.Array], position: int, starts: NDArray[np.int64], wanted: Columns
) -> pa.RecordBatch:
    rows = pa.array(np.zeros(len(starts), dtype=np.int64))
    return decoded(columns, wanted, {}, pa.array(starts + position), rows)


def _columns(text: bytes, lines: int, wanted: Columns) -> dict[str, pa.Array] | None:
    """The wanted columns of some lines, None unless pyarrow takes them all alike.

    The first line says what types the lines have: left to itself pyarrow would take ids that look
    like times for times.
    """
    try:
        first = json.loads(text[: text.find(b"\n")] if b"\n" in text else text)
    except ValueError:
        return None
    if not isinstance(first, dict):
        return None
    fields = [pa.field(name, _type_of(name, first.get(name))) for name in wanted.names]
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != lines:
        return None
    return {
        name: table.column(name).combine_chunks()
        for name in wanted.names
        if table.column(name).null_count < lines
    }


def _type_of(name: str, value: object) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    if name == "payload" and (value is None or isinstance(value, int | float)):
        return pa.float64()
    if isinstance(value, int):
        return pa.int64()
    if isinstance(value, float):
        return pa.float64()
    return pa.string()


def _decode_few(
    text: bytes,
    position: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    wanted: Columns,
) -> Iterator[pa.RecordBatch | BadLine]:
    records: list[dict[str, Any]] = []
    places: list[int] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        line = text[start:end]
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield BadLine(position + start, line, f"not JSON: {error}")
            continue
        if isinstance(record, dict):
            records.append(record)
            places.append(start)
        else:
            yield BadLine(position + start, line, f"not a JSON object: {type(record).__name__}")
    if records:
        columns = columns_of(records, wanted.names)
        yield _batch(columns, position, np.array(places, dtype=np.int64), wanted)
