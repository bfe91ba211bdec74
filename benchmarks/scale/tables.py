"""The tables on scale, which follow from what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.pages import Table, table
from benchmarks.scale.computing.batch_run import BatchRun, batch_run
from benchmarks.scale.computing.limits import limits
from benchmarks.scale.computing.stream_run import StreamRun, stream_run
from benchmarks.scale.measured import Measured
from benchmarks.scale.numbers import short, size
from benchmarks.scale.prices import MACHINE_HOUR
from benchmarks.scale.setting import BUNDLE_SECONDS

#: Reports in a small bundle of a stream.
SMALL_BUNDLE = 1_000
POWERS = (8, 9, 10, 11)


def tables(m: Measured, users: float = 1e9) -> Iterator[Table]:
    """What a day of users takes who report to two services each, how that grows, and what is full first."""
    names = ["run", "shards", "reports per piece", "memory or state", "shuffled", "core-hours"]
    yield table("scale", [*names, "on Dataflow", "cores on Flink"], _runs(m, users))
    growth = (_grown(m, 10.0**power, f"10^{power}") for power in POWERS)
    yield table(
        "scale_growth",
        ["users a day", "shards", "reports per piece", "core-hours", "a shard in memory"],
        growth,
    )
    met = ([f"{short(one.users / 1e6)} million", one.where, one.what] for one in limits(m))
    yield table("scale_limits", ["users a day", "where", "what happens"], met)


def _runs(m: Measured, users: float) -> Iterator[list[str]]:
    for windows, ids in ((1, False), (24, False), (1, True), (24, True)):
        name = f"batch, {windows} window{'s' * (windows > 1)}{', report ids' * ids}"
        run = batch_run(m, users, windows=windows, ids=ids)
        yield _row(name, run, run.memory, run.shuffled)
    own = 2 * users / 86_400 * BUNDLE_SECONDS
    for name, windows in (("an hour", 24), ("a day", 1)):
        for bundle in (own, SMALL_BUNDLE):
            stream = stream_run(m, users, windows=windows, bundle=bundle)
            label = f"stream, windows of {name}, {short(bundle)} reports per bundle"
            yield _row(label, stream, stream.state, stream.moved)


def _row(name: str, run: BatchRun | StreamRun, memory: float, shuffled: float) -> list[str]:
    numbers = [f"{run.shards:,}", short(run.rows), size(memory), size(shuffled), short(run.core_hours)]
    return [name, *numbers, f"${run.dollars:.2f}", f"${run.core_hours * MACHINE_HOUR:.2f}"]


def _grown(m: Measured, users: float, name: str) -> list[str]:
    run = batch_run(m, users)
    return [name, f"{run.shards:,}", short(run.rows), short(run.core_hours), size(run.memory)]
