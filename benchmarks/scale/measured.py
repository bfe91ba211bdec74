"""The constants that were measured on one core, and the file that keeps them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measured:
    """What was measured: microseconds of one core and bytes, a report where nothing else is said.

    A slice is the rows of a batch that go to one shard and window; a piece is what a bundle hands on to
    one, gathered from its slices. ``_slice`` and ``_piece`` are what one more of them costs.

    Attributes:
        day: when.
        processor: on what.
        avro: bytes in a file.
        read: read and validate.
        shuffle: encode, the shuffle of Beam's engine in this process, decode.
        join: join and tally; ``join_each`` what a join costs besides.
        join_hours: cut by 24 windows, join and tally.
        first: compare report ids.
        batches_after_first: batches that come out of that for each that goes in.
        letter: make a dead letter.
        letter_bytes: of one in memory.
        bytes_plain: in a shuffle; ``bytes_ids`` with a report id.
        process: bytes of a process that has imported everything.
        memory: bytes at the worst moment between a shard's shuffle and its statistic.
        merge: a statistic in the combiner.
        merge_memory: what merging 400 statistics takes, in their own bytes.
        gain: a statistic that a pane adds up.
        message_bytes: in a message of many; ``message_bytes_alone`` in one of its own.
        taken: decode from a message of many, and validate; ``_alone`` from one of its own.
        bytes_streamed: in a stream's state.
        statistics: bytes of a statistic by "services buckets": of some users, and its cells at most.
    """

    day: str
    processor: str
    avro: float
    read: float
    cut: float
    cut_slice: float
    shuffle: float
    shuffle_piece: float
    join: float
    join_piece: float
    join_each: float
    join_hours: float
    first: float
    first_piece: float
    batches_after_first: float
    letter: float
    letter_bytes: float
    bytes_plain: float
    bytes_ids: float
    bytes_piece: float
    process: float
    memory: float
    merge: float
    merge_memory: float
    gain: float
    message_bytes: float
    message_bytes_alone: float
    taken: float
    taken_alone: float
    stream_cut: float
    stream_cut_slice: float
    bytes_streamed: float
    statistics: dict[str, list[int]]


def kept(m: Measured) -> str:
    """The file that keeps what was measured."""
    return json.dumps(asdict(m), indent=1) + "\n"


def measured_in(text: str) -> Measured:
    """What a file keeps."""
    return Measured(**json.loads(text))
