"""Batches and windowed elements lose what lies outside ``--from`` and ``--to``."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window

from ldpbeam.runners import direct
from ldpbeam.transforms.windows import spans as stage
from ldpbeam.transforms.windows.cut import window_bounds
from ldpbeam.windows import Span

HOUR = 3_600_000


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
