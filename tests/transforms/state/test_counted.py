"""The accounting of a stream that may be killed: what is final, and that each report counts once."""

from __future__ import annotations

from collections import Counter

from ldpbeam.transforms.reports.counts import (
    DEAD_LETTERS,
    DUPLICATES,
    ENDED_WINDOWS,
    ENTERED,
    IN,
    LATE,
    LETTERS_WRITTEN,
    OUT_OF_RANGE,
    USED,
    of_batch,
    of_window,
    with_origin,
)
from ldpbeam.transforms.state.counted import RunningAccounting
from ldpbeam.windows import Windows

WINDOWS = Windows(10, 10, allowed_lateness=5)


def running(*starts: tuple[int, int]) -> RunningAccounting:
    return RunningAccounting(positions=dict(starts))


def add(total: RunningAccounting, origin: str, **counts: int) -> None:
    total.add({with_origin(name, origin): reports for name, reports in counts.items()})


def test_a_batch_is_final_when_every_report_became_something_and_batches_before_it_are() -> None:
    total = running((0, 100))
    add(total, of_batch(0, 110, 120), **{IN: 10, ENTERED: 10})
    assert (total.positions, total.final) == ({0: 100}, {})
    add(total, of_batch(0, 100, 110), **{IN: 9, ENTERED: 5})
    assert total.positions == {0: 100}
    add(total, of_batch(0, 100, 110), **{LATE: 3, OUT_OF_RANGE: 1})
    assert total.positions == {0: 120}
    assert total.final == {IN: 19, ENTERED: 15, LATE: 3, OUT_OF_RANGE: 1}
    assert not total.batches


def test_a_batch_waits_until_its_dead_letters_are_in_files() -> None:
    total = running((3, 0))
    add(total, of_batch(3, 0, 4), **{IN: 7, ENTERED: 5, DEAD_LETTERS: 2})
    assert total.positions == {3: 0}
    add(total, of_batch(3, 0, 4), **{LETTERS_WRITTEN: 2})
    assert total.positions == {3: 4}


def test_a_batch_without_reports_is_final_at_once() -> None:
    total = running((0, 0))
    add(total, of_batch(0, 0, 1), **{IN: 0})
    assert total.positions == {0: 1}


def test_a_window_is_final_when_it_has_settled() -> None:
    total = running()
    add(total, of_window((0, 10)), **{USED: 3, DUPLICATES: 1})
    add(total, of_window((10, 20)), **{USED: 2})
    total.settle(WINDOWS, 16)
    assert total.final == {}
    total.settle(WINDOWS, 17)
    assert total.final == {USED: 3, DUPLICATES: 1}
    assert (total.settled, [*total.open]) == (17, [(10, 20)])
    # The next process counts the open window anew.
    left = RunningAccounting.of_json(total.to_json()).final_only()
    assert Counter(dict(left.counts())) == {USED: 3, DUPLICATES: 1}


def test_a_window_that_a_stop_left_without_estimates_does_not_settle_nor_do_later_ones() -> None:
    total = running()
    for start, more in ((0, {}), (10, {ENDED_WINDOWS: 1}), (20, {})):
        add(total, of_window((start, start + 10)), **{USED: 3, **more})
    total.settle(WINDOWS, 100)
    assert (total.settled, [*total.open]) == (WINDOWS.settles((10, 20)) - 1, [(10, 20), (20, 30)])
    # The next process estimates them, and the count of the stop is not its own.
    assert Counter(dict(total.final_only().counts())) == {USED: 3}


def test_all_counts_are_told_whether_final_or_not_and_a_file_keeps_them() -> None:
    total = running((0, 0), (1, 5))
    add(total, of_batch(0, 0, 4), **{IN: 4, ENTERED: 4})
    add(total, of_batch(1, 5, 9), **{IN: 4})
    add(total, of_window((0, 10)), **{USED: 3})
    add(total, "", **{"damaged_file/x": 1})
    told: Counter[str] = Counter()
    for name, reports in total.counts():
        told[name] += reports
    assert told == {IN: 8, ENTERED: 4, USED: 3, "damaged_file/x": 1}
    assert RunningAccounting.of_json(total.to_json()) == total
    left = total.final_only()
    assert (left.positions, left.batches, left.open) == ({0: 4, 1: 5}, {}, {})
