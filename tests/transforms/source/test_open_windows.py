"""How many windows of a stream a client can open: those near the other reports, and no others.

The most is a number, whichever the size of the windows. What is refused is counted, and is the same when
another process reads it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.driven_source import DISORDER, NOW, SECOND, Driven

from ldpbeam.transforms.reports.batches import Arrival, out_of_range, pairs_of_times
from ldpbeam.transforms.sources.arrivals import anchors_of, event_times
from ldpbeam.transforms.sources.feeds import FeedBatch
from ldpbeam.transforms.sources.replay import Arrivals, Replay
from ldpbeam.transforms.sources.watermark import Watermark
from ldpbeam.transforms.state.records import Offsets, Step, Steps
from ldpbeam.windows import MANY_REPORTS, MOST_OPEN, Windows

Drive = Callable[..., Driven]
DAY = 86_400 * SECOND
MOST = 90


def of_size(seconds: int, **options: Any) -> Windows:
    return Windows(seconds * SECOND, seconds * SECOND, most_open=MOST, **options)


def opened(driven: Driven) -> set[int]:
    """The starts of the windows that were opened, in seconds before the test began."""
    return {(window.start - NOW) // SECOND for window in driven.named}


@pytest.mark.parametrize("seconds", [10, 60, 3600])
def test_a_message_opens_no_more_than_the_most_whatever_the_size_of_the_windows(
    drive: Drive, seconds: int
) -> None:
    driven = drive(windows=of_size(seconds))
    driven.come(*(-number * seconds for number in range(5_000)))
    driven.commit()
    assert MOST / 6 <= len(driven.named) <= MOST + 2


def test_a_second_message_opens_no_others(drive: Drive) -> None:
    driven = drive(windows=of_size(10))
    driven.come(*(-10 * number for number in range(5_000)))
    driven.come(*(-10 * number for number in range(5_000)))
    driven.come(*(10 * number for number in range(5_000)))
    driven.commit()
    assert len(driven.named) <= MOST + 2


def test_reports_of_now_are_counted_though_others_came_first(drive: Drive) -> None:
    driven = drive(windows=of_size(10))
    driven.come(*(-10 * number for number in range(1_000, 6_000)))
    driven.come(-1, -15)
    driven.commit()
    assert {-10, -20} <= opened(driven)


def test_reports_within_the_lateness_are_counted_though_others_came_first(drive: Drive) -> None:
    """However many windows a client opened before."""
    lateness = 2_000
    driven = drive(windows=of_size(10, allowed_lateness=lateness * SECOND))
    driven.come(*(10 * number - 10**5 for number in range(20_000)))
    driven.come(-1, -lateness // 2, -lateness)
    driven.commit()
    assert {-10, -lateness // 2, -lateness} <= opened(driven)


def test_reports_of_a_backlog_are_near_each_other(drive: Drive) -> None:
    """They are a week old, and in order but for the disorder."""
    driven = drive(windows=of_size(10))
    for hundred in range(30):
        driven.come(*(100 * hundred - 600_000 + second for second in range(0, 100, 5)))
    driven.commit()
    assert len(driven.named) == 30 * 10


def test_windows_with_many_reports_are_open_wherever_they_lie(drive: Drive) -> None:
    """As in the file of a day that is sorted by user."""
    driven = drive(windows=of_size(10))
    far = [-10_000, -20_000, -30_000]
    many, few = np.repeat(far[:2], MANY_REPORTS), np.repeat(far[2:], MANY_REPORTS - 1)
    driven.come(*many.tolist(), *few.tolist(), *[-1] * 1_000)
    driven.commit()
    assert opened(driven) == {-10_000, -20_000, -10}


def of_messages(*messages: list[int]) -> FeedBatch:
    """A batch of Kafka: the event times of the reports of each message."""
    columns = {
        "event_time": pa.array([time for times in messages for time in times], pa.int64()),
        "row": pa.array([row for times in messages for row in range(len(times))]),
    }
    offsets = Offsets(0, 0, len(messages))
    return FeedBatch([pa.RecordBatch.from_pydict(columns)], (), (), NOW, offsets=offsets)


def refused(windows: Windows, *messages: list[int]) -> int:
    """How many reports of a backlog that was published now are refused."""
    watermark, batch = Watermark(60 * SECOND, 0), of_messages(*messages)
    times = event_times(batch)
    watermark.take(0, times, NOW, NOW)
    near = windows.near(
        windows.rounded((*watermark.anchors, *anchors_of(batch).tolist())), watermark.disorder
    )
    return int(out_of_range(windows, times, Arrival("", NOW, pairs_of_times(near)))[1].sum())


@pytest.mark.parametrize(
    ("reports", "apart", "size"), [(3_000, 1, 1), (10_000, 1, 1), (10_000, 12, 60), (20, 600, 60)]
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_backlog_with_few_reports_in_a_window_loses_none(
    reports: int, apart: int, size: int, shuffled: bool
) -> None:
    """Its messages come in one batch, which spans up to 10,000 windows."""
    times = NOW - 600 * SECOND - apart * SECOND * np.arange(reports)
    if shuffled:
        np.random.default_rng(0).shuffle(times)
    windows = Windows(size * SECOND, size * SECOND)
    assert refused(windows, *[[time] for time in times.tolist()]) == 0


def test_a_message_of_many_windows_counts_once_and_a_few_far_ones_not_at_all() -> None:
    windows = Windows(SECOND, SECOND)
    live, many = [[NOW - SECOND * number] for number in range(100)], [NOW - SECOND * n for n in range(20_000)]
    assert len(anchors_of(of_messages(many))) == 0
    assert anchors_of(of_messages(*live, many)).min() >= NOW - 100 * SECOND
    assert 20_000 - MOST_OPEN < refused(windows, many) < 20_000
    far = [[NOW - DAY + number] for number in range(4)]
    assert refused(windows, *live, *far) == len(far)


def test_reports_may_be_as_late_and_out_of_order_as_was_declared() -> None:
    lateness = 1_000 * SECOND
    (span,) = of_size(1, allowed_lateness=lateness).near([0], DISORDER)
    assert (span.start, span.stop) == (-(lateness + DISORDER + SECOND), MOST // 6 * SECOND)
    (span,) = of_size(1).near([0], 0)
    assert (span.start, span.stop) == (-MOST // 6 * SECOND, MOST // 6 * SECOND)


def test_what_is_refused_has_a_count_of_its_own() -> None:
    """It is among what is out of range, beside what is too old or in the future."""
    windows = of_size(10)
    times = np.array([NOW, NOW - 1_000 * SECOND, NOW + 2 * DAY, NOW - 10 * DAY])
    outside, far = out_of_range(windows, times, Arrival("", NOW, [(NOW - 9, NOW + 9)]))
    assert outside.tolist() == [False, True, True, True]
    assert far.tolist() == [False, True, False, False]
    outside, far = out_of_range(windows, times, Arrival("", NOW))
    assert (outside.tolist(), far.any()) == ([False, False, True, True], False)


def test_another_process_refuses_the_same() -> None:
    windows = of_size(10)
    first = Arrivals(Replay(), windows)
    anchors = windows.rounded((NOW,))
    _, came = first.of(Offsets(0, 0, 10), None, NOW, anchors)
    first.of(Offsets(0, 10, 20), None, NOW, windows.rounded((NOW + 900 * SECOND,)))
    steps = {partition: tuple(of) for partition, of in first.steps.items()}
    assert [step.offset for step in steps[0]] == [0, 10]
    again = Arrivals(Replay({0: 0}, {}, {0: 20}, steps), windows)
    assert again.of(Offsets(0, 0, 7), None, NOW + DAY, (NOW + DAY,))[1].near == came.near
    assert again.of(Offsets(0, 7, 10), None, NOW + DAY, (NOW + DAY,))[1].near == came.near
    content = {"partition": 3, "steps": [[0, None, NOW, [5]]]}
    assert Steps.of_json(content) == (3, (Step(0, None, NOW, (5,)),))


def test_anchors_move_with_parts_of_the_windows_around_them() -> None:
    """So a step is written when they do, and not with each batch."""
    windows = Windows(SECOND, SECOND)
    moved = {windows.rounded((NOW + millisecond,)) for millisecond in range(0, 60 * SECOND, 100)}
    assert 2 <= len(moved) <= 3
