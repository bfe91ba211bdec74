"""The users a day from which on something no longer fits."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.scale.computing.costs import WORKER_GB
from benchmarks.scale.measured import Measured
from benchmarks.scale.numbers import short
from benchmarks.scale.setting import shard_reports
from ldpbeam.pipelines.graphs import batch
from ldpbeam.transforms import windows
from ldpbeam.transforms.outputs.letter_files import DEAD_LETTER_SHARDS

#: The share of bad reports for which a limit is told.
BAD = 0.01


class Limit(NamedTuple):
    """A number of users a day from which on a run fails, or costs more than it need.

    Attributes:
        users: how many a day.
        where: in which runs.
        what: what happens then, and what to do.
    """

    users: float
    where: str
    what: str


def limits(m: Measured) -> list[Limit]:
    """The limits of all runs, the lowest first."""
    room = WORKER_GB * 1e9 - m.process
    merged = room / (m.statistics["2 256"][0] * m.merge_memory)
    found = [
        Limit(
            windows.SHARDS * room / m.memory / 2,
            f"stream, windows of a day, `shards={windows.SHARDS}` (the default)",
            "a shard, which is read and joined whole, no longer fits a worker; with windows of an hour "
            "the limit is 24 times the users. Set more shards",
        ),
        Limit(
            DEAD_LETTER_SHARDS * room / m.letter_bytes / 2 / BAD,
            f"batch, {BAD:.0%} of the reports bad",
            f"dead letters are gathered for {DEAD_LETTER_SHARDS} files, each in the memory of one worker. "
            f"If every report is bad, the limit is {BAD:.0%} of these users",
        ),
        Limit(
            batch.MOST_SHARDS * room / m.memory / 2,
            "batch, one window",
            f"one of {batch.MOST_SHARDS:,} shards, the maximum, no longer fits a worker",
        ),
    ]
    if merged < batch.MOST_SHARDS:
        what = (
            f"{short(merged)} statistics of a window no longer fit the worker that merges them. The limit is "
            "higher on engines that put several shards into a bundle"
        )
        where = "batch, two services joined, every shard a bundle of its own"
        found.append(Limit(merged * shard_reports(m.avro) / 2, where, what))
    return sorted(found)
