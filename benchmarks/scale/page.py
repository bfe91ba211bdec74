"""The section of the page on speed: its prose is fixed, its numbers are not."""

from __future__ import annotations

from benchmarks.scale.computing.batch_run import BatchRun
from benchmarks.scale.computing.limits import Limit, limits
from benchmarks.scale.computing.stream_run import StreamRun
from benchmarks.scale.measured import Measured, kept_in_page
from benchmarks.scale.numbers import short, size
from benchmarks.scale.sections import constants, day, first_limits, growth


def page(m: Measured, users: float = 1e9) -> str:
    """The whole section, with the constants that it was made of."""
    runs, streams, met = day.batch_runs(m, users), day.stream_runs(m, users), limits(m)
    hour, *_ = streams.values()
    parts = [
        summary(m, users, runs, streams, met[0]),
        constants.section(m),
        day.section(m, users, runs, streams),
        first_limits.section(m, met, hour),
        growth.section(),
        kept_in_page(m) + "\n",
    ]
    return "\n".join(parts)


def summary(
    m: Measured, users: float, runs: dict[str, BatchRun], streams: dict[str, StreamRun], first: Limit
) -> str:
    """How the section was made, and what it says in short."""
    one, hours, ids, _ = runs.values()
    hour, hour_small, whole_day, whole_day_small = streams.values()
    return f"""\
## At scale
Made by `python -m benchmarks.scale --write docs/speed.md` on {m.day}. Nothing here ran on a cloud: the \
script measured the first tables, and computed the rest from them. The figures leave out what an engine does \
besides: reading from a store, keeping state, starting machines.

In short: {users:,.0f} users a day with two services each take {short(one.core_hours)} core-hours in batch \
in one window, {short(hours.core_hours)} in 24 windows, whichever of them a file has reports of, and \
{short(ids.core_hours)} with report ids. A stream with windows of an hour keeps \
{short(hour.core_hours / 24)} to {short(hour_small.core_hours / 24)} cores busy, depending on the number of \
reports per bundle. Use batch for windows of a day: a stream would need {size(whole_day.state)} to \
{size(whole_day_small.state)} of state. The first limit is: {first.where}, from \
{short(first.users / 1e6)} million users on; the others are [below](#which-limit-is-met-first).
"""
