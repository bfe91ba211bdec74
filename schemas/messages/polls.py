"""Decoding of what a poll of one source delivered, in parts of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.messages.binary import ARROW, BadMessage, Poll
from ldpbeam.schemas.messages.decode import EVENTS, LINES, decode, kind_of
from ldpbeam.schemas.reports.columns import Columns

#: A part of a poll ends before the next message of many reports once this many bytes of them are decoded.
DECODED_BYTES = 16 * 2**20
#: How many bytes of messages of lines are decoded together: a report may be a few bytes.
RUN_BYTES = 2**20


class PollPart(NamedTuple):
    """What consecutive messages of a poll decode to.

    Attributes:
        stop: the index after the part's last message; the part begins where the one before it stopped.
        batches: the reports. The order of messages is not kept.
        bad: the parts of messages that do not decode.
    """

    stop: int
    batches: list[pa.RecordBatch]
    bad: list[BadMessage]


def decode_poll(poll: Poll, wanted: Columns) -> Iterator[PollPart]:
    """Decode a poll as :func:`~ldpbeam.schemas.messages.decode.decode` does.

    Messages of one report take little more memory than their bytes, so they are all decoded at once. An Arrow
    message may decode to many times its size: it is decoded alone, and after ``DECODED_BYTES`` of such
    messages a part ends. Nothing of the next part is decoded before it is asked for.

    Args:
        poll: messages that fit into memory several times.
        wanted: which columns are read, and the attribute and service for reports without one.

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
        stop, size = len(poll.values), 0
        part = PollPart(stop, [], [])
        for run in _runs(poll, start + np.flatnonzero(are_many[start:]), kinds):
            if size >= DECODED_BYTES:
                stop = int(run[0])
                break
            size += _decode(poll.part(run), wanted, part)
        singles = start + np.flatnonzero(~are_many[start:stop])
        if len(singles):
            _decode(poll if len(singles) == len(poll.values) else poll.part(singles), wanted, part)
        yield part._replace(stop=stop)
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


def _decode(poll: Poll, wanted: Columns, part: PollPart) -> int:
    """Add what messages decode to to a part; how many bytes that is."""
    size = 0
    for item in decode(poll, wanted):
        if isinstance(item, BadMessage):
            part.bad.append(item)
            size += len(item.data)
        else:
            part.batches.append(item)
            size += int(item.nbytes)
    return size
