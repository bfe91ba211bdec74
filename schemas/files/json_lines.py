"""JSON lines, read as columns by pyarrow; a malformed line does not affect the other lines."""

from __future__ import annotations

import io
import json
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.json
from numpy.typing import NDArray

from ldpbeam.schemas.encodings import per_byte
from ldpbeam.schemas.encodings.compression import gzip_pieces
from ldpbeam.schemas.reports.casts import parts_of
from ldpbeam.schemas.reports.columns import Columns, decoded
from ldpbeam.schemas.reports.records import by_payload, columns_of

#: Text is decoded in chunks of about this many bytes, cut at the end of a line.
CHUNK_BYTES = 8 * 2**20
#: A line with more bytes is refused if it continues beyond a chunk.
MOST_LINE_BYTES = 8 * 2**20
#: The names of fields of a longer line are not compared with those of missing fields.
LONGEST_NAMED_LINE = 2**16
#: If pyarrow refuses this many lines or fewer as a whole, they are parsed one by one.
FEW_LINES = 1_024
#: This many bad lines of a group are returned one by one, the others as one.
MOST_SINGLE_LINES = 100
#: A line with more opening brackets is parsed by Python, which refuses about a thousand in each other.
MOST_BRACKETS = 500
#: Python makes no whole numbers of more digits.
MOST_DIGITS = 4_300
#: Numbers that pyarrow knows and Python does not, or text that looks like them.
_MINUS_NAN, _INF = re.compile(rb"NaN(?<=-NaN)"), re.compile(rb"Inf(?!inity)(?<=[-:,[\s]Inf)")
_BLANK = b" \t\r"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){4}|(?:\0[^\0]){4}", re.DOTALL)
#: The start of an array of objects, but for a line with one before other lines.
_ARRAY = re.compile(rb"\s*\[\s*[{\]](?![^\n]*\]\s*\n\s*\S)")


def other_text(start: bytes) -> str | None:
    """What text is that is neither JSON lines nor CSV, by its start, in words; None if unknown."""
    if _UTF_16.match(start):
        return "text in UTF-16: write it in UTF-8"
    if _ARRAY.match(start.removeprefix(BYTE_ORDER_MARK)):
        return "a JSON array: write each object on a line of its own, as `jq -c '.[]'` does"
    return None


@dataclass(frozen=True)
class BadLine:
    """A line that is not a JSON object.

    Attributes:
        position: the byte offset of the line's start.
        data: the line.
        problem: why the line cannot be used.
        reports: how many such lines this value represents; the others come later in the text.
    """

    position: int
    data: bytes
    problem: str
    reports: int = 1


def read_chunks(stream: IO[bytes], start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """(offset, text) of the lines that begin in [start, stop), in chunks of whole lines.

    Args:
        stream: a seekable stream.
        start: byte offset; lines that begin before it belong to another range.
        stop: byte offset; lines that begin at or after it belong to another range.

    Raises:
        ValueError: if a line is too long; the lines before it are yielded first.
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
        # No line but the last can be too long.
        last = text.rfind(b"\n", 0, len(text) - 1) + 1
        whole = last if len(text) - last > MOST_LINE_BYTES else len(text)
        if whole:
            yield position, text[:whole]
        if whole < len(text):
            raise ValueError(_too_long(position + whole))
        position += whole


def read_gzip_chunks(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(offset, text) of all lines of a gzip stream; offsets are those of the plain text.

    The stream is decompressed twice: no line is yielded before every checksum has been compared.

    Args:
        stream: a seekable stream, at its start.

    Raises:
        ValueError: if the stream is damaged, was cut short or has too many lines for its size, before any
            line is yielded; if a line is too long, after the lines before it.
    """
    size, lines = stream.seek(0, os.SEEK_END), 0
    stream.seek(0)
    for part in gzip_pieces(stream):
        lines += part.count(b"\n")
        per_byte.check(lines, size, per_byte.OF_LINES, "lines")
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


def _too_long(position: int) -> str:
    return f"a line of more than {MOST_LINE_BYTES:,} bytes begins at byte {position:,} of the text"


def decode_lines(
    position: int, text: bytes, wanted: Columns, groups: Sequence[int] = (0,)
) -> Iterator[pa.RecordBatch | BadLine]:
    """Decode whole lines to batches of reports; a line that is not a JSON object becomes a bad line.

    The first ``MOST_SINGLE_LINES`` bad lines of each group are returned one by one, the others as one.

    Args:
        position: the byte offset of the text in its file.
        text: whole lines.
        wanted: which columns are read.
        groups: the offset in the text at which each group of lines begins, ascending from 0.
    """
    starts, ends = _lines(text)
    if position == 0 and text.startswith(BYTE_ORDER_MARK):
        starts[0] += len(BYTE_ORDER_MARK)
        filled = ends > starts
        starts, ends = starts[filled], ends[filled]
    if not len(starts):
        return
    seen: Counter[int] = Counter()
    folded: dict[int, BadLine] = {}
    for item in _decode(text, position, starts, ends, wanted):
        if isinstance(item, BadLine) and item.position + len(item.data) < position + len(text):
            group = bisect_right(groups, item.position - position)
            seen[group] += 1
            if seen[group] > MOST_SINGLE_LINES:
                folded.setdefault(group, item)
                continue
        yield item
    for group, item in folded.items():
        lines = seen[group] - MOST_SINGLE_LINES
        after = f", nor are {lines - 1:,} lines after it JSON objects" if lines > 1 else ""
        yield replace(item, problem=item.problem + after, reports=lines)


def _lines(text: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The start and end offsets of the lines that are not blank, shape (lines,) each."""
    breaks = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    ends = np.append(breaks, len(text)) if not text.endswith(b"\n") else breaks
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    filled = ends > starts
    starts, ends = starts[filled], ends[filled]
    # Most blank lines are short ("\r"); a long blank line is skipped when lines are parsed one by one.
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
    columns = _columns(text, starts, ends, wanted)
    if columns is not None:
        yield _batch(columns, text, position, starts, ends, wanted)
    elif len(starts) > FEW_LINES:
        middle = len(starts) // 2
        yield from _decode(text, position, starts[:middle], ends[:middle], wanted)
        yield from _decode(text, position, starts[middle:], ends[middle:], wanted)
    else:
        yield from _decode_few(text, position, starts, ends, wanted)


def _batch(
    columns: dict[str, pa.Array],
    text: bytes,
    position: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    wanted: Columns,
) -> pa.RecordBatch:
    """A decoded batch of lines that are objects."""

    def fields(line: int) -> Iterable[str]:
        if ends[line] - starts[line] > LONGEST_NAMED_LINE:
            return ()
        try:
            names: Iterable[str] = parsed(text[starts[line] : ends[line]])
        except (ValueError, RecursionError):
            return ()
        return names

    rows = pa.array(np.zeros(len(starts), dtype=np.int64))
    records = parts_of(text, starts, ends) if wanted.whole else None
    return decoded(columns, wanted, {}, pa.array(starts + position), rows, fields, records)


def _columns(
    text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], wanted: Columns
) -> dict[str, pa.Array] | None:
    """The wanted columns of some lines; None unless every line is an object and pyarrow parses them all.

    It is also None where Python may refuse a line that pyarrow parses: a line is judged by one parser,
    whatever stands beside it.

    The first line determines the types of all lines: pyarrow's own inference would parse ids that look like
    times as times.
    """
    characters = np.frombuffer(text, dtype=np.uint8)
    last = characters[ends - 1]
    last = np.where((last == ord("\r")) & (ends - starts > 1), characters[ends - 2], last)
    if not ((characters[starts] == ord("{")).all() and (last == ord("}")).all()):
        return None
    part = text[starts[0] : ends[-1]]
    if _MINUS_NAN.search(part) or _INF.search(part) or _has_brackets(text, starts, ends):
        return None
    try:
        part.decode("utf-8")
        first = parsed(text[starts[0] : ends[0]])
    except (ValueError, RecursionError):
        return None
    fields = [pa.field(field, _type_of(name, first.get(field))) for name, field in wanted.fields.items()]
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
        field: table.column(field).combine_chunks()
        for field in wanted.fields.values()
        if table.column(field).null_count < len(starts)
    }


def _has_brackets(text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    """Whether one of some lines has more than ``MOST_BRACKETS`` opening brackets."""
    characters = np.frombuffer(text, dtype=np.uint8)[starts[0] : ends[-1]]
    every = sum(np.count_nonzero(characters == ord(bracket)) for bracket in "[{")
    return bool(every > MOST_BRACKETS + len(starts) - 1) and any(
        text.count(b"[", start, end) + text.count(b"{", start, end) > MOST_BRACKETS
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )


def parsed(line: bytes) -> Any:
    """The value of a line, in which a whole number of too many digits is infinite.

    Raises:
        ValueError: if it is no JSON, or no UTF-8.
        RecursionError: if it is nested too deeply.
    """
    return json.loads(line.decode(), parse_int=_whole)


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= MOST_DIGITS else float(digits)


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
    places: list[tuple[int, int]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        line = text[start:end]
        if not line.strip(_BLANK):
            continue
        try:
            record = parsed(line)
        except (ValueError, RecursionError) as error:
            yield BadLine(position + start, line, f"not JSON: {error}")
            continue
        if isinstance(record, dict):
            records.append(record)
            places.append((start, end))
        else:
            yield BadLine(position + start, line, f"not a JSON object: {type(record).__name__}")
    for chosen in by_payload(records, wanted.fields["payload"]):
        columns = columns_of([records[index] for index in chosen], wanted.fields, wanted.clock)
        begin, end = np.array(places, dtype=np.int64)[chosen].T
        yield _batch(columns, text, position, begin, end, wanted)
