"""What users spent over periods, by dictionaries and loops over reports; and a study with such a ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from ldpbeam.schemas.study.yaml_file import parse_study

Report = Mapping[str, Any]


@dataclass(frozen=True)
class Price:
    """What the reports of a service spend: ``values`` times ``lifetime`` at most, or without end."""

    epsilon: float
    lifetime: float = 0.0
    values: int = 0
    instant: float = 0.0

    def about_values(self, reports: int) -> float:
        fresh = reports * self.epsilon
        return min(fresh, self.values * self.lifetime) if self.values else fresh

    def changes_included(self, reports: int) -> float:
        return reports * (self.instant or self.epsilon)


@dataclass(frozen=True)
class Run:
    """The reports that a run read, and the span of its windows; a run without a span replaces nothing."""

    reports: Sequence[Report]
    span: tuple[int, int] | None = None


def received(
    runs: Sequence[Run], window: int, *, several: bool = False
) -> set[tuple[str, int, str, str, Any, Any]]:
    """(user, window, attribute, service, payload, mark) of every report that counts, of runs in their order.

    The mark tells apart the equal reports of a user, where ``several`` of a window count: it is the report
    id, or else the event time.

    What a run has in its own windows is replaced by later runs of them. Of other windows it has what no run
    before had. A run is forgotten when a later one has all its windows.
    """
    kept: list[tuple[tuple[int, int] | None, set[Any]]] = []
    for run in runs:
        span = run.span
        kept = [
            (before, rows)
            for before, rows in kept
            if not (span and before and span[0] <= before[0] and before[1] <= span[1])
        ]
        sent = {
            (
                one["user_id"], one["event_time"] // window * window, one["attribute"], one["service"],
                one["payload"], (one.get("report_id") or one["event_time"]) if several else None,
            )
            for one in run.reports
        }  # fmt: skip
        counted = _counting(kept)
        kept.append((span, {row for row in sent if _inside(row, span) or row not in counted}))
    return _counting(kept)


def _inside(row: Any, span: tuple[int, int] | None) -> bool:
    return span is None or span[0] <= row[1] < span[1]


def _counting(kept: Sequence[tuple[tuple[int, int] | None, set[Any]]]) -> set[Any]:
    return {
        row
        for number, (span, rows) in enumerate(kept)
        for row in rows
        if not (_inside(row, span) and any(later and _inside(row, later) for later, _ in kept[number + 1 :]))
    }


def spent(
    runs: Sequence[Run],
    window: int,
    period: int,
    prices: Mapping[tuple[str, str], Price],
    *,
    several: bool = False,
) -> dict[int, dict[str, tuple[float, float]]]:
    """(about values, changes included) of each user, by the start of the period."""
    counts: dict[int, dict[str, Counter[tuple[str, str]]]] = defaultdict(lambda: defaultdict(Counter))
    for user, start, attribute, service, *_ in received(runs, window, several=several):
        counts[start - start % period][user][attribute, service] += 1
    return {
        start: {
            user: (
                round(sum(prices[service].about_values(n) for service, n in sorted(reports.items())), 9),
                round(sum(prices[service].changes_included(n) for service, n in sorted(reports.items())), 9),
            )
            for user, reports in users.items()
        }
        for start, users in counts.items()
    }


def lines(each: Mapping[str, tuple[float, float]], cap: float) -> dict[str, Any]:
    """What a ledger says of a period: users by epsilon on both lines, and how many are over the cap."""
    return {
        "users": len(each),
        "about_values": dict(Counter(values for values, _ in each.values())),
        "changes_included": dict(Counter(changes for _, changes in each.values())),
        "over": sum(values > cap for values, _ in each.values()),
    }


HOUR = 3_600_000
#: Two hours before the end of a period of a day.
START = 1_795_132_800_000 - 2 * HOUR
TEXT = """\
study: s
attributes:
  x:
    domain: {categories: 3}
    services:
      app: {mechanism: grr, epsilon: 1, lifetime_epsilon: 2, values_at_most: 2}
      web: {mechanism: grr, epsilon: 0.1}
  y: {domain: {categories: 4}, services: {app: {mechanism: grr, epsilon: 0.6, lifetime_epsilon: 0.7}}}
windows: {size: 1h}
groups: {field: region}
ledger: {period: 1d, cap: 3.5}
intervals: false
"""
STUDY = parse_study(TEXT)


def instant(cells: int, lifetime: float, epsilon: float) -> float:
    """The epsilon of the instant step, by the formula of docs/over_time.md."""
    top = exp(lifetime + epsilon) + (cells - 2) * exp(epsilon) - (cells - 1)
    return log(top / (exp(lifetime) - exp(epsilon)))


PRICES = {
    ("x", "app"): Price(1.0, 2.0, 2, instant(3, 2.0, 1.0)),
    ("x", "web"): Price(0.1),
    ("y", "app"): Price(0.6, 0.7, 4, instant(4, 0.7, 0.6)),
}


def report(
    kind: tuple[str, str], user: int, hour: int, number: int, region: str, start: int = START
) -> dict[str, Any]:
    attribute, service = kind
    return {
        "user_id": f"user-{user}", "attribute": attribute, "service": service,
        "event_time": start + hour * HOUR + number, "payload": number % 3, "region": region,
    }  # fmt: skip
