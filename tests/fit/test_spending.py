"""The limits of a stream's tests sum to the stated rate."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ldpbeam.cells import Cells
from ldpbeam.fit import FALSE_ALARMS
from ldpbeam.fit.spending import Spending

HOUR = 3_600_000
#: The stream began within a window.
SINCE = 1_000 * HOUR + 17
FIRST_RUN = Spending(since=SINCE, started=SINCE, earlier_runs=0, windows=Cells(HOUR), attributes=1)


def window(number: int) -> tuple[int, int]:
    """The window that begins so many hours after that in which the stream began."""
    return (1_000 + number) * HOUR, (1_001 + number) * HOUR


def test_the_limits_of_all_windows_and_panes_sum_to_the_stated_rate() -> None:
    """Numbers up to 2^b - 2 have all but 1 / (b + 1) of the rate, and panes below i all but 1 / (i + 1)."""
    windows = sum(FIRST_RUN.limit(window(number), 0) for number in range(-511, 512))
    # Number 1,022 is the last of 2^10 - 1. A window's first pane has half, and its first run another half.
    assert windows == pytest.approx(FALSE_ALARMS / 4 * (1 - 1 / 11), rel=1e-3)
    panes = sum(FIRST_RUN.limit(window(3), index) for index in range(1_000))
    assert panes == pytest.approx(2 * FIRST_RUN.limit(window(3), 0) * (1 - 1 / 1_001))
    per_attribute = replace(FIRST_RUN, attributes=5).limit(window(0), 0)
    assert 5 * per_attribute == pytest.approx(FIRST_RUN.limit(window(0), 0))


def test_a_window_that_several_runs_see_has_no_more_than_its_share() -> None:
    """A run ends every third hour, and the next one sees all windows that began before."""
    runs = [
        replace(FIRST_RUN, started=SINCE + 3 * number * HOUR, earlier_runs=number) for number in range(60)
    ]
    for number in (-4, 0, 1, 20, 100):
        before = [run for run in runs if run.started <= window(number)[0]]
        first = before[-1] if before else runs[0]
        spent = sum(run.limit(window(number), 0) for run in runs if run.started >= first.started)
        whole = 2 * FIRST_RUN.limit(window(number), 0)
        assert 0.5 * whole <= spent <= whole * (1 + 1e-12)


def test_sliding_windows_have_a_number_each() -> None:
    sliding = replace(FIRST_RUN, windows=Cells(HOUR // 4))
    starts = [SINCE // HOUR * HOUR + quarter * HOUR // 4 for quarter in range(-2, 5)]
    limits = [sliding.limit((start, start + HOUR), 0) for start in starts]
    # Blocks of one, two and four windows.
    assert sorted(limits, reverse=True) == pytest.approx(
        [FALSE_ALARMS / 8, *[FALSE_ALARMS / 4 / 12] * 2, *[FALSE_ALARMS / 4 / 48] * 4]
    )


def test_a_year_of_hours_has_limits_that_a_clear_mistake_still_passes() -> None:
    least = min(
        FIRST_RUN.limit(window(number), index) for number, index in itertools.product((0, 8_760), (0, 5))
    )
    assert least > 1e-12
