"""Decoding pulled messages into a batch of bounded size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from ldpbeam.schemas.messages.binary import BadMessage, Message
from ldpbeam.schemas.messages.decode import decode_messages, may_expand
from ldpbeam.schemas.messages.placed import ids_of
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.feeds import DECODED_BYTES, FeedBatch
from ldpbeam.transforms.state.decoding import DEFEATED, PROBLEM, TOGETHER, Record
from ldpbeam.transforms.state.records import Checksum

#: So many bytes of messages are decoded before it is asked whether they fill a batch.
RUN_BYTES = 2**20


class Received(NamedTuple):
    """A message as it was delivered.

    Attributes:
        receipt: acknowledges this delivery.
        message: the id and the contents.
        published: when it was published, in epoch milliseconds.
        settled: whether no older message can still be on its way because a pull before this one failed.
        checksum: of the message, if it has an offset.
    """

    receipt: str
    message: Message
    published: int
    settled: bool = True
    checksum: Checksum | None = None


def next_batch(
    feed: str, columns: Columns, received: Sequence[Received], record: Record | None
) -> tuple[FeedBatch, list[Received]]:
    """Decode messages until they fill a batch.

    Args:
        feed: the name of the feed, for batches and dead letters.
        columns: the columns of reports that the study needs.
        received: the messages, at least one.
        record: keeps messages on record until it is told that they have passed, or the next batch is asked
            for; None in a run that nobody starts again.

    Returns:
        The batch, and the messages for which it had no room: the last ones, in their order.
    """
    if record is not None:
        record.passed()
    sizes = {} if record is None else record.suspects
    count = _alike(received, sizes)
    ids = [item.message.id for item in received[:count]]
    if sizes.get(ids[0]) == 0:
        message = received[0].message
        parts = {
            0: FeedBatch(
                [], [DeadLetter(feed, _number(message), None, DEFEATED, PROBLEM, 1, message.data)], [], 0
            )
        }
    elif record is None:
        parts, count = _decode(feed, columns, received[:count])
    else:
        record.hold(ids)
        try:
            parts, count = _decode(feed, columns, received[:count])
        except BaseException:
            record.passed(suspected=True)
            raise
        if count < len(ids):
            record.hold(ids[:count])
    taken = received[:count]
    left = [parts[place] for place in sorted(parts) if place < count]
    feed_batch = FeedBatch(
        [batch for part in left for batch in part.batches],
        [letter for part in left for letter in part.letters],
        [item.receipt for item in taken],
        max(item.published for item in taken),
        oldest=min(item.published for item in received) if all(item.settled for item in received) else None,
    )
    return feed_batch, list(received[count:])


def _alike(received: Sequence[Received], sizes: Mapping[str, int]) -> int:
    """How many of the first messages may be in one batch: new ones, a group of suspects, or one alone."""

    def most(item: Received) -> int:
        size = sizes.get(item.message.id)
        if size is None:
            return len(received)
        return 1 if size <= TOGETHER or may_expand(item.message) else TOGETHER

    first = most(received[0])
    return min(first, len(list(itertools.takewhile(lambda item: most(item) == first, received))))


def _decode(feed: str, columns: Columns, received: Sequence[Received]) -> tuple[dict[int, FeedBatch], int]:
    """(Messages decoded until they fill a batch, by the place of the first of each part; how many it has)."""
    parts: dict[int, FeedBatch] = {}
    large = [place for place, item in enumerate(received) if may_expand(item.message)]
    count = _decode_each(
        parts, large, len(received), lambda place: batch_of(feed, columns, [received[place].message])
    )
    runs = _runs(received, [place for place in range(count) if place not in parts])
    return parts, _decode_each(parts, list(runs), count, lambda place: batch_of(feed, columns, runs[place]))


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
    """The number in a message's id, for a dead letter's position; None if there is none below 2**63."""
    numbers = ids_of([message.id]).numbers
    number: int | None = numbers[0].as_py()
    return number
