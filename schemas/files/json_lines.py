"""JSON lines, read as columns by pyarrow; a line that is no record costs only itself."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.json
from numpy.typing import NDArray

from ldpbeam.schemas.encodings.compression import gzip_pieces
from ldpbeam.schemas.reports.columns import Columns, decoded
from ldpbeam.schemas.reports.records import by_payload, columns_of

#: Text is decoded this many bytes at a time, cut at a line's end.
CHUNK_BYTES = 8 * 2**20
#: A line with more bytes is refused if it goes on beyond a chunk.
MOST_LINE_BYTES = 8 * 2**20
#: Stretches of this many lines that pyarrow does not take as a whole are read one by one.
FEW_LINES = 64
#: So many lines of one group that do not look like objects come back one by one.
MOST_SINGLE_LINES = 100
_BLANK = b" \t\r"
_SPACES = np.frombuffer(_BLANK, dtype=np.uint8)
_AFTER_BRACE = np.frombuffer(_BLANK + b'"}', dtype=np.uint8)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class BadLine:
    """A line that is no JSON object.

    Attributes:
        position: the byte offset of its start.
        data: the line.
        problem: why it cannot be used.
        reports: for how many lines it stands; all but the first come later in the text.
    """

    position: int
    data: bytes
    problem: str
    reports: int = 1


def read_chunks(stream: IO[bytes], start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """(offset, text) of the lines that begin in [start, stop), in chunks of whole lines.

    Args:
        stream: seekable.
        start: lines that begin before it are left to another range.
        stop: likewise those that begin from here on.

    Raises:
        ValueError: if a line is too long, after the lines before it.
    """
    position = start
    if start > 0:
        position = start - 1
        stream.seek(position)
        part = b""
        while position < stop and not part.endswith(b"\n"):
            part = stream.readline(CHUNK_BYTES)
            if not part:
                return
            position += len(part)
    while position < stop:
        text = stream.read(min(CHUNK_BYTES, stop - position))
        if not text:
            return
        if not text.endswith(b"\n"):
            text += stream.readline(MOST_LINE_BYTES)
        whole = _without_long_line(text)
        if whole:
            yield position, text[:whole]
        if whole < len(text):
            raise ValueError(_too_long(position + whole))
        position += whole


def read_gzip_chunks(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(offset, text) of all lines of a compressed stream; offsets are those of the plain text.

    The stream is decompressed twice: lines are handed out only after every checksum has been compared.

    Args:
        stream: seekable, at its start.

    Raises:
        ValueError: if the stream is damaged or was cut short, before any line; if a line is too long, after
            the lines before it.
    """
    for _ in gzip_pieces(stream):
        pass
    stream.seek(0)
    position, text = 0, b""
    for part in gzip_pieces(stream):
        text += part
        if len(text) < CHUNK_BYTES:
            continue
        whole = text.rfind(b"\n") + 1
        if whole:
            yield position, text[:whole]
            position, text = position + whole, text[whole:]
        if len(text) > MOST_LINE_BYTES:
            raise ValueError(_too_long(position))
    if text:
        yield position, text


def _without_long_line(text: bytes) -> int:
    """How many bytes of a chunk are lines that are not too long; only the last can be."""
    last = text.rfind(b"\n", 0, len(text) - 1) + 1
    return last if len(text) - last > MOST_LINE_BYTES else len(text)


def _too_long(position: int) -> str:
    return f"a line of more than {MOST_LINE_BYTES:,} bytes begins at byte {position:,} of the text"


def decode_lines(
    position: int, text: bytes, wanted: Columns, groups: Sequence[int] = (0,)
) -> Iterator[pa.RecordBatch | BadLine]:
    """Batches of reports from whole lines; lines that are no JSON object come back as bad ones.

    Many lines that do not even look like an object are not parsed. The first hundred of them in each group
    come back one by one, the others as one.

    Args:
        position: of the text in its file.
        text: whole lines.
        wanted: which columns matter.
        groups: where each group of lines begins in the text, ascending from 0.
    """
    starts, ends = _lines(text)
    if position == 0 and text.startswith(BYTE_ORDER_MARK) and len(starts):
        starts[0] += len(BYTE_ORDER_MARK)
    if not len(starts):
        return
    junk = _look_like_no_object(text, starts, ends)
    if not text.endswith(b"\n"):
        junk[-1] = False  # whether the last line is cut is for the caller to say
    if junk.sum() > MOST_SINGLE_LINES:
        first, count = _folded(np.searchsorted(groups, starts[junk], side="right"))
        places, stops = starts[junk][first].tolist(), ends[junk][first].tolist()
        for start, end, lines in zip(places, stops, count.tolist(), strict=True):
            problem = "not a JSON object" + (f", nor are {lines - 1:,} lines after it" if lines > 1 else "")
            yield BadLine(position + start, text[start:end], problem, lines)
        starts, ends = starts[~junk], ends[~junk]
    yield from _decode(text, position, starts, ends, wanted)


def _look_like_no_object(
    text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which lines cannot be objects, by their first two characters and their last."""
    characters = np.frombuffer(text, dtype=np.uint8)
    first, last = characters[starts], characters[ends - 1]
    second = characters[np.minimum(starts + 1, len(text) - 1)]
    begins = np.isin(first, _SPACES) | ((first == ord("{")) & np.isin(second, _AFTER_BRACE))
    looks: NDArray[np.bool_] = begins & (np.isin(last, _SPACES) | (last == ord("}")))
    return ~looks


def _folded(group: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which lines stand for themselves and others, and for how many, by the ascending groups they are in."""
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    first = np.flatnonzero(rank <= MOST_SINGLE_LINES)
    count = np.ones(len(first), dtype=np.int64)
    folding = rank[first] == MOST_SINGLE_LINES
    count[folding] = np.searchsorted(group, group[first[folding]], side="right") - first[folding]
    return first, count


def _lines(text: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the lines that are not blank start and end."""
    breaks = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    ends = np.append(breaks, len(text)) if not text.endswith(b"\n") else breaks
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    filled = ends > starts
    starts, ends = starts[filled], ends[filled]
    # Most blank lines are short ones ("\r"); a long one is found where lines are read one by one.
    short = np.flatnonzero(ends - starts < 8)
    blank = np.fromiter(
        (not text[starts[i] : ends[i]].strip(_BLANK) for i in short), dtype=bool, count=len(short)
    )
    kept = np.ones(len(starts), dtype=bool)
    kept[short[blank]] = False
    return starts[kept].astype(np.int64), ends[kept].astype(np.int64)


def _decode(
    text: bytes,
    position: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    wanted: Columns,
) -> Iterator[pa.RecordBatch | BadLine]:
    if not len(starts):
        return
    columns = _columns(text, starts, ends, wanted)
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


def _columns(
    text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], wanted: Columns
) -> dict[str, pa.Array] | None:
    """The wanted columns of some lines, None unless every line is an object and pyarrow takes them all.

    The first line says what types the lines have: left to itself pyarrow would take ids that look
    like times for times.
    """
    characters = np.frombuffer(text, dtype=np.uint8)
    last = characters[ends - 1]
    last = np.where((last == ord("\r")) & (ends - starts > 1), characters[ends - 2], last)
    if not ((characters[starts] == ord("{")).all() and (last == ord("}")).all()):
        return None
    part = text[starts[0] : ends[-1]]
    try:
        part.decode("utf-8")
        first = json.loads(text[starts[0] : ends[0]])
    except (ValueError, RecursionError):
        return None
    fields = [pa.field(name, _type_of(name, first.get(name))) for name in wanted.names]
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(part),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(part) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(starts):
        return None
    return {
        name: table.column(name).combine_chunks()
        for name in wanted.names
        if table.column(name).null_count < len(starts)
    }


def _type_of(name: str, value: object) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    if name == "payload" and (value is None or isinstance(value, int | float)):
        return pa.float64()
    if isinstance(value, int):
        return pa.int64()
    if isinstance(value, float) and name == "event_time":
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
        if not line.strip(_BLANK):
            continue
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            yield BadLine(position + start, line, f"not JSON: {error}")
            continue
        if isinstance(record, dict):
            records.append(record)
            places.append(start)
        else:
            yield BadLine(position + start, line, f"not a JSON object: {type(record).__name__}")
    for chosen in by_payload(records):
        columns = columns_of([records[index] for index in chosen], wanted.names)
        yield _batch(columns, position, np.array(places, dtype=np.int64)[chosen], wanted)
