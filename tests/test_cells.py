"""Days, weeks and months by the clocks of zones, against days that are counted out from those clocks."""

from __future__ import annotations

import importlib.resources
import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from ldpbeam.cells import DAY, MONDAY, Cells, clock_of
from ldpbeam.times import MONTH, format_duration, milliseconds
from ldpbeam.windows import FAR, Span, Windows, whole_windows

HOUR = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Zones, and the days with other than 24 hours in a year. Lord Howe's clocks move by half an hour, Santiago
#: is south of the equator and moves at midnight, Beirut's days begin at one o'clock in spring, and Apia left
#: out 30 December 2011. In St John's clocks went back from 0:01 to 23:01 of the day before.
YEARS = {
    ("America/New_York", 2026): {"2026-03-08": 23.0, "2026-11-01": 25.0},
    ("Australia/Lord_Howe", 2026): {"2026-04-05": 24.5, "2026-10-04": 23.5},
    ("America/Santiago", 2026): {"2026-04-04": 25.0, "2026-09-06": 23.0},
    ("Asia/Beirut", 2026): {"2026-03-29": 23.0, "2026-10-24": 25.0},
    ("Pacific/Apia", 2011): {"2011-04-02": 25.0, "2011-09-24": 23.0, "2011-12-30": 0.0},
    ("America/St_Johns", 2010): {"2010-03-14": 23.0, "2010-11-07": 25.0},
    ("Asia/Kolkata", 2026): {},
    ("UTC", 2026): {},
}


def rules_of(zone: str) -> ZoneInfo:
    file = importlib.resources.files("tzdata").joinpath("zoneinfo", *zone.split("/"))
    with file.open("rb") as stream:
        return ZoneInfo.from_file(stream, zone)


def shown(rules: ZoneInfo, time: int) -> datetime:
    return (EPOCH + timedelta(milliseconds=time)).astimezone(rules).replace(tzinfo=None)


def of(date: str) -> int:
    """The number of a day, counted from Monday 5 January 1970."""
    return (milliseconds(f"{date}T00:00:00Z") - MONDAY) // DAY


@pytest.mark.parametrize(("zone", "year"), YEARS)
def test_days_begin_when_clocks_first_show_their_date(zone: str, year: int) -> None:
    rules, days = rules_of(zone), Cells(DAY, clock=clock_of(zone))
    begin, end = (milliseconds(f"{each}-01-01T00:00:00Z") for each in (year, year + 1))
    times = np.arange(begin - DAY, end + DAY, 30 * 60_000)
    numbers, latest = days.numbers(times).tolist(), shown(rules, begin - 2 * DAY).date()
    for time, number in zip(times.tolist(), numbers, strict=True):
        latest = max(latest, shown(rules, time).date())
        assert number == of(latest.isoformat())
    first, last = of(f"{year}-01-01"), of(f"{year}-12-31")
    lengths = (np.diff(days.starts(np.arange(first, last + 2))) / HOUR).tolist()
    dates = [
        (datetime(1970, 1, 5) + timedelta(days=day)).date().isoformat() for day in range(first, last + 1)
    ]
    others = {date: hours for date, hours in zip(dates, lengths, strict=True) if hours != 24}
    assert others == YEARS[zone, year]


def test_no_change_of_a_clock_is_missed() -> None:
    names = importlib.resources.files("tzdata").joinpath("zones").read_text().split()
    times = np.random.default_rng(1).integers(-(10**12), 4 * 10**12, 250)
    for zone in names[::12]:
        rules = rules_of(zone)
        offsets = dict(clock_of(zone).changes)
        starts = np.array(list(offsets))
        spans = np.searchsorted(starts, times, side="right") - 1
        for time, start in zip(times.tolist(), starts[spans].tolist(), strict=True):
            assert EPOCH + timedelta(milliseconds=time + offsets[start]) == shown(rules, time).replace(
                tzinfo=UTC
            )


def test_a_quarter_of_an_hour_is_shown_once_twice_or_never_as_the_clocks_of_the_standard_library_do() -> None:
    """Every zone, on days of which some are those on which its clocks move."""
    quarters = DAY // 96 * np.arange(96)
    for name in importlib.resources.files("tzdata").joinpath("zones").read_text().split()[::20]:
        clock, rules = clock_of(name), rules_of(name)
        moved = [change for change, _ in clock.changes[1:] if change > 0][:3] or [0]
        shown = np.add.outer(np.array(moved) // DAY * DAY, quarters).ravel()
        for time, found, once in zip(shown.tolist(), *map(np.ndarray.tolist, clock.only(shown)), strict=True):
            local = (EPOCH + timedelta(milliseconds=time)).replace(tzinfo=rules)
            moments = {local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)}
            assert once == (len(moments) == 1)
            assert not once or EPOCH + timedelta(milliseconds=found) in moments


def test_a_zone_is_named_as_in_the_package_of_rules() -> None:
    for name in ("Mars/Base", "EST5EDT,M3.2.0", "../UTC", "Europe", ""):
        with pytest.raises(ValueError, match="is no time zone"):
            clock_of(name)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe"])
def test_weeks_begin_on_monday_or_as_many_days_later(zone: str) -> None:
    rules = rules_of(zone)
    for offset, day in ((0, 0), (1, 1), (6, 6)):
        weeks = Cells(7 * DAY, offset * DAY, clock_of(zone))
        starts = weeks.starts(np.arange(-100, 5_000)).tolist()
        assert {(shown(rules, start).weekday(), shown(rules, start).hour) for start in starts} == {(day, 0)}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "America/Santiago"])
def test_months_have_their_days(zone: str) -> None:
    months = Cells(MONTH, clock=None if zone == "UTC" else clock_of(zone))
    starts = months.starts(np.arange(12 * 50, 12 * 58 + 1))
    assert [shown(rules_of(zone), start).day for start in starts.tolist()] == [1] * 97
    lengths = np.round(np.diff(starts) / DAY).astype(int).tolist()
    assert lengths[2 * 12 : 3 * 12] == [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    assert lengths[:2] == [31, 29]
    np.testing.assert_array_equal(months.numbers(starts), np.arange(12 * 50, 12 * 58 + 1))
    np.testing.assert_array_equal(months.numbers(starts - 1), np.arange(12 * 50, 12 * 58 + 1) - 1)


def test_a_day_may_begin_later_where_clocks_skip_that_time_too() -> None:
    """A day from 2:30 on: on 8 March clocks skip 2:30, and it begins as they show 3:00."""
    days = Cells(DAY, 5 * HOUR // 2, clock_of("America/New_York"))
    assert days.start(of("2026-03-08")) == milliseconds("2026-03-08T07:00:00Z")
    assert days.start(of("2026-03-09")) == milliseconds("2026-03-09T06:30:00Z")
    # On 1 November they show 1:30 twice, and a day from 1:30 on begins with the first.
    days = Cells(DAY, 3 * HOUR // 2, clock_of("America/New_York"))
    assert days.start(of("2026-11-01")) == milliseconds("2026-11-01T05:30:00Z")


WINDOWS = [
    Windows(DAY, DAY, clock=clock_of("America/New_York")),
    Windows(7 * DAY, DAY, clock=clock_of("Pacific/Apia")),
    Windows(2 * DAY, 2 * DAY, clock=clock_of("Pacific/Apia"), joined=14 * DAY),
    Windows(3 * MONTH, MONTH, offset=5 * DAY, clock=clock_of("Australia/Lord_Howe")),
    Windows(DAY, DAY, clock=clock_of("America/Santiago"), joined=MONTH),
    Windows(MONTH, MONTH),
    Windows(HOUR, HOUR, offset=HOUR // 2),
    Windows(3 * HOUR // 2, HOUR),
    Windows(2 * HOUR, HOUR),
]


def every_window(windows: Windows) -> list[tuple[int, int]]:
    """The windows around the turn of 2011, counted out: each has the ends of its first and last step."""
    cells = windows.cells(windows.steps.length)
    size, period = (length // cells.length for length in (windows.size, windows.period))
    first = cells.number(milliseconds("2011-12-15T00:00:00Z")) // period * period
    ends = [
        (cells.start(n), cells.start(n + size))
        for n in range(first - 30 * period, first + 30 * period, period)
    ]
    # Of windows that begin together, since clocks skip the first day of one, that which ends last.
    return [window for window, later in itertools.pairwise(ends) if window[0] < later[0]]


@pytest.mark.parametrize(
    "windows", WINDOWS, ids=lambda w: f"{format_duration(w.size)} of {w.clock and w.clock.zone}"
)
def test_windows_of_a_calendar_hold_the_times_between_their_ends(windows: Windows) -> None:
    counted = every_window(windows)
    size = windows.size // windows.period
    inside = counted[size:-size]
    assert len({start for start, _ in counted}) == len(counted) >= 58
    times = np.random.default_rng(2).integers(inside[0][0], inside[-1][0], 100)
    edges = [end + more for window in inside for end in window for more in (-1, 0) if end < inside[-1][1]]
    for time in [*times.tolist(), *edges]:
        held = windows.windows_of(time)
        assert held == [w for w in reversed(counted) if w[0] <= time < w[1]]
        assert windows.of_step(windows.steps.number(time)) == held
    for window, later in itertools.pairwise(inside):
        assert windows.next(window) == later
        assert windows.windows_of(window[0])[0] == window
        if windows.joined is not None:
            longer = windows.longer(window)
            assert longer[0] <= window[0] and window[1] <= longer[1]
            assert windows.is_longer(longer) and not windows.is_longer(window)
            assert len([w for w in counted if longer[0] <= w[0] < longer[1]]) <= windows.each_joined
    assert windows.between(inside[0][0], inside[9][0]) == inside[:10]
    given = Span(inside[3][0] + 1, inside[20][1] - 1)
    whole = [w for w in inside if given.holds(w)]
    found = whole_windows(windows, given)
    assert found == Span(whole[0][0], whole[-1][1])
    covered = [any(start <= time < stop for start, stop in whole) for time in edges]
    assert (~found.outside(np.array(edges))).tolist() == covered
    assert whole_windows(windows, found) == found
    assert whole_windows(windows, Span(stop=given.stop)) == Span(-FAR, whole[-1][1])


def test_a_month_of_days_joins_as_many_windows_as_it_has_days() -> None:
    windows = Windows(DAY, DAY, clock=clock_of("America/New_York"), joined=MONTH)
    assert windows.each_joined == 31
    february = windows.longer(windows.windows_of(milliseconds("2026-02-10T12:00:00Z"))[0])
    assert (february[1] - february[0]) // DAY == 28
    cut = Span(milliseconds("2026-02-01T05:00:00Z"), milliseconds("2026-03-08T05:00:00Z")).cut(windows)
    assert cut == [(february[1], milliseconds("2026-04-01T04:00:00Z"))]
