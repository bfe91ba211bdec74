"""Decoding pulled messages into a batch of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ldpbeam.schemas.messages.binary import BadMessage, Message
from ldpbeam.schemas.messages.decode import decode_messages, may_expand
from ldpbeam.schemas.messages.placed import ids_of
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.feeds import DECODED_BYTES, FeedBatch

#: So many bytes of messages are decoded before it is asked whether they fill a batch.
RUN_BYTES = 2**20


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


def next_batch(feed: str, columns: Columns, received: Sequence[Received]) -> tuple[FeedBatch, list[Received]]:
    """Decode messages until they fill a batch.

    Args:
        feed: the name of the feed, for batches and dead letters.
        columns: the columns of reports that the study needs.
        received: the messages, at least one.

    Returns:
        The batch, and the messages for which it had no room: the last ones, in their order.
    """
    parts: dict[int, FeedBatch] = {}
    count = len(received)
    large = [place for place in range(count) if may_expand(received[place].message)]
    count = _decode_each(
        parts, large, count, lambda place: batch_of(feed, columns, [received[place].message])
    )
    runs = _runs(received, [place for place in range(count) if place not in parts])
    count = _decode_each(parts, list(runs), count, lambda place: batch_of(feed, columns, runs[place]))
    left = [parts[place] for place in sorted(parts) if place < count]
    feed_batch = FeedBatch(
        [batch for part in left for batch in part.batches],
        [letter for part in left for letter in part.letters],
        max(item.published for item in received[:count]),
        oldest=min(item.published for item in received) if all(item.settled for item in received) else None,
    )
    return feed_batch, list(received[count:])


def _runs(received: Sequence[Received], places: Sequence[int]) -> dict[int, list[Message]]:
    """Messages that are decoded together, by the place of the first: a few bytes may be a report."""
    runs: dict[int, list[Message]] = {}
    size = RUN_BYTES
    for place in places:
        if size >= RUN_BYTES:
            first, size = place, 0
        message = received[place].message
        runs.setdefault(first, []).append(message)
        size += len(message.data)
    return runs


def _decode_each(
    parts: dict[int, FeedBatch], places: Sequence[int], count: int, decode: Callable[[int], FeedBatch]
) -> int:
    """Decode messages, or runs of them by their first, into ``parts`` until these fill a batch.

    Returns:
        How many messages the batch can have: those before the first that was not decoded, or ``count``.
    """
    size = 0
    for place in places:
        if place >= count or size >= DECODED_BYTES:
            return min(place, count)
        parts[place] = decode(place)
        size += sum(len(letter.record) for letter in parts[place].letters)
        size += sum(int(batch.nbytes) for batch in parts[place].batches)
    return count


def batch_of(feed: str, columns: Columns, messages: Sequence[Message]) -> FeedBatch:
    """Decode messages into a batch; what does not decode becomes dead letters."""
    parts = list(parts_of(feed, columns, messages))
    letters = [part for part in parts if isinstance(part, DeadLetter)]
    return FeedBatch([part for part in parts if not isinstance(part, DeadLetter)], letters, 0)


def parts_of(
    feed: str, columns: Columns, messages: Sequence[Message]
) -> Iterator[pa.RecordBatch | DeadLetter]:
    """Decode messages one part after the other: batches that name the feed, and dead letters."""
    for part in decode_messages(messages, columns):
        if isinstance(part, BadMessage):
            number = number_in(part.message)
            yield DeadLetter(feed, number, part.row, part.reason, part.problem, part.reports, part.data)
        else:
            yield part.replace_schema_metadata({**(part.schema.metadata or {}), b"file": feed.encode()})


def number_in(message: Message) -> int | None:
    """The number in a message's id, for a dead letter's position; None if there is none below 2**63."""
    numbers = ids_of([message.id]).numbers
    number: int | None = numbers[0].as_py()
    return number
