"""Decoding pulled messages into a batch of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ldpbeam.schemas.messages.decode import BadMessage, Message, decode_messages, may_expand
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.decoding import DEFEATED, PROBLEM, Record
from ldpbeam.transforms.sources.feeds import DECODED_BYTES, FeedBatch


class Received(NamedTuple):
    """A message as it was delivered.

    Attributes:
        receipt: acknowledges this delivery.
        message: the id and the contents.
        published: when it was published, in epoch milliseconds.
        settled: whether no older message can still be on its way because a pull before this one failed.
    """

    receipt: str
    message: Message
    published: int
    settled: bool = True


def next_batch(
    feed: str, columns: Columns, received: Sequence[Received], record: Record
) -> tuple[FeedBatch, list[Received]]:
    """Decode messages until they fill a batch.

    Args:
        feed: the name of the feed, for batches and dead letters.
        columns: the columns of reports that the study needs.
        received: the messages, at least one.
        record: keeps messages on record while they are decoded.

    Returns:
        The batch, and the messages for which it had no room, in another order.
    """
    # Messages that may expand come later and suspects come last; both are decoded one by one.
    waiting = sorted(
        received, key=lambda item: (item.message.id in record.suspects, may_expand(item.message))
    )
    fresh = [item.message for item in waiting if item.message.id not in record.suspects]
    parts: list[tuple[FeedBatch, int]] = []
    size = 0
    for part in _parts(feed, columns, fresh, [item.message for item in waiting[len(fresh) :]], record):
        parts.append(part)
        size += sum(len(letter.record) for letter in part[0].letters)
        size += sum(int(batch.nbytes) for batch in part[0].batches)
        if size >= DECODED_BYTES:
            break
    count = sum(messages for _, messages in parts)
    taken = waiting[:count]
    feed_batch = FeedBatch(
        [batch for part, _ in parts for batch in part.batches],
        [letter for part, _ in parts for letter in part.letters],
        [item.receipt for item in taken],
        max(item.published for item in taken),
        oldest=min(item.published for item in waiting) if all(item.settled for item in waiting) else None,
    )
    return feed_batch, waiting[count:]


def _parts(
    feed: str, columns: Columns, fresh: Sequence[Message], suspects: Sequence[Message], record: Record
) -> Iterator[tuple[FeedBatch, int]]:
    """(batch, how many messages it holds), in the order of ``fresh`` and then ``suspects``."""
    together = [message for message in fresh if not may_expand(message)]
    if fresh:
        with record.of([message.id for message in fresh]):
            if together:
                yield batch_of(feed, columns, together), len(together)
            for message in fresh[len(together) :]:
                yield batch_of(feed, columns, [message]), 1
    for message in suspects:
        if record.suspects[message.id]:
            number = _number(message)
            letter = DeadLetter(feed, number, None, DEFEATED, PROBLEM, 1, message.data)
            yield FeedBatch([], [letter], [], 0), 1
            continue
        with record.of([message.id]):
            decoded = batch_of(feed, columns, [message])
        yield decoded, 1


def batch_of(feed: str, columns: Columns, messages: Sequence[Message]) -> FeedBatch:
    """Decode messages into a batch without receipts; what does not decode becomes dead letters."""
    batches: list[pa.RecordBatch] = []
    letters: list[DeadLetter] = []
    for part in decode_messages(messages, columns):
        if isinstance(part, BadMessage):
            number = _number(part.message)
            letters.append(
                DeadLetter(feed, number, part.row, part.reason, part.problem, part.reports, part.data)
            )
        else:
            metadata = {**(part.schema.metadata or {}), b"file": feed.encode()}
            batches.append(part.replace_schema_metadata(metadata))
    return FeedBatch(batches, letters, [], 0)


def _number(message: Message) -> int | None:
    """A message's id as a number below 2**63, for a dead letter's position; None if it is no such number."""
    text = message.id
    return int(text) if text.isascii() and text.isdigit() and int(text) < 2**63 else None
