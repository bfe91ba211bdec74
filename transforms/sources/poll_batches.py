"""Batches of a feed from what a poll has delivered, in parts of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.messages.binary import ARROW, BadMessage, Poll
from ldpbeam.schemas.messages.decode import EVENTS, LINES, decode, kind_of
from ldpbeam.schemas.messages.placed import ids_of
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.feeds import FeedBatch

#: A part of a poll ends before the next message of many reports once this many bytes of them are decoded.
DECODED_BYTES = 16 * 2**20
#: How many bytes of messages of lines are decoded together: a report may be a few bytes.
RUN_BYTES = 2**20


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
    for items, stop in decode_poll(poll, columns):
        bad = [item for item in items if isinstance(item, BadMessage)]
        numbers = ids_of([one.message.id for one in bad]).numbers.to_pylist()
        letters = [
            DeadLetter(feed, number, one.row, one.reason, one.problem, one.reports, one.data)
            for number, one in zip(numbers, bad, strict=True)
        ]
        batches = [
            item.replace_schema_metadata({**(item.schema.metadata or {}), b"file": feed.encode()})
            for item in items
            if isinstance(item, pa.RecordBatch)
        ]
        yield FeedBatch(batches, letters, 0), stop


def decode_poll(poll: Poll, wanted: Columns) -> Iterator[tuple[list[pa.RecordBatch | BadMessage], int]]:
    """Decode a poll as :func:`~ldpbeam.schemas.messages.decode.decode` does.

    Messages of one report take little more memory than their bytes, so they are all decoded at once. An Arrow
    message may decode to many times its size: it is decoded alone, and after ``DECODED_BYTES`` of such
    messages a part ends. Nothing of the next part is decoded before it is asked for.

    Args:
        poll: messages that fit into memory several times.
        wanted: which columns are read, and the attribute and service for reports without one.

    Yields:
        What consecutive messages decode to, not in their order; and the index after the last one.

    Raises:
        OSError: if a registry of schemas does not answer.
    """
    kinds = {given: kind_of(given) for given in set(poll.content_types)}
    are_many = np.zeros(len(poll.values), dtype=np.bool_)
    many = (ARROW, LINES, EVENTS)
    if not set(many).isdisjoint(kinds.values()):
        are_many[:] = [kinds[given] in many for given in poll.content_types]
    start = 0
    while start < len(poll.values):
        stop, size, items = len(poll.values), 0, list[pa.RecordBatch | BadMessage]()
        for run in _runs(poll, start + np.flatnonzero(are_many[start:]), kinds):
            if size >= DECODED_BYTES:
                stop = int(run[0])
                break
            decoded = list(decode(poll.part(run), wanted))
            size += sum(len(item.data) if isinstance(item, BadMessage) else item.nbytes for item in decoded)
            items += decoded
        singles = start + np.flatnonzero(~are_many[start:stop])
        if len(singles):
            items += decode(poll if len(singles) == len(poll.values) else poll.part(singles), wanted)
        yield items, stop
        start = stop


def _runs(poll: Poll, indices: NDArray[np.int64], kinds: dict[str, str]) -> Iterator[NDArray[np.int64]]:
    """The indices of messages that are decoded together: one of Arrow, or lines of about ``RUN_BYTES``."""
    run, size = list[int](), 0
    for index in indices.tolist():
        is_arrow = kinds[poll.content_types[index]] == ARROW
        if run and (is_arrow or size >= RUN_BYTES):
            yield np.array(run)
            run, size = [], 0
        run.append(index)
        size += RUN_BYTES if is_arrow else len(poll.values[index])
    if run:
        yield np.array(run)
