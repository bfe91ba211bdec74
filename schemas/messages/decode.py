"""Decoding of Pub/Sub and Kafka messages to the batches that files give too (``schemas/reports/columns.py``).

Two columns differ. ``position`` is the message's id if that is a number below 2**63, else null. ``row`` is
the report's index in its message; for JSON lines, the line's index. A report without an id has a delivery, in
a column that no client writes, so that a message that is delivered twice counts once: the message's id for a
message's only report, ``id/r`` for row r of a message with many reports.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.files.json_lines import (
    BYTE_ORDER_MARK,
    CHUNK_BYTES,
    MOST_SINGLE_LINES,
    BadLine,
    decode_lines,
    other_text,
    parsed,
)
from ldpbeam.schemas.messages.binary import (
    ARROW,
    BAD_MESSAGE,
    NO_REPORTS,
    UNKNOWN_SCHEMA,
    BadMessage,
    Decoded,
    Message,
    Poll,
    decode_framed,
    decode_objects,
    decode_stream,
    frame_of,
    framed_id,
)
from ldpbeam.schemas.messages.placed import ids_of, placed
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.writer_schemas import UnknownSchemaError, measured

UNKNOWN_CONTENT_TYPE = "unknown_content_type"
NOT_JSON = "not_json"

JSON, LINES = "application/json", "application/x-ndjson"
AVRO = ("application/avro", "avro/binary")
#: A CloudEvent in JSON, whose ``data`` is the report. Its other attributes are fields, ``ce_`` before their
#: names, as CloudEvents calls them in headers.
EVENT, EVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
EVENT_PREFIX = "ce_"
KNOWN = (JSON, EVENT, EVENTS, LINES, *AVRO, ARROW)
_SPACE, _GZIP = b" \t\r\n", b"\x1f\x8b"


#: Decodes the messages of a poll at some indices.
_Decode = Callable[[Poll, NDArray[np.int64], Columns], Decoded]


def together(messages: Sequence[Message], *, deliveries: bool = True) -> Poll:
    """Messages as a poll; each of them may come from another source."""
    values, types = [message.data for message in messages], [message.content_type for message in messages]
    return Poll(values, types, ids_of([message.id for message in messages]), deliveries)


def decode_messages(messages: Sequence[Message], wanted: Columns) -> Decoded:
    """Decode messages as :func:`decode` does; each of them may come from another source."""
    yield from decode(together(messages), wanted)


def decode(poll: Poll, wanted: Columns) -> Decoded:
    """Decode messages to batches of reports, and the parts that do not decode to bad messages.

    No bytes raise an error, and each message gives a report or a bad message. Messages of single reports and
    of JSON lines are decoded together, so the order of messages is not kept.

    Args:
        poll: messages of any content type.
        wanted: which columns are read, and the attribute and service for reports without one.

    Raises:
        OSError: if a registry of schemas does not answer.
    """
    of_kind = _indices_by_kind(poll)
    given, values = poll, list(poll.values) if {EVENT, EVENTS} & of_kind.keys() else []
    poll = replace(poll, values=values) if values else poll
    for kind, like in ((EVENT, JSON), (EVENTS, LINES)):
        reports = list[int]()
        for index in of_kind.pop(kind, np.zeros(0, np.int64)).tolist():
            lines, bad = _reports_of_events(values[index], several=kind == EVENTS)
            for row, (problem, data, many) in bad.items():
                said = f"no CloudEvent with a report: {problem}"
                yield BadMessage(given.message(index), many, BAD_MESSAGE, said, data, row)
            if any(lines):
                values[index] = b"\n".join(lines)
                reports.append(index)
        if reports:
            of_kind[like] = np.union1d(of_kind.get(like, []), reports).astype(np.int64)
    for kind, indices in of_kind.items():
        if kind == JSON:
            yield from _decode_alike(_decode_reports, poll, indices, poll.at(indices), wanted)
        elif kind == LINES:
            first = [value.partition(b"\n")[0] for value in poll.at(indices)]
            yield from _decode_alike(_decode_lines, poll, indices, first, wanted)
        elif kind == AVRO[0]:
            yield from _decode_avro(poll, indices, wanted)
        elif kind == ARROW:
            for index in indices.tolist():
                yield from _guarded(_decode_stream, poll, np.array([index]), wanted)
        else:
            yield from (_unknown(poll.message(index), kind) for index in indices.tolist())


def _indices_by_kind(poll: Poll) -> dict[str, NDArray[np.int64]]:
    """The indices of the messages of each content type, or of one that means the same.

    A message without a content type has that of its data: JSON, Avro, or "".
    """
    kinds = {given: kind_of(given) for given in set(poll.content_types)}
    if len(kinds) == 1 and (kind := next(iter(kinds.values()))):
        return {kind: np.arange(len(poll.values))}
    of_kind: defaultdict[str, list[int]] = defaultdict(list)
    for index, (given, value) in enumerate(zip(poll.content_types, poll.values, strict=True)):
        of_kind[kinds[given] or _kind_of_data(value)].append(index)
    return {kind: np.array(indices, dtype=np.int64) for kind, indices in of_kind.items()}


def kind_of(content_type: str) -> str:
    """The content type, or one that means the same; empty if none is given."""
    given = content_type.partition(";")[0].strip().lower()
    if given == "application/ndjson":
        return LINES
    if given in AVRO:
        return AVRO[0]
    return JSON if re.fullmatch(r"application/.+\+json", given) and given not in (EVENT, EVENTS) else given


def _kind_of_data(data: bytes) -> str:
    if data.removeprefix(BYTE_ORDER_MARK).lstrip(_SPACE).startswith(b"{"):
        return JSON
    return AVRO[0] if framed_id(data) is not None and _other_text(data) is None else ""


def _reports_of_events(
    data: bytes, *, several: bool
) -> tuple[list[bytes], dict[int, tuple[str, bytes, int]]]:
    """A line for each event of a CloudEvent or of a batch, empty if it has no report.

    The bad ones are there by their rows: why, the bytes, and how many they are. The last one may be of many.
    """
    try:
        events = parsed(data.removeprefix(BYTE_ORDER_MARK))
        if several and not (isinstance(events, list) and events):
            raise ValueError("a batch is an array of events")
    except (ValueError, RecursionError) as error:
        return [], {0: (str(error), data, 1)}
    lines, bad = list[bytes](), dict[int, tuple[str, bytes, int]]()
    for row, event in enumerate(events if several else [events]):
        try:
            lines.append(_report_of_event(event))
        except (ValueError, RecursionError) as error:
            lines.append(b"")
            if len(bad) <= MOST_SINGLE_LINES:
                bad[row] = (str(error), json.dumps(event).encode() if several else data, 1)
                last = row
            else:
                bad[last] = (*bad[last][:2], bad[last][2] + 1)
    return lines, bad


def _report_of_event(event: object) -> bytes:
    """The report in a CloudEvent, with the event's attributes beside its fields.

    Raises:
        ValueError: if it is no event with an object as its data.
        RecursionError: if it is nested too deeply.
    """
    fields = dict(event) if isinstance(event, dict) else {}
    report, packed = fields.pop("data", None), fields.pop("data_base64", None)
    if isinstance(packed, str):
        report = parsed(base64.b64decode(packed, validate=True))
    if not isinstance(report, dict):
        raise ValueError("an object with an object as its data is needed")
    return json.dumps(report | {f"{EVENT_PREFIX}{name}": value for name, value in fields.items()}).encode()


def _unknown(message: Message, kind: str) -> BadMessage:
    other = None if kind else _other_text(message.data)
    if other is not None:
        return BadMessage(message, 1, NOT_JSON, f"it is {other}", message.data, 0)
    what = f"content type {kind!r} is none of" if kind else "no content-type, and no JSON object; there are"
    problem = f"{what} {', '.join(KNOWN)}"
    return BadMessage(message, 1, UNKNOWN_CONTENT_TYPE, problem, message.data, None)


def _decode_alike(
    decode_some: _Decode, poll: Poll, indices: NDArray[np.int64], texts: Sequence[bytes], wanted: Columns
) -> Decoded:
    """Decode messages of JSON whose reports have text in the same fields, as the texts say, together.

    Such reports have columns of the same types, which pyarrow reads fast.
    """
    data = pa.array(texts, pa.binary())
    names = sorted(wanted.fields.values(), key=lambda name: not _has_text(data[:1], [name])[0])
    expected = sum(_has_text(data[:1], [name])[0] for name in names)
    # Most messages have text where the first has it, and nowhere else.
    names = names if _has_text(data, names[expected:]).any() else names[:expected]
    groups = [np.arange(len(indices))]
    for name in names:
        with_text = _has_text(data, [name])
        groups = [half for group in groups for half in (group[with_text[group]], group[~with_text[group]])]
        groups = [group for group in groups if len(group)]
    for group in groups:
        for part in _parts(poll, indices[group]):
            yield from _guarded(decode_some, poll, part, wanted)


def _has_text(data: pa.Array, names: Sequence[str]) -> NDArray[np.bool_]:
    """Which JSON reports have text in any of some fields, shape (n,)."""
    pattern = rf'"({"|".join(map(re.escape, names))})"[ \t\n\r\f\v]*:[ \t\n\r\f\v]*"'
    matches: NDArray[np.bool_] = pc.match_substring_regex(data, pattern).to_numpy(zero_copy_only=False)
    return matches


def _parts(poll: Poll, indices: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The indices in parts of messages of about ``CHUNK_BYTES`` bytes."""
    ends = np.cumsum([*map(len, poll.at(indices))]) // CHUNK_BYTES
    return np.split(indices, np.flatnonzero(np.diff(ends)) + 1)


def _guarded(decode_some: _Decode, poll: Poll, indices: NDArray[np.int64], wanted: Columns) -> Decoded:
    """Decode messages; a message whose decoding raises an error becomes a bad message.

    If decoding several messages raises an error, each half is decoded separately.
    """
    if len(indices) > 1:
        try:
            items = list(decode_some(poll, indices, wanted))
        except Exception:  # the error is raised again, and handled, when its message is decoded alone
            middle = len(indices) // 2
            yield from _guarded(decode_some, poll, indices[:middle], wanted)
            yield from _guarded(decode_some, poll, indices[middle:], wanted)
        else:
            yield from items
        return
    try:
        yield from decode_some(poll, indices, wanted)
    except Exception as error:  # damaged bytes can raise any error of Arrow, fastavro or a codec
        message = poll.message(int(indices[0]))
        yield BadMessage(message, 1, BAD_MESSAGE, str(error) or repr(error), message.data, None)


def _decode_reports(poll: Poll, indices: NDArray[np.int64], wanted: Columns) -> Decoded:
    """Decode messages that are one JSON object each."""
    texts = poll.at(indices)
    are_lines = _are_lines(texts)
    for line in np.flatnonzero(~are_lines).tolist():
        message = poll.message(int(indices[line]))
        try:
            texts[line] = _line_of(message.data)
            are_lines[line] = True
        except ValueError as error:
            yield BadMessage(message, 1, NOT_JSON, str(error), message.data, 0)
    if not are_lines.all():
        indices, texts = indices[are_lines], [texts[line] for line in np.flatnonzero(are_lines).tolist()]
    yield from _decode_text(poll, indices, texts, wanted, single=True)


def _are_lines(texts: Sequence[bytes]) -> NDArray[np.bool_]:
    """Which texts are a line from one brace to another, so that :func:`_line_of` would not change them."""
    text, starts, ends = _joined(texts)
    characters = np.frombuffer(text, dtype=np.uint8)
    long = ends - starts >= 2
    starts, ends = starts[long], ends[long]
    # Text in UTF-16 has a zero after its brace.
    alike = (
        (characters[starts] == ord("{")) & (characters[ends - 1] == ord("}")) & (characters[starts + 1] > 0)
    )
    breaks = np.flatnonzero(characters == ord("\n"))
    alike &= np.searchsorted(breaks, starts) == np.searchsorted(breaks, ends)
    long[long] = alike
    return long


def _other_text(data: bytes) -> str | None:
    """What a message is that is neither JSON nor lines of it, in words; None if unknown."""
    return "compressed by gzip: send it as it was before" if data.startswith(_GZIP) else other_text(data)


def _line_of(data: bytes) -> bytes:
    """The line of text that is a message of JSON.

    Raises:
        ValueError: if there is none.
    """
    other = _other_text(data)
    if other is not None:
        raise ValueError(f"it is {other}")
    text = data.removeprefix(BYTE_ORDER_MARK).strip(_SPACE)
    try:
        if b"\n" in text:
            # A line feed in valid JSON is whitespace, because strings may not have one.
            parsed(text)
            text = text.replace(b"\n", b" ")
        if not text:
            raise ValueError("it is empty")
    except (ValueError, RecursionError) as error:
        several = ": lines of objects are application/x-ndjson" if b"}\n{" in text else ""
        raise ValueError(f"not JSON: {error}{several}") from None
    return text


def _decode_lines(poll: Poll, indices: NDArray[np.int64], wanted: Columns) -> Decoded:
    """Decode messages of JSON lines."""
    kept, texts = list[int](), list[bytes]()
    for index in indices.tolist():
        message = poll.message(index)
        other, text = _other_text(message.data), message.data.removeprefix(BYTE_ORDER_MARK)
        if other is not None:
            yield BadMessage(message, 1, NOT_JSON, f"it is {other}", message.data, 0)
            continue
        if not text.lstrip(_SPACE):
            yield BadMessage(message, 1, BAD_MESSAGE, NO_REPORTS, message.data, None)
        kept.append(index)
        texts.append(text)
    yield from _decode_text(poll, np.array(kept, dtype=np.int64), texts, wanted, single=False)


def _decode_text(
    poll: Poll, indices: NDArray[np.int64], texts: Sequence[bytes], wanted: Columns, *, single: bool
) -> Decoded:
    text, starts, _ = _joined(texts)
    breaks = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    before = np.searchsorted(breaks, starts)

    def located(positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        which = np.searchsorted(starts, positions, side="right") - 1
        return indices[which], np.searchsorted(breaks, positions) - before[which]

    for item in decode_lines(0, text, wanted, [0, *starts.tolist()]):
        if isinstance(item, BadLine):
            which, row = located(np.array([item.position]))
            message = poll.message(int(which[0]))
            part = message.data if single else item.data
            yield BadMessage(message, item.reports, NOT_JSON, item.problem, part, int(row[0]))
        else:
            yield _placed(poll, item, *located(item.column("position").to_numpy()), wanted, single=single)


def _joined(texts: Sequence[bytes]) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Texts as lines, and where each begins and ends.

    An empty line comes first, so that :func:`decode_lines` does not take a message for the start of a file.
    """
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    ends = np.cumsum(lengths + 1)
    return b"\n".join([b"", *texts]), ends - lengths, ends


def _decode_avro(poll: Poll, indices: NDArray[np.int64], wanted: Columns) -> Decoded:
    """Decode messages of Avro, those of one schema together."""
    together: defaultdict[tuple[str, int], list[NDArray[np.int64]]] = defaultdict(list)
    values = poll.at(indices)
    starts = pa.array([value[: frame_of(value)] for value in values], pa.binary()).dictionary_encode()
    codes = starts.indices.to_numpy()
    groups = np.split(indices[np.argsort(codes, kind="stable")], np.cumsum(np.bincount(codes))[:-1])
    for frame, group in zip(starts.dictionary.to_pylist(), groups, strict=True):
        number, schema = framed_id(frame), ""
        try:
            if number is not None:
                schema = wanted.schemas.text_of(number)
                measured(schema)
        except UnknownSchemaError as error:
            problem = f"it begins as in Confluent's framing with the schema {number}: {error}"
            for message in map(poll.message, group.tolist()):
                yield BadMessage(message, 1, UNKNOWN_SCHEMA, problem, message.data, 0)
        else:
            together[schema, len(frame)].append(group)
    for (schema, start), alike in together.items():
        decode_records = functools.partial(decode_framed, schema=schema, start=start)
        decode_some = functools.partial(_decode_singles, decode_records if schema else decode_objects)
        for part in _parts(poll, np.concatenate(alike)):
            yield from _guarded(decode_some, poll, part, wanted)


def _decode_singles(decode_some: _Decode, poll: Poll, indices: NDArray[np.int64], wanted: Columns) -> Decoded:
    """Decode messages of one report each, and add the ids of the messages."""
    for item in decode_some(poll, indices, wanted):
        if isinstance(item, BadMessage):
            yield item
        else:
            which, row = item.column("position").to_numpy(), item.column("row").to_numpy()
            yield _placed(poll, item, which, row, wanted, single=True)


def _decode_stream(poll: Poll, indices: NDArray[np.int64], wanted: Columns) -> Decoded:
    """Decode a message of an Arrow stream, and add its id."""
    for item in decode_stream(poll.message(int(indices[0])), wanted):
        if isinstance(item, BadMessage):
            yield item
        else:
            row = item.column("row").to_numpy()
            yield _placed(poll, item, np.repeat(indices, len(row)), row, wanted, single=False)


def _placed(
    poll: Poll,
    batch: pa.RecordBatch,
    which: NDArray[np.int64],
    row: NDArray[np.int64],
    wanted: Columns,
    *,
    single: bool,
) -> pa.RecordBatch:
    records = pa.array(poll.at(which), pa.binary()) if wanted.whole and single else None
    return placed(
        batch, poll.ids, which, row, wanted, single=single, deliveries=poll.deliveries, records=records
    )
