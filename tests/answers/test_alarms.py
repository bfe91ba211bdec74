"""Windows that differ from those before them, and seasons that do not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.estimate_records import held, paid, price

import ldpbeam as ldp
from ldpbeam.answers.alarms import FEWEST, LIMITS, SETTLED, WEEKS, in_order, season_before
from ldpbeam.cells import MONDAY, clock_of
from ldpbeam.folders.output import ESTIMATES
from ldpbeam.folders.read import earlier_among
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.times import milliseconds, window_fields
from ldpbeam.transforms.outputs.estimates import write_window_estimates

HOUR = 3_600_000
WEEK, START = 168, 1_795_168_800_000
LATER = (WEEKS + 1) * WEEK


def season(hour: int) -> float:
    """A day's wave of many standard errors, and other weekends."""
    return 50.0 + 20.0 * math.sin(hour % 24 / 24 * 2 * math.pi) + (10.0 if hour % WEEK // 24 >= 5 else 0.0)


def means(
    windows: int, *, jump: float = 0.0, at: int = 0, spread: float = 1.0, size: int = 1
) -> list[EstimateRecord]:
    """Means with a standard error of 1, of windows of so many hours."""
    rng = np.random.default_rng(1)
    return [
        price(
            mean=season(index * size) + spread * rng.standard_normal() + (jump if index >= at else 0.0),
            standard_error=1.0,
            intervals=None,
            quantiles=None,
            ranges=None,
            **window_fields((START + index * size * HOUR, START + (index + 1) * size * HOUR)),
        )
        for index in range(windows)
    ]


def differing(records: list[EstimateRecord]) -> list[int]:
    return [index for index, record in enumerate(records) if record.alarm and record.alarm.differs]


@pytest.mark.parametrize("change", ["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"])
def test_a_season_by_the_clocks_of_a_zone_is_no_difference_after_they_change(change: str) -> None:
    clock, first = clock_of("Europe/Berlin"), milliseconds(change) - 9 * WEEK * HOUR
    starts = first + HOUR * np.arange(12 * WEEK)
    hours = (clock.shows(starts) - MONDAY) // HOUR
    noise = np.random.default_rng(3).standard_normal(len(starts))
    records = [
        replace(record, mean=season(hour) + error, **window_fields((start, start + HOUR)))
        for record, hour, error, start in zip(
            means(len(starts)), hours.tolist(), noise.tolist(), starts.tolist(), strict=True
        )
    ]
    assert differing(in_order(records, slides=False, clock=clock)) == []
    assert len(differing(in_order(records, slides=False))) > 20


@pytest.mark.parametrize(("size", "earlier"), [(1, 1), (3, 0), (6, 0), (24, 0)])
def test_windows_that_are_longer_than_a_change_are_compared_with_those_of_utc(
    size: int, earlier: int
) -> None:
    start, week = milliseconds("2026-04-01T00:00:00Z"), WEEK * HOUR
    found = season_before(start, week, size * HOUR, clock_of("Europe/Berlin"))
    assert found == start - week + earlier * HOUR


def test_a_season_of_hours_and_weekdays_is_no_difference() -> None:
    found = in_order(means(LATER + WEEK), slides=False)
    assert differing(found) == []
    # The first weeks are compared with nothing.
    assert [record.alarm is None for record in found].index(False) == FEWEST * WEEK
    # A wave that is a sixth as large would be seen, if hours were compared with the hour before.
    assert np.ptp([season(hour) for hour in range(24)]) > 6 * LIMITS[1]


@pytest.mark.parametrize(("jump", "within"), [(1.0, 80), (2.0, 20), (4.0, 8), (-4.0, 8)])
def test_a_change_of_some_standard_errors_is_seen_and_names_what_was_expected(
    jump: float, within: int
) -> None:
    found = in_order(means(LATER + 100, jump=jump, at=LATER), slides=False)
    first = differing(found)[0]
    assert LATER <= first < LATER + within
    alarm = found[first].alarm
    assert alarm is not None and alarm.number == "mean"
    same_hours = [found[first - k * WEEK].mean for k in range(1, WEEKS + 1)]
    assert alarm.expected == pytest.approx(np.median(np.array(same_hours, dtype=float)))
    assert abs(alarm.expected - season(first)) < 4 * math.sqrt(math.pi / 2 / WEEKS)


def test_records_hold_all_that_the_next_window_needs() -> None:
    records = means(120, jump=2.0, at=90, size=24)
    whole = in_order(records, slides=False)
    parts: list[EstimateRecord] = []
    for record in records:
        known = {one.window: one for one in parts}

        def earlier(record: EstimateRecord, start: int, known: dict = known) -> EstimateRecord | None:  # type: ignore[type-arg]
            return known.get((start, start + 24 * HOUR))

        parts += in_order([record], slides=False, earlier=earlier)
    assert parts == whole and differing(whole)


def test_people_who_vary_more_than_noise_does_are_no_difference() -> None:
    """Means of other people each hour have twice the standard error, which is that of noise alone."""
    records = means(LATER + 3 * WEEK, spread=2.0)
    found = in_order(records, slides=False)
    assert differing(found) == []
    last = found[-1].alarm
    assert last is not None and 2.5 < last.spread < 6.0


@pytest.mark.parametrize("vary", ["days", "hours", "tails"])
def test_days_hours_and_tails_of_their_own_are_no_difference(vary: str) -> None:
    rng, records = np.random.default_rng(5), means(LATER + 4 * WEEK)
    stays, moved = 0.0, np.zeros(len(records))
    for index in range(len(records)):
        stays = 0.7 * stays + 0.7 * rng.standard_normal()
        moved[index] = stays
    if vary == "days":
        moved = np.repeat(0.7 * rng.standard_normal(-(-len(records) // 24)), 24)
    if vary == "tails":
        moved = 2.0 * rng.standard_t(5, len(records))
    found = [
        replace(record, mean=(record.mean or 0.0) + move)
        for record, move in zip(records, moved.tolist(), strict=True)
    ]
    assert differing(in_order(found, slides=False)) == []
    # One hour alone is none, however far it is.
    alone = replace(found[-1], mean=1e6)
    assert differing(in_order([*found[:-1], alone], slides=False)) == []


def test_what_is_open_overlaps_or_has_no_error_is_not_judged() -> None:
    records = means(LATER + 1)
    assert in_order(records, slides=True) == records
    early = replace(records[-1], pane_timing="early")
    bare = replace(records[-1], standard_error=None)
    for last in (early, bare):
        assert in_order([*records[:-1], last], slides=False)[-1].alarm is None
    assert in_order(records, slides=False)[-1].alarm is not None


def test_shares_have_sums_of_their_own_and_groups_are_series_of_their_own() -> None:
    rng, records = np.random.default_rng(2), []
    for hour in range(LATER + 20):
        for group, moved in (("north", 0.1 if hour >= LATER else 0.0), ("south", 0.0)):
            cash = 0.3 + moved + 0.02 * rng.standard_normal()
            shares = np.array([cash, 1.0 - cash])
            room = 1.959964 * 0.02
            ends = np.column_stack((shares - room, shares + room))
            window = window_fields((START + hour * HOUR, START + (hour + 1) * HOUR))
            intervals = held(certain={"frequencies": ends})
            records.append(paid(frequencies=shares.tolist(), group=group, intervals=intervals, **window))
    found = in_order(records, slides=False)
    groups = {found[index].group for index in differing(found)}
    assert groups == {"north"}
    alarm = found[differing(found)[0]].alarm
    assert alarm is not None and len(alarm.sums) == 10 and alarm.number.startswith("share of")


STUDY = ldp.Study.from_yaml("""\
study: s
attributes:
  price:
    domain: {numeric: [0, 100]}
    services: {app: {mechanism: piecewise, epsilon: 1}}
    estimates: {shape: {estimator: ivw}}
windows: {size: 1d}
""")


def test_a_window_is_judged_by_the_files_of_those_before(tmp_path: Path) -> None:
    """Each window is judged by itself, as after a process that was killed."""
    records = means(7 * FEWEST + SETTLED + 8, jump=8.0, at=7 * FEWEST + SETTLED, size=24)
    whole = in_order(records, slides=False)
    output, written = str(tmp_path), []
    folder = tmp_path / ESTIMATES
    for record in records:
        names = [path.name for path in folder.glob("*.jsonl")] if folder.exists() else []
        earlier = earlier_among(output, STUDY.name, lambda start, names=names: _beginning(names, start))
        (judged,) = in_order([record], slides=False, earlier=earlier)
        written.append(judged)
        write_window_estimates(
            STUDY, output, "run", "price", record.window, [replace(judged, run="run")], named_by_run=True
        )
    assert written == whole and differing(whole)


def _beginning(names: list[str], start: str) -> list[str]:
    return [name for name in names if name.startswith(f"{start}-")]
