"""The judge: what a stream must say, from dictionaries of people. It shares no code with the product."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from simulation.world import DAY, Report, World

#: Where a report stands: the number of its message, and its row there.
Place = tuple[int, int]


def windows_of(world: World, time: int) -> list[tuple[int, int]]:
    """The windows that hold a time."""
    last = time // world.period * world.period
    return [(start, start + world.size) for start in range(last, time - world.size, -world.period)]


def came_in_time(world: World, now: int, taken_late: Collection[Place]) -> dict[Place, Report]:
    """The reports that count or are duplicates: all but broken ones, those of the future and late ones."""
    return {
        (message.number, row): report
        for message in world.messages
        for row, report in enumerate(message.reports)
        if not report.broken
        and report.time < now + DAY
        and (not report.late or (message.number, row) in taken_late)
    }


def kept(world: World, in_time: dict[Place, Report], window: tuple[int, int]) -> list[Report]:
    """The reports that a window keeps: of copies one, and of a person at a service the first."""
    inside = sorted(
        (report.time, place, report)
        for place, report in in_time.items()
        if window[0] <= report.time < window[1]
    )
    if "duplicates: keep" in world.features:
        return [report for *_, report in inside]
    by_id: dict[tuple[object, ...], Report] = {}
    for _, place, report in inside:
        # Without an id, what was delivered once is one report.
        name = ("id", report.id) if report.id else ("place", place)
        by_id.setdefault((report.user, report.service, name), report)
    if "users: none" in world.features:
        return list(by_id.values())
    first: dict[tuple[object, ...], Report] = {}
    for report in sorted(by_id.values(), key=lambda report: report.time):
        first.setdefault((report.user, report.service), report)
    return list(first.values())


def histograms(reports: list[Report]) -> dict[str, Counter[int]]:
    """How often each payload was sent to each service."""
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for report in reports:
        counts[report.service][report.payload] += 1
    return dict(counts)
