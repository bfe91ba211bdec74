"""Which limit is met first as users grow, and what is no limit."""

from __future__ import annotations

from benchmarks.scale.computing.costs import WORKER_GB
from benchmarks.scale.computing.limits import Limit
from benchmarks.scale.computing.stream_run import StreamRun
from benchmarks.scale.measured import Measured
from benchmarks.scale.numbers import short, table


def section(m: Measured, met: list[Limit], hour: StreamRun) -> str:
    """The limits, the lowest first; ``hour`` is a stream with windows of an hour."""
    limit_table = table(
        "users a day|where|what happens",
        [(f"{short(n / 1e6)} million", where, what) for n, where, what in met],
    )
    return f"""\
### Which limit is met first
A worker has {WORKER_GB} GB per core and works on one shard at a time. A worker that works on several \
at once reaches the memory limits that many times earlier.

{limit_table}

These are no limits: the driver (it opens each input file once, sixteen at a time, and solves statistics \
on its own cores), messages (10 MB, Pub/Sub's maximum, are {short(1e7 / m.message_bytes)} reports), the \
accounting (one key, a few counts per bundle), and what one key adds up when a window of a stream ends \
({short(hour.closing)} s with windows of an hour). But a single worker reads the footers of all Parquet \
files, and gzipped JSON lines are not split.
"""
