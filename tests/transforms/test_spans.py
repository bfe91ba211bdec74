"""Which windows lie inside ``--from`` and ``--to``, and which reports lie in one of those."""

from __future__ import annotations

import itertools
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window

from ldpbeam.runners import direct
from ldpbeam.schemas.study.models import WindowsModel
from ldpbeam.transforms.windows import spans as stage
from ldpbeam.transforms.windows.cut import window_bounds
from ldpbeam.transforms.windows.spans import FAR, Span

MINUTE = 60_000
HOUR = 60 * MINUTE
NOVEMBER = 1_795_168_800_000  # 2026-11-20T10:00:00Z


def windows(size: str, period: str | None = None) -> WindowsModel:
    return WindowsModel.model_validate({"size": size, "period": period})


def windows_inside(model: WindowsModel, start: int, stop: int) -> list[tuple[int, int]]:
    """Counted out, one by one."""
    period = model.period or model.size
    every = [(k * period, k * period + model.size) for k in range(-60, 60)]
    return [(one, other) for one, other in every if start <= one and other <= stop]


@pytest.mark.parametrize(
    "model",
    [windows("1h"), windows("2h", "1h"), windows("90m", "60m"), windows("1h", "1h"), windows("50m", "20m")],
    ids=lambda m: f"{m.size},{m.period}",
)
def test_the_span_is_that_of_the_windows_counted_out(model: WindowsModel) -> None:
    for start, stop in itertools.product(range(-400, 401, 35), repeat=2):
        inside = windows_inside(model, start * MINUTE, stop * MINUTE)
        given = Span(start * MINUTE, stop * MINUTE)
        if not inside:
            with pytest.raises(ValueError, match="no window"):
                stage.whole_windows(model, given)
            continue
        found = stage.whole_windows(model, given)
        assert found == Span(inside[0][0], inside[-1][1])
        # The windows inside it are the same ones, and it holds each of their moments and no other.
        assert windows_inside(model, found.start, found.stop) == inside
        assert all(map(found.holds, inside))
        times = np.arange(-500 * MINUTE, 500 * MINUTE, 5 * MINUTE)
        covered = np.any([(times >= one) & (times < other) for one, other in inside], axis=0)
        np.testing.assert_array_equal(found.outside(times), ~covered)


def test_an_open_end_stays_open() -> None:
    model = windows("2h", "1h")
    assert stage.whole_windows(model, Span()) == Span()
    assert stage.whole_windows(model, Span(start=NOVEMBER + 1)) == Span(NOVEMBER + HOUR, FAR)
    assert stage.whole_windows(model, Span(stop=NOVEMBER - 1)) == Span(-FAR, NOVEMBER - HOUR)
    assert not Span().bounded
    assert Span(start=0).bounded
    assert Span(stop=0).bounded
    assert Span(0, 1).holds(None)


@pytest.mark.parametrize(
    ("model", "start", "stop", "nearest"),
    [
        (windows("1h"), 15, 60, "2026-11-20T10:00:00Z to 2026-11-20T11:00:00Z"),
        (windows("1h"), 30, 90, "2026-11-20T10:00:00Z to 2026-11-20T12:00:00Z"),
        (windows("2h", "1h"), 0, 60, "2026-11-20T10:00:00Z to 2026-11-20T12:00:00Z"),
        (windows("1d"), 0, 60, "2026-11-20T00:00:00Z to 2026-11-21T00:00:00Z"),
    ],
    ids=str,
)
def test_where_no_window_lies_inside_the_nearest_span_is_named(
    model: WindowsModel, start: int, stop: int, nearest: str
) -> None:
    with pytest.raises(ValueError, match="counted from 1970-01-01T00:00:00Z") as caught:
        stage.whole_windows(model, Span(NOVEMBER + start * MINUTE, NOVEMBER + stop * MINUTE))
    assert str(caught.value).endswith(f"the nearest span of whole windows is {nearest}")


def test_elements_lose_the_windows_that_are_not_inside() -> None:
    expected = [("x", (0, 2 * HOUR)), ("y", (0, 2 * HOUR)), ("y", (HOUR, 3 * HOUR)), ("z", (HOUR, 3 * HOUR))]
    with test_pipeline.TestPipeline(runner=direct.runner()) as pipeline:
        kept = (
            pipeline
            | beam.Create([("w", -1), ("x", 0), ("y", HOUR), ("z", 2 * HOUR), ("v", 3 * HOUR)])
            | beam.Map(lambda pair: window.TimestampedValue(pair[0], pair[1] / 1000))
            | beam.WindowInto(window.SlidingWindows(7200, 3600))
            | stage.keep_windows(Span(0, 3 * HOUR))
            | beam.Map(lambda name, own=beam.DoFn.WindowParam: (name, window_bounds(own)))
        )
        assert_that(kept, equal_to(expected), reify_windows=False)


def test_batches_lose_the_reports_outside_and_those_are_counted() -> None:
    batches = [
        pa.RecordBatch.from_pydict({"event_time": times, "user": [str(time) for time in times]})
        for times in ([-1, 0, 9, 10], [5, 6], [-5, 20])
    ]
    function = stage._LeaveOutside(Span(0, 10))
    found: list[Any] = [list(function.process(batch)) for batch in batches]
    assert [item.value for item in (found[0][0], *found[2])] == [("out_of_range", 2), ("out_of_range", 2)]
    assert found[0][1].column("user").to_pylist() == ["0", "9"]
    assert found[1] == [batches[1]]
