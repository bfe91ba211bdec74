"""A day of users in a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.scale.computing.costs import WORKER_GB
from benchmarks.scale.measured import Measured
from benchmarks.scale.prices import GB_HOUR_STREAMING, STREAMED_GB, VCPU_HOUR_STREAMING
from benchmarks.scale.setting import MESSAGE_REPORTS, filled, shard_reports


@dataclass(frozen=True)
class StreamRun:
    """What a day of a stream would take, with :data:`~benchmarks.scale.setting.MESSAGE_REPORTS` in a message.

    Attributes:
        shards: as many as give a window shards of the size that bounded runs intend.
        rows: reports in a piece, in the mean.
        state: bytes of a window's reports when it ends.
        moved: bytes through the engine: to their key, into its state and out of it.
        core_hours: of the core that was measured, in a day.
        closing: seconds in which one key adds up what all shards say when a window ends.
    """

    shards: int
    rows: float
    state: float
    moved: float
    core_hours: float
    closing: float

    @property
    def dollars(self) -> float:
        """A day on Dataflow, without Pub/Sub."""
        hour = VCPU_HOUR_STREAMING + WORKER_GB * GB_HOUR_STREAMING
        return self.core_hours * hour + self.moved / 1e9 * STREAMED_GB


def stream_run(m: Measured, users: float, *, windows: int, bundle: float) -> StreamRun:
    """A day of users who tell two services, in so many windows; a bundle has so many reports of both."""
    reports = 2 * users
    shards = math.ceil(reports / windows / shard_reports(m.avro))
    rows = bundle / filled(2 * shards, bundle)
    slices = filled(shards, MESSAGE_REPORTS) / MESSAGE_REPORTS
    # What goes into the state and comes out of it is taken to cost as much as what goes to its key.
    moving = 2 * (m.shuffle + m.shuffle_piece / rows)
    joining = m.first + m.join + (m.first_piece + m.join_piece) / rows
    cost = m.taken + m.stream_cut + m.stream_cut_slice * slices + moving + joining
    a_report = m.bytes_streamed + m.bytes_piece / rows
    return StreamRun(
        shards=shards,
        rows=rows,
        state=reports / windows * a_report,
        moved=3 * reports * a_report,
        core_hours=(reports * cost + shards * windows * (m.join_each + m.gain)) / 3.6e9,
        closing=shards * m.gain / 1e6,
    )
