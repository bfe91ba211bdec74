"""Decoding of Pub/Sub messages to the batches that files give too (``schemas/reports/columns.py``).

Two columns differ. ``position`` is the message's id if that is a number below 2**63, else null. ``row`` is
the report's index in its message; for JSON lines, the line's index. A report without an id has a delivery, in
a column that no client writes, so that a message that is delivered twice counts once: the message's id for a
message's only report, ``id/r`` for row r of a message with many reports.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.schemas.encodings.writer_schemas import UnknownSchemaError, measured
from ldpbeam.schemas.files.json_lines import (
    BYTE_ORDER_MARK,
    CHUNK_BYTES,
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
    decode_framed,
    decode_objects,
    decode_stream,
    framed_id,
)
from ldpbeam.schemas.messages.placed import ids_of, placed
from ldpbeam.schemas.reports.columns import Columns

UNKNOWN_CONTENT_TYPE = "unknown_content_type"
NOT_JSON = "not_json"

JSON, LINES = "application/json", "application/x-ndjson"
AVRO = ("application/avro", "avro/binary")
#: A CloudEvent in JSON, whose ``data`` is the report. Its other attributes are fields, ``ce_`` before their
#: names, as CloudEvents calls them in headers.
EVENT, EVENT_PREFIX = "application/cloudevents+json", "ce_"
KNOWN = (JSON, EVENT, LINES, *AVRO, ARROW)
_SPACE = b" \t\r\n"


_Decode = Callable[[Sequence[Message], Columns], Decoded]


def decode_messages(messages: Sequence[Message], wanted: Columns) -> Decoded:
    """Decode messages to batches of reports, and the parts that do not decode to bad messages.

    No bytes raise an error, and each message gives a report or a bad message. Messages of single reports and
    of JSON lines are decoded together, so the order of messages is not kept.

    Args:
        messages: messages of any content type.
        wanted: which columns are read, and the attribute and service for reports without one.

    Raises:
        OSError: if a registry of schemas does not answer.
    """
    together: dict[tuple[_Decode, object], list[Message]] = defaultdict(list)
    texts = _text_fields(tuple(wanted.fields.values()))
    for message in messages:
        kind, data = _kind(message), message.data
        if kind == EVENT:
            try:
                kind, data = JSON, _report_of_event(data)
                message = replace(message, data=data)
            except (ValueError, RecursionError) as error:
                yield BadMessage(message, 1, BAD_MESSAGE, f"no CloudEvent with a report: {error}", data, 0)
                continue
        other = other_text(data) if kind in ("", JSON, LINES) else None
        if other is not None:
            yield BadMessage(message, 1, NOT_JSON, f"it is {other}", data, 0)
        elif kind == JSON:
            together[_decode_reports, frozenset(texts.findall(data))].append(message)
        elif kind == LINES:
            together[_decode_lines, frozenset(texts.findall(data.partition(b"\n")[0]))].append(message)
        elif kind in AVRO and (number := framed_id(data)) is not None:
            try:
                schema = wanted.schemas.text_of(number)
                measured(schema)
            except UnknownSchemaError as error:
                problem = f"it begins as in Confluent's framing with the schema id {number}: {error}"
                yield BadMessage(message, 1, UNKNOWN_SCHEMA, problem, data, 0)
            else:
                together[_decoder_of(schema), None].append(message)
        elif kind in AVRO:
            together[_decode_objects, None].append(message)
        elif kind == ARROW:
            yield from _guarded(_decode_stream, [message], wanted)
        else:
            yield _unknown(message, kind)
    for (decode, _), alike in together.items():
        for part in _parts(alike):
            yield from _guarded(decode, part, wanted)


def may_expand(message: Message) -> bool:
    """Whether a message may decode to many times its size: it may be compressed or have dictionaries."""
    return _given(message) == ARROW


def _given(message: Message) -> str:
    return message.content_type.partition(";")[0].strip().lower()


def _kind(message: Message) -> str:
    """The content type of a message, by its data if it has none, and one of those that mean the same."""
    given = _given(message)
    if given in (JSON, LINES, ARROW):
        return given
    if not given:
        text = message.data.removeprefix(BYTE_ORDER_MARK).lstrip(_SPACE)
        is_framed = framed_id(message.data) is not None and other_text(message.data) is None
        return JSON if text.startswith(b"{") else AVRO[0] if is_framed else ""
    if given == "application/ndjson":
        return LINES
    return JSON if re.fullmatch(r"application/.+\+json", given) and given != EVENT else given


def _report_of_event(data: bytes) -> bytes:
    """The report in a CloudEvent, with the event's attributes beside its fields.

    Raises:
        ValueError: if it is no event with an object as its data.
        RecursionError: if it is nested too deeply.
    """
    event = parsed(data.removeprefix(BYTE_ORDER_MARK))
    if not isinstance(event, dict) or not isinstance(report := event.pop("data", None), dict):
        raise ValueError("an object with an object as its data is needed")
    return json.dumps(report | {f"{EVENT_PREFIX}{name}": value for name, value in event.items()}).encode()


def _unknown(message: Message, kind: str) -> BadMessage:
    what = f"content type {kind!r} is none of" if kind else "no content-type, and no JSON object; there are"
    problem = f"{what} {', '.join(KNOWN)}"
    return BadMessage(message, 1, UNKNOWN_CONTENT_TYPE, problem, message.data, None)


@functools.lru_cache(maxsize=64)
def _text_fields(fields: tuple[str, ...]) -> re.Pattern[bytes]:
    """Finds the names of those of some fields that have text in a JSON report.

    Reports with the same text fields have columns of the same types, which pyarrow reads fast.
    """
    return re.compile(rf'"({"|".join(map(re.escape, fields))})"\s*:\s*"'.encode())


def _parts(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Consecutive messages in parts of about ``CHUNK_BYTES`` bytes."""
    ends = np.cumsum([len(message.data) for message in messages]) // CHUNK_BYTES
    for _, part in itertools.groupby(zip(ends.tolist(), messages, strict=True), key=lambda pair: pair[0]):
        yield [message for _, message in part]


def _guarded(decode: _Decode, messages: Sequence[Message], wanted: Columns) -> Decoded:
    """Decode messages; a message whose decoding raises an error becomes a bad message.

    If decoding several messages raises an error, each half is decoded separately.
    """
    if len(messages) > 1:
        try:
            items = list(decode(messages, wanted))
        except Exception:  # the error is raised again, and handled, when its message is decoded alone
            middle = len(messages) // 2
            yield from _guarded(decode, messages[:middle], wanted)
            yield from _guarded(decode, messages[middle:], wanted)
        else:
            yield from items
        return
    try:
        yield from decode(messages, wanted)
    except Exception as error:  # damaged bytes can raise any error of Arrow, fastavro or a codec
        (message,) = messages
        yield BadMessage(message, 1, BAD_MESSAGE, str(error) or repr(error), message.data, None)


def _decode_reports(messages: Sequence[Message], wanted: Columns) -> Decoded:
    """Decode messages that are one JSON object each."""
    whole, texts = [], []
    for message in messages:
        text = message.data.removeprefix(BYTE_ORDER_MARK).strip(_SPACE)
        try:
            if b"\n" in text:
                # A line feed in valid JSON is whitespace, because strings may not have one.
                parsed(text)
                text = text.replace(b"\n", b" ")
            if not text:
                raise ValueError("it is empty")
        except (ValueError, RecursionError) as error:
            yield BadMessage(message, 1, NOT_JSON, f"not JSON: {error}", message.data, 0)
        else:
            whole.append(message)
            texts.append(text)
    yield from _decode_text(whole, texts, wanted, single=True)


def _decode_lines(messages: Sequence[Message], wanted: Columns) -> Decoded:
    """Decode messages of JSON lines."""
    texts = [message.data.removeprefix(BYTE_ORDER_MARK) for message in messages]
    for message, text in zip(messages, texts, strict=True):
        if not text.lstrip(_SPACE):
            yield BadMessage(message, 1, BAD_MESSAGE, NO_REPORTS, message.data, None)
    yield from _decode_text(messages, texts, wanted, single=False)


def _decode_text(
    messages: Sequence[Message], texts: Sequence[bytes], wanted: Columns, *, single: bool
) -> Decoded:
    # An empty line comes first, so that decode_lines does not take a message for the start of a file.
    text = b"\n".join([b"", *texts])
    starts = np.cumsum([1, *(len(each) + 1 for each in texts)])[:-1]
    breaks = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    before = np.searchsorted(breaks, starts)
    ids, data = ids_of([message.id for message in messages]), [message.data for message in messages]

    def places(positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        which = np.searchsorted(starts, positions, side="right") - 1
        return which, np.searchsorted(breaks, positions) - before[which]

    for item in decode_lines(0, text, wanted, [0, *starts.tolist()]):
        if isinstance(item, BadLine):
            which, row = places(np.array([item.position]))
            message = messages[which[0]]
            part = message.data if single else item.data
            yield BadMessage(message, item.reports, NOT_JSON, item.problem, part, int(row[0]))
        else:
            which, row = places(item.column("position").to_numpy())
            yield placed(item, ids, which, row, wanted, single=single, data=data)


def _placed(
    decode: Callable[[Any, Columns], Decoded], messages: Sequence[Message], wanted: Columns, *, single: bool
) -> Decoded:
    """Decode messages of one report each (``single``), or one message, and add the ids of the messages."""
    ids, data = ids_of([message.id for message in messages]), [message.data for message in messages]
    for item in decode(messages if single else messages[0], wanted):
        if isinstance(item, BadMessage):
            yield item
            continue
        row = item.column("row").to_numpy()
        which = item.column("position").to_numpy() if single else np.zeros_like(row)
        yield placed(item, ids, which, row, wanted, single=single, data=data)


@functools.lru_cache(maxsize=64)
def _decoder_of(schema: str) -> _Decode:
    """The decoder of records of a schema with Confluent's framing; the same one for the same schema."""
    return functools.partial(_placed, functools.partial(decode_framed, schema=schema), single=True)


_decode_objects = functools.partial(_placed, decode_objects, single=True)
_decode_stream = functools.partial(_placed, decode_stream, single=False)
