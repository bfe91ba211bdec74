"""A day of users with two services each: in batch, as users grow, in a stream, and what that costs."""

from __future__ import annotations

import math

from benchmarks.scale.computing.batch_run import BatchRun, batch_run
from benchmarks.scale.computing.costs import WORKER_GB, overhead
from benchmarks.scale.computing.stream_run import StreamRun, stream_run
from benchmarks.scale.measured import Measured
from benchmarks.scale.numbers import short, size, table
from benchmarks.scale.prices import (
    GB_HOUR_BATCH,
    MACHINE_HOUR,
    PUBSUB_TIB,
    SHUFFLED_GB,
    STREAMED_GB,
    VCPU_HOUR_BATCH,
    VCPU_HOUR_STREAMING,
)
from benchmarks.scale.setting import BUNDLE_SECONDS, CHECKPOINT_SECONDS, MESSAGE_REPORTS
from ldpbeam.pipelines.graphs import batch
from ldpbeam.transforms.sources.files import RANGE_BYTES

#: Reports in a small bundle of a stream.
SMALL_BUNDLE = 1_000


def reports_a_second(users: float) -> float:
    """The reports of two services, spread evenly over a day."""
    return 2 * users / 86_400


def batch_runs(m: Measured, users: float) -> dict[str, BatchRun]:
    """The bounded runs that the page tells of, by their names there."""
    return {
        "one window": batch_run(m, users),
        "24 windows": batch_run(m, users, windows=24),
        "one window, report ids": batch_run(m, users, ids=True),
        "24 windows, report ids": batch_run(m, users, windows=24, ids=True),
    }


def stream_runs(m: Measured, users: float) -> dict[str, StreamRun]:
    """The streams that the page tells of, by their names there."""
    own = reports_a_second(users) * BUNDLE_SECONDS
    return {
        f"windows of {name}, {short(bundle)} reports per bundle": stream_run(
            m, users, windows=n, bundle=bundle
        )
        for name, n in (("an hour", 24), ("a day", 1))
        for bundle in (own, SMALL_BUNDLE)
    }


def section(m: Measured, users: float, runs: dict[str, BatchRun], streams: dict[str, StreamRun]) -> str:
    """What the runs take, and the assumptions and prices behind that."""
    one, hours, *_ = runs.values()
    on_one = [batch_run(m, users, windows=windows, local=True) for windows in (1, 24)]
    hour, *_ = streams.values()
    a_second = reports_a_second(users)
    own = a_second * BUNDLE_SECONDS
    more_alone = short((m.taken_alone - m.taken) * overhead(m) * a_second / 1e6)
    pubsub, pubsub_alone = (
        2 * 2 * users * each / 2**40 * PUBSUB_TIB for each in (m.message_bytes, m.message_bytes_alone)
    )
    heap = max(one.shuffled, hours.shuffled) / one.shards
    return f"""\
### {users:,.0f} users a day, two services each
That is {size(2 * users * m.avro)} of Avro, {short(a_second)} reports a second.

{batch_table(runs)}

A shard is {batch.SHARD_BYTES / 2**20:g} MiB of input, and there are {batch.FEWEST_SHARDS} to \
{batch.MOST_SHARDS:,}, whatever the windows. A bundle is assumed to be one range of \
{RANGE_BYTES / 2**20:g} MiB; engines with larger bundles make larger pieces. A piece has the reports of all \
windows, so it does not matter which windows a file has reports of. The number of pieces grows with bundles \
times shards, so with the square of the input, until there are {batch.MOST_SHARDS:,} shards:

{growth_table(m)}

A local run, which spills its pieces to files and shuffles their places, takes \
{short(on_one[0].core_hours)} core-hours for one window and {short(on_one[1].core_hours)} for 24. It writes \
{size(on_one[0].shuffled)} of files, and places take {size(on_one[0].places)} of memory.

{stream_table(streams)}

A stream is `Estimate` over an unbounded collection. `shards` is chosen so that a window's shards have the \
same size as in batch. A bundle of {BUNDLE_SECONDS:g} s has {short(own)} reports; those of an engine are not \
known here. \
Messages of {MESSAGE_REPORTS:,} reports cost ${pubsub:.2f} a day at Pub/Sub; messages of one report cost \
${pubsub_alone:.2f}, and take {more_alone} cores more. Each early pane joins all \
reports of its window so far, so k early panes make k/2 joins more.

In batch on Flink, the pieces of a key are gathered in the heap of a task manager (Beam's issue 18848), \
{size(heap)} here. In a stream, each checkpoint, every {CHECKPOINT_SECONDS:g} s, writes all \
state in the heap, up to {size(hour.state)} with windows of an hour; this requires the RocksDB backend with \
incremental checkpoints.

Prices are constants of the script. Dataflow: ${VCPU_HOUR_BATCH} (stream ${VCPU_HOUR_STREAMING}) per vCPU \
and hour, ${GB_HOUR_BATCH} per GB and hour, {WORKER_GB} GB per vCPU, ${SHUFFLED_GB} per GB shuffled, counted \
written and read (stream ${STREAMED_GB} per GB moved). These are the prices of us-central1 that Beam 2.77 \
takes from cloud.google.com/dataflow/pricing in `dataflow_cost_consts.py`. Pub/Sub: ${PUBSUB_TIB:g} per TiB \
published, and again delivered (cloud.google.com/pubsub/pricing, September 2026). For Flink, \
${MACHINE_HOUR} per core and hour is an example. A core-hour is priced as a vCPU-hour, although a vCPU is a \
hardware thread and does less. Disks, stores and reductions are left out.
"""


def batch_table(runs: dict[str, BatchRun]) -> str:
    """A row for each run."""
    rows = [
        (
            name, f"{run.shards:,}", short(run.rows), size(run.memory), size(run.shuffled),
            size(run.statistics), short(run.core_hours), str(math.ceil(run.core_hours)),
            f"${run.dollars:.2f}", f"${run.core_hours * MACHINE_HOUR:.2f}",
        )
        for name, run in runs.items()
    ]  # fmt: skip
    heads = "batch|shards|reports per piece|a shard in memory|reports shuffled|statistics, at most|"
    return table(heads + "core-hours|cores for one hour|on Dataflow|cores on Flink", rows)


def growth_table(m: Measured) -> str:
    """A row for each power of ten of users."""
    rows = []
    for power in (8, 9, 10, 11):
        one, day = batch_run(m, 10**power), batch_run(m, 10**power, windows=24)
        hours = f"{short(one.core_hours)}; {short(day.core_hours)}"
        rows.append((f"10^{power}", f"{one.shards:,}", short(one.rows), hours, size(one.memory)))
    heads = "users a day|shards|reports per piece|core-hours: one window; 24|"
    return table(heads + "a shard in memory", rows)


def stream_table(runs: dict[str, StreamRun]) -> str:
    """A row for each stream."""
    rows = [
        (
            name, f"{run.shards:,}", short(run.rows), size(run.state), short(run.core_hours / 24),
            f"${run.dollars:.2f}", f"${run.core_hours * MACHINE_HOUR:.2f}",
        )
        for name, run in runs.items()
    ]  # fmt: skip
    heads = "stream|`shards`|reports per piece|state of a window|cores, all day|Dataflow per day|"
    return table(heads + "cores on Flink", rows)
