"""Batches of a feed from what a poll has delivered."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.schemas.messages.binary import Poll
from ldpbeam.schemas.messages.placed import ids_of
from ldpbeam.schemas.messages.polls import decode_poll
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.feeds import FeedBatch


def batches_of(feed: str, columns: Columns, poll: Poll) -> Iterator[tuple[FeedBatch, int]]:
    """Decode the messages of a poll, in batches of bounded size; none before it is asked for.

    Args:
        feed: the name of the feed, for batches and dead letters.
        columns: the columns of reports that the study needs.
        poll: the messages, at least one.

    Yields:
        A batch, of which nothing is said of when it was published; and the index after its last message.

    Raises:
        OSError: if a registry of schemas does not answer.
    """
    for part in decode_poll(poll, columns):
        numbers = ids_of([bad.message.id for bad in part.bad]).numbers.to_pylist()
        letters = [
            DeadLetter(feed, number, bad.row, bad.reason, bad.problem, bad.reports, bad.data)
            for number, bad in zip(numbers, part.bad, strict=True)
        ]
        batches = [
            batch.replace_schema_metadata({**(batch.schema.metadata or {}), b"file": feed.encode()})
            for batch in part.batches
        ]
        yield FeedBatch(batches, letters, 0), part.stop
