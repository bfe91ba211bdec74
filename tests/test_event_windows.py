"""The arithmetic of event time: windows, spans, and which window counts a report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.windows import EVERYTHING, FAR, Bounds, Span, Windows, counted_until, whole_windows

MINUTE = 60_000
HOUR = 60 * MINUTE
NOVEMBER = 1_795_168_800_000  # 2026-11-20T10:00:00Z
YEAR_2020 = 1_577_836_800_000
TIMES = st.integers(-60, 60) | st.integers(YEAR_2020 - 60, YEAR_2020 + 60)


@st.composite
def some_windows(draw: st.DrawFn) -> Windows:
    size = draw(st.integers(1, 30))
    return Windows(size, draw(st.just(size) | st.integers(1, size)))


def brute_windows(windows: Windows, time: int) -> list[Bounds]:
    """The windows [k period, k period + size) that a time lies in, the last first."""
    size, period = windows.size, windows.period
    starts = [k * period for k in range((time - size) // period - 2, time // period + 3)]
    return [(start, start + size) for start in reversed(starts) if start <= time < start + size]


@given(some_windows(), TIMES)
def test_the_windows_of_a_time_are_those_that_hold_it_the_last_first(windows: Windows, time: int) -> None:
    assert windows.windows_of(time) == brute_windows(windows, time)


@pytest.mark.parametrize(
    ("size", "period", "step"),
    [
        (HOUR, HOUR, HOUR),
        (2 * HOUR, 30 * MINUTE, 30 * MINUTE),
        (90 * MINUTE, HOUR, 30 * MINUTE),
        (7000, 3000, 1000),
    ],
)
def test_the_step_is_what_size_and_period_share(size: int, period: int, step: int) -> None:
    assert Windows(size, period).steps.length == step


@pytest.mark.parametrize(("size", "period"), [(10, 0), (10, -5), (10, 11), (0, 0)])
def test_a_period_is_above_zero_and_at_most_the_size(size: int, period: int) -> None:
    with pytest.raises(ValueError, match="period must be above zero and at most size"):
        Windows(size, period)


def test_lateness_is_not_negative() -> None:
    with pytest.raises(ValueError, match="allowed_lateness must not be negative"):
        Windows(10, 10, -1)


@given(some_windows(), st.integers(-60, 60), st.none() | st.tuples(st.integers(-9, 9), st.integers(0, 9)))
def test_one_window_inside_the_span_counts_a_report_the_one_that_starts_last(
    windows: Windows, time: int, given: tuple[int, int] | None
) -> None:
    span = EVERYTHING
    if given is not None:
        start, more = given
        first = start * windows.period
        span = Span(first, first + more * windows.period + windows.size)
    inside = [own for own in brute_windows(windows, time) if span.holds(own)]
    counting = [own for own in inside if time < counted_until(windows, own, span)]
    assert counting == inside[:1]


def test_windows_that_do_not_slide_count_all_their_reports() -> None:
    assert counted_until(None, None) == FAR
    assert counted_until(Windows(HOUR, HOUR), (0, HOUR)) == FAR


def test_an_open_end_stays_open() -> None:
    windows = Windows(2 * HOUR, HOUR)
    assert whole_windows(windows, Span()) == Span()
    assert whole_windows(windows, Span(start=NOVEMBER + 1)) == Span(NOVEMBER + HOUR, FAR)
    assert whole_windows(windows, Span(stop=NOVEMBER - 1)) == Span(-FAR, NOVEMBER - HOUR)
    assert not Span().bounded
    assert Span(start=0).bounded
    assert Span(stop=0).bounded
    assert Span(0, 1).holds(None)


@pytest.mark.parametrize(
    ("size", "period", "start", "stop", "nearest"),
    [
        (HOUR, HOUR, 15, 60, "2026-11-20T10:00:00Z to 2026-11-20T11:00:00Z"),
        (HOUR, HOUR, 30, 90, "2026-11-20T10:00:00Z to 2026-11-20T12:00:00Z"),
        (2 * HOUR, HOUR, 0, 60, "2026-11-20T10:00:00Z to 2026-11-20T12:00:00Z"),
        (24 * HOUR, 24 * HOUR, 0, 60, "2026-11-20T00:00:00Z to 2026-11-21T00:00:00Z"),
    ],
)
def test_where_no_window_lies_inside_the_nearest_span_is_named(
    size: int, period: int, start: int, stop: int, nearest: str
) -> None:
    with pytest.raises(
        ValueError, match=r"no window of \d+[hd] lies inside; one starts every \d+[hd], counted from 1970"
    ) as caught:
        whole_windows(Windows(size, period), Span(NOVEMBER + start * MINUTE, NOVEMBER + stop * MINUTE))
    assert str(caught.value).endswith(f"the nearest span of whole windows is {nearest}")
