"""The watermark: never ahead of what is not safe, never back, and at the clock's pace while nothing comes."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.transforms.sources.watermark import Watermark

WEEK = 7 * 86_400_000
#: The clock when a test begins, and the disorder of most tests.
NOW, DISORDER = 1_750_000_000_000, 60_000


def test_before_anything_has_come_there_is_none() -> None:
    assert Watermark(DISORDER).at(NOW, None, drained=True) is None


@pytest.mark.parametrize("disorder", [0, 1, DISORDER])
def test_it_waits_for_the_oldest_report_that_is_not_safe(disorder: int) -> None:
    watermark = Watermark(disorder)
    watermark.see(NOW - 5_000, NOW)
    assert watermark.at(NOW, NOW - 9_000, drained=False) == NOW - 9_000 - disorder
    assert watermark.at(NOW + WEEK, NOW - 9_000, drained=True) == NOW - 9_000 - disorder
    assert watermark.at(NOW, NOW - 7_000, drained=False) == NOW - 7_000 - disorder
    assert watermark.at(NOW, None, drained=False) == NOW - 5_000 - disorder


def test_what_is_not_safe_and_later_than_all_seen_does_not_move_it_there() -> None:
    watermark = Watermark(0)
    watermark.see(NOW - 5_000, NOW)
    assert watermark.at(NOW, NOW + WEEK, drained=False) == NOW - 5_000


def test_it_never_goes_back() -> None:
    watermark = Watermark(DISORDER)
    watermark.see(NOW - 5_000, NOW)
    reached = watermark.at(NOW, None, drained=False)
    watermark.see(NOW - WEEK, NOW + 1)
    assert watermark.at(NOW + 1, NOW - WEEK, drained=False) == reached
    assert watermark.at(NOW + 1, None, drained=False) == reached


def test_while_nothing_comes_it_moves_on_from_the_latest_report_at_the_clocks_pace() -> None:
    watermark = Watermark(DISORDER)
    watermark.see(NOW - WEEK, NOW)
    for elapsed in (0, 1, 999, 3_600_000):
        assert watermark.at(NOW + elapsed, None, drained=True) == NOW - WEEK + elapsed - DISORDER
    watermark.see(NOW - WEEK + 1_000, NOW + 3_700_000)
    reached = NOW - WEEK + 3_600_000 - DISORDER
    assert watermark.at(NOW + 3_700_000, None, drained=True) == reached
    # From the latest report, not from where it had got to: the pause says nothing of the backlog.
    assert watermark.at(NOW + 3_700_000 + 3_598_999, None, drained=True) == reached
    assert watermark.at(NOW + 3_700_000 + 3_599_001, None, drained=True) == reached + 1


def test_a_report_that_is_late_does_not_hold_it_up() -> None:
    watermark = Watermark(DISORDER)
    watermark.see(NOW - 5_000, NOW)
    watermark.see(NOW - WEEK, NOW + 1_000)
    assert watermark.at(NOW + 11_000, None, drained=True) == NOW + 5_000 - DISORDER


def test_while_messages_wait_to_be_taken_the_clock_does_not_move_it() -> None:
    watermark = Watermark(DISORDER)
    watermark.see(NOW - WEEK, NOW)
    assert watermark.at(NOW + WEEK, None, drained=False) == NOW - WEEK - DISORDER


@pytest.mark.parametrize("ahead", [1, WEEK])
def test_a_report_from_the_future_moves_it_to_the_clock_and_no_further(ahead: int) -> None:
    watermark = Watermark(DISORDER)
    watermark.see(NOW + ahead, NOW)
    assert watermark.at(NOW, None, drained=False) == NOW - DISORDER
    assert watermark.at(NOW + 500, None, drained=False) == NOW - DISORDER
    assert watermark.at(NOW + 500, None, drained=True) == NOW + 500 - DISORDER


def test_a_clock_that_is_set_back_does_not_move_it() -> None:
    watermark = Watermark(0)
    watermark.see(NOW, NOW)
    assert watermark.at(NOW + 10_000, None, drained=True) == NOW + 10_000
    assert watermark.at(NOW - WEEK, None, drained=True) == NOW + 10_000
    watermark.see(NOW - WEEK, NOW - WEEK)
    assert watermark.at(NOW - WEEK, NOW - WEEK, drained=False) == NOW + 10_000
    assert watermark.at(NOW - WEEK + 20_000, None, drained=True) == NOW + 10_000


class Moment(NamedTuple):
    """What happens: the clock moves on, a report may come, and older ones may not be safe."""

    elapsed: int
    ahead: int | None
    unsafe: int | None
    drained: bool


MOMENTS = st.lists(
    st.builds(
        Moment,
        st.integers(0, 100),
        st.none() | st.integers(-300, 100),
        st.none() | st.integers(-300, 100),
        st.booleans(),
    ),
    max_size=20,
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(MOMENTS, st.integers(0, 50))
def test_whatever_comes_it_keeps_its_promises(moments: list[Moment], disorder: int) -> None:
    watermark, now = Watermark(disorder), 1_000
    said: int | None = None
    latest: int | None = None
    for elapsed, ahead, unsafe_ahead, drained in moments:
        now += elapsed
        if ahead is not None:
            watermark.see(now + ahead, now)
            latest = max(now + ahead, latest or 0)
        unsafe = None if unsafe_ahead is None else now + unsafe_ahead
        reached = watermark.at(now, unsafe, drained)
        assert (reached is None) == (latest is None)
        if reached is None or latest is None:
            continue
        assert reached <= now - disorder
        if said is not None:
            assert reached >= said
        if unsafe is not None and reached != said:
            assert reached <= unsafe - disorder
        if not (drained and unsafe is None) and reached != said:
            assert reached <= latest - disorder
        said = reached
