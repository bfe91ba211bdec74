"""Messages to slices."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.scale.measuring.meter import line, outputs, spent
from benchmarks.scale.measuring.reports import sent
from benchmarks.scale.setting import HOUR, MESSAGE_REPORTS, filled, study_of
from ldpbeam.schemas.messages.decode import together
from ldpbeam.transforms.reports.emitted import BatchCoder
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.poll_batches import batches_of
from ldpbeam.transforms.sources.pubsub import BATCH_MESSAGES
from ldpbeam.transforms.statistics import ValidateReports
from ldpbeam.transforms.windows.cut import Pieces, each_window
from ldpbeam.transforms.windows.split import Split


def measure(folder: Path) -> dict[str, Any]:
    """Messages to slices."""
    from examples.stream import client
    from ldpbeam.schemas.messages.binary import Message

    study = study_of(2, window="1h")
    validate = ValidateReports(study).function
    columns = wanted_columns(study, None, None)

    def published(users: int, alone: bool) -> list[Message]:
        found: list[client.Outgoing] = []
        for part in sent(study, users, time.time_ns() // 1_000_000 // HOUR * HOUR, HOUR):
            if alone:
                names = pa.array([user.hex() for user in part.users.to_pylist()])
                found += client.one_by_one(replace(part, users=names))
            else:
                found += client.in_batches(part, MESSAGE_REPORTS)
        # Ids of messages have so many digits.
        return [Message(str(10**16 + n), one.data, one.content_type) for n, one in enumerate(found)]

    def checked(decoded: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return [one for part in decoded for one in validate.process(part) if isinstance(one, pa.RecordBatch)]

    def take(messages: Sequence[Message]) -> list[pa.RecordBatch]:
        starts = range(0, len(messages), BATCH_MESSAGES)
        parts = (messages[at : at + BATCH_MESSAGES] for at in starts)
        return checked(
            decoded
            for part in parts
            for batch, _ in batches_of("projects/p/subscriptions/s", columns, together(part))
            for decoded in batch.batches
        )

    def cut(shards: int) -> tuple[float, float]:
        assert study.windows is not None
        step, slices = (
            Split(Pieces(study.windows, shards, each_window), clock=True),
            filled(shards, MESSAGE_REPORTS),
        )
        return slices / MESSAGE_REPORTS, spent(lambda: outputs(step, batches)) / 200_000

    many, alone = published(100_000, False), published(2_000, True)
    batches = take(many)
    stream_cut, stream_cut_slice = line(cut(8), cut(1024))
    large, small = batches[0], batches[0].slice(0, 16)
    streamed, _ = line(*((1 / b.num_rows, len(BatchCoder().encode(b)) / b.num_rows) for b in (large, small)))
    return {
        "message_bytes": sum(len(one.data) for one in many) / 200_000,
        "message_bytes_alone": sum(len(one.data) for one in alone) / 4_000,
        "taken": spent(lambda: take(many)) / 200_000,
        "taken_alone": spent(lambda: take(alone)) / 4_000,
        "stream_cut": stream_cut,
        "stream_cut_slice": stream_cut_slice,
        "bytes_streamed": streamed,
    }
