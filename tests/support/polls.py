"""What a poll decodes to, in a form that does not depend on which messages were decoded together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ldpbeam.schemas.messages.binary import BadMessage, Message, Poll
from ldpbeam.schemas.messages.decode import decode_messages, together
from ldpbeam.schemas.messages.placed import Ids
from ldpbeam.schemas.reports.columns import MEANT_KEY, RECORD, Columns
from ldpbeam.transforms.sources.feeds import FeedBatch
from ldpbeam.transforms.sources.poll_batches import batches_of, decode_poll

PREFIX = "a/b/0"


def offsets(first: int, count: int) -> Ids:
    """The ids of consecutive messages of Kafka."""
    return Ids(pa.array(np.arange(first, first + count)), prefix=PREFIX)


def at_once(messages: Sequence[tuple[bytes, str]], wanted: Columns, ids: Ids) -> list[Any]:
    """Decode the data and content types of messages as a poll."""
    poll = Poll([data for data, _ in messages], [kind for _, kind in messages], ids)
    items = list[Any]()
    before = 0
    for some, stop in decode_poll(poll, wanted):
        assert stop > before
        before = stop
        items += some
    assert before == len(messages)
    return items


def batch_of(feed: str, wanted: Columns, messages: Sequence[Message]) -> FeedBatch:
    """The first batch of some messages, as a feed yields it."""
    return next(batches_of(feed, wanted, together(messages)))[0]


def one_by_one(messages: Sequence[tuple[bytes, str]], wanted: Columns, names: Sequence[str]) -> list[Any]:
    """Decode each message without any other."""
    return [
        item
        for name, (data, kind) in zip(names, messages, strict=True)
        for item in decode_messages([Message(name, data, kind)], wanted)
    ]


def reports_in(items: Iterable[Any]) -> Counter[str]:
    """The reports of decoded batches, with what the metadata say of each, and how often each is there.

    A number is the same one as an integer and as a float, and what is true or false may be no number: which
    it is depends on a message's neighbours, and what becomes of its report does not.
    """
    return Counter(row for item in items if not isinstance(item, BadMessage) for row in _rows(item))


def _rows(batch: pa.RecordBatch) -> Iterable[str]:
    said = {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
    # Which field is probably meant is said of the first record of a batch.
    said.pop(MEANT_KEY, None)
    kind = batch.schema.field("payload").type
    is_bool = pa.types.is_boolean(kind)
    is_number = is_bool or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    names = [name for name in batch.schema.names if name != RECORD or pa.types.is_binary(_kind(batch))]
    for row in batch.select(names).to_pylist():
        payload = row.pop("payload")
        if payload is not None:
            row["payload"] = math.nan if is_bool else float(payload) if is_number else payload
            row["kind of payload"] = "number" if is_number else str(kind)
        values = said | {name: value for name, value in row.items() if value is not None}
        yield repr(sorted((name, repr(value)) for name, value in values.items()))


def _kind(batch: pa.RecordBatch) -> pa.DataType:
    return batch.schema.field(RECORD).type


def bad_in(items: Iterable[Any]) -> Counter[tuple[Any, ...]]:
    """What does not decode, and how often each is there.

    Of more than 100 lines that do not look like objects some stand for others, and which these are depends on
    the neighbours of a message: then the lines of each message are counted.
    """
    bad = [item for item in items if isinstance(item, BadMessage)]
    are_many = sum(item.reports for item in bad) > 100
    counts = Counter[tuple[Any, ...]]()
    for item in bad:
        if are_many and item.reason == "not_json":
            counts[item.message, item.reason] += item.reports
        else:
            counts[item.message, item.reason, item.row, item.data, item.problem, item.reports] += 1
    return counts
