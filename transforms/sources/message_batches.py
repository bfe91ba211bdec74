"""Messages that were pulled, decoded to a parcel of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ldpbeam.schemas.messages.decode import BadMessage, Message, decode_messages, may_expand
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.decoding import DEFEATED, PROBLEM, Record
from ldpbeam.transforms.sources.feeds import DECODED_BYTES, Parcel


class Received(NamedTuple):
    """A message as it was delivered.

    Attributes:
        receipt: what acknowledges this delivery.
        message: its id and contents.
        published: when it was sent, in epoch milliseconds.
    """

    receipt: str
    message: Message
    published: int


class _Part(NamedTuple):
    batches: list[pa.RecordBatch]
    letters: list[DeadLetter]
    messages: int


def next_parcel(
    feed: str, columns: Columns, received: Sequence[Received], record: Record
) -> tuple[Parcel, list[Received]]:
    """Decode messages until they are a parcel.

    Args:
        feed: the name of the feed, for batches and dead letters.
        columns: which columns of reports matter.
        received: at least one message.
        record: where messages are on record while they are decoded.

    Returns:
        The parcel, and the messages for which it has no room; their order has changed.
    """
    # What may be large comes later and suspects come last, and both are decoded one by one.
    waiting = sorted(received, key=lambda one: (one.message.id in record.suspects, may_expand(one.message)))
    fresh = [one.message for one in waiting if one.message.id not in record.suspects]
    parts: list[_Part] = []
    size = 0
    for part in _parts(feed, columns, fresh, [one.message for one in waiting[len(fresh) :]], record):
        parts.append(part)
        size += sum(len(letter.record) for letter in part.letters)
        size += sum(int(batch.nbytes) for batch in part.batches)
        if size >= DECODED_BYTES:
            break
    count = sum(part.messages for part in parts)
    taken = waiting[:count]
    parcel = Parcel(
        [batch for part in parts for batch in part.batches],
        [letter for part in parts for letter in part.letters],
        [one.receipt for one in taken],
        max(one.published for one in taken),
    )
    return parcel, waiting[count:]


def _parts(
    feed: str, columns: Columns, fresh: Sequence[Message], suspects: Sequence[Message], record: Record
) -> Iterator[_Part]:
    together = [message for message in fresh if not may_expand(message)]
    if fresh:
        with record.of([message.id for message in fresh]):
            if together:
                yield _decode(feed, columns, together)
            for message in fresh[len(together) :]:
                yield _decode(feed, columns, [message])
    for message in suspects:
        if record.suspects[message.id]:
            place = _number(message)
            yield _Part([], [DeadLetter(feed, place, None, DEFEATED, PROBLEM, 1, message.data)], 1)
            continue
        with record.of([message.id]):
            part = _decode(feed, columns, [message])
        yield part


def _decode(feed: str, columns: Columns, messages: Sequence[Message]) -> _Part:
    parcel = parcel_of(feed, columns, messages)
    return _Part(list(parcel.batches), list(parcel.letters), len(messages))


def parcel_of(feed: str, columns: Columns, messages: Sequence[Message]) -> Parcel:
    """All of some messages as a parcel without receipts: their batches, and what of them does not decode."""
    batches: list[pa.RecordBatch] = []
    letters: list[DeadLetter] = []
    for part in decode_messages(messages, columns):
        if isinstance(part, BadMessage):
            place = _number(part.message)
            letters.append(
                DeadLetter(feed, place, part.row, part.reason, part.problem, part.reports, part.data)
            )
        else:
            metadata = {**(part.schema.metadata or {}), b"file": feed.encode()}
            batches.append(part.replace_schema_metadata(metadata))
    return Parcel(batches, letters, [], 0)


def _number(message: Message) -> int | None:
    """A message's id where it is a number that a dead letter has room for."""
    text = message.id
    return int(text) if text.isascii() and text.isdigit() and int(text) < 2**63 else None
