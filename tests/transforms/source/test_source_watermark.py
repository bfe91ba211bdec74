"""The watermark of the source of streams, and the windows that its journal names."""

from __future__ import annotations

import pytest
from support.driven_source import LETTER, SECOND, WEEK, Drive, at, batch, replaced, windows_at


def test_it_waits_for_the_oldest_report_until_it_is_safe(drive: Drive) -> None:
    driven = drive()
    driven.come(-60, -50)
    assert driven.watermark == -62
    first = driven.mark()
    driven.come(-40, -51)
    second = driven.mark()
    assert driven.watermark == -62
    first.finalize_checkpoint()
    assert driven.watermark == -53
    second.finalize_checkpoint()
    assert driven.watermark == -42


@pytest.mark.parametrize("old", [-WEEK / SECOND, -60])
def test_a_report_that_is_too_far_out_of_order_does_not_hold_it(old: float, drive: Drive) -> None:
    driven = drive()
    for second in range(60):
        driven.now = at(second)
        # Something is always not committed, as where an engine commits while it reads on.
        before = driven.mark()
        driven.come(second, old)
        before.finalize_checkpoint()
    assert driven.watermark == 59 - 2


def test_what_is_late_does_not_hold_the_engine_and_nothing_else_is_late_to_it(drive: Drive) -> None:
    driven = drive()
    driven.come(-60)
    driven.commit()
    driven.come(-61, -61.5)
    assert driven.reader.get_current_timestamp().micros == 1000 * at(-61.5)
    driven.come(-10, -75)
    assert driven.reader.get_current_timestamp().micros == 1000 * at(-62)
    assert driven.reader.get_current().watermark == at(-62)


def test_while_what_came_last_is_not_safe_the_clock_does_not_move_it(drive: Drive) -> None:
    driven = drive()
    driven.come(-10)
    driven.now += WEEK
    assert not driven.take()
    assert driven.watermark == -12
    driven.commit()
    assert driven.watermark == WEEK / SECOND - 12
    driven.put(letters=[LETTER])
    assert driven.take()
    driven.now += SECOND
    assert not driven.take()
    assert driven.watermark == WEEK / SECOND - 12


def test_what_has_no_event_time_leaves_it_where_it_is(drive: Drive) -> None:
    driven = drive()
    driven.put(letters=[LETTER])
    assert driven.take()
    assert driven.watermark is None
    driven.come(-60)
    driven.put(batch(None, None), letters=[LETTER])
    assert driven.take()
    assert driven.watermark == -62
    driven.commit()
    assert driven.watermark == -62


def test_event_times_in_another_unit_neither_hold_the_watermark_nor_name_windows(drive: Drive) -> None:
    driven = drive()
    driven.reader.shared.look()
    driven.put(batch(at(-60), at(-60) // 1000, at(-60) * 1000))
    assert driven.take()
    assert driven.watermark == -62
    driven.commit()
    assert driven.named == windows_at(-60)


def test_a_parcel_is_of_its_oldest_report_so_that_nothing_of_it_is_late(drive: Drive) -> None:
    driven = drive()
    driven.come(-40, -60, -50)
    assert driven.reader.get_current_timestamp().micros == 1000 * at(-60)
    assert driven.reader.get_current().watermark is None
    driven.put(letters=[LETTER])
    driven.take()
    assert driven.reader.get_current_timestamp().micros == 1000 * at(-62)


def test_it_names_the_windows_of_the_attributes_of_the_study(drive: Drive) -> None:
    driven = drive()
    mixed = batch(*map(at, (1, 11, 21, 31)), None, attribute=["x", "y", "z", None, "x"])
    whole = batch(at(41)).select(["event_time"])
    driven.put(
        mixed,
        whole,
        whole.replace_schema_metadata({"attribute": "y"}),
        whole.replace_schema_metadata({"attribute": "z"}),
        batch(),
        letters=[LETTER],
    )
    driven.take()
    driven.commit()
    assert driven.named == windows_at(0) | windows_at(10, 40, attribute="y")


def test_of_windows_that_slide_it_names_all_that_hold_a_report(drive: Drive) -> None:
    driven = drive(period=4 * SECOND)
    driven.come(-7)
    driven.commit()
    held = {(own.start, own.end) for own in driven.named}
    assert held == {
        (start, start + 10 * SECOND) for start in range(at(-17) + 1, at(-7) + 1) if not start % (4 * SECOND)
    }


def test_reports_a_day_ahead_of_the_clock_have_no_window(drive: Drive) -> None:
    driven = drive()
    driven.come(86_400, 86_399.999)
    driven.commit()
    assert driven.named == windows_at(86_390)


@pytest.mark.parametrize(("then", "kept"), [(-1968.001, {-3000, -1970}), (-1968, {-1970})])
def test_windows_leave_it_a_hundred_sizes_and_the_lateness_after_their_end(
    then: float, kept: set[int], drive: Drive
) -> None:
    driven = drive()
    driven.come(-3000)
    driven.commit()
    # It ends at -2990, may be forgotten 1000 + 20 seconds later, and two more are the disorder.
    driven.come(then)
    driven.commit()
    assert driven.named == windows_at(*kept)


def test_what_any_reader_before_it_handed_on_holds_the_watermark_until_it_is_safe(drive: Drive) -> None:
    driven = drive()
    first = driven.come(-60)
    mark = driven.mark()
    replaced(driven)
    assert not driven.take()
    replaced(driven)
    driven.come(-10)
    driven.commit()
    assert driven.watermark == -62
    mark.finalize_checkpoint()
    assert driven.feed.acknowledged[-1] == first
    assert driven.watermark == -12
