"""``reports | Estimate(study)`` of an unbounded collection: panes, late reports, and what is refused."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.window import GlobalWindow, TimestampedValue

import ldpbeam as ldp
from ldpbeam.times import rfc3339

STUDY = """\
study: waits
attributes:
  minutes:
    domain: {numeric: [0, 60]}
    buckets: 8
    services: {bus: {mechanism: square_wave, epsilon: 2.0}, train: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {together: {estimator: ule}, mean: {estimator: ivw}}
windows: {size: 1m, allowed_lateness: 1m, max_age: 30000d}
"""
WAITS = ldp.Study.from_yaml(STUDY)
#: 2026-11-20T10:00:00Z, and how many of the people in each of two minutes report in time.
START, IN_TIME = 1_795_168_800, 30


def reports_of(service: str, minute: int, seed: int) -> list[dict[str, Any]]:
    """What forty people tell a service in a minute."""
    rng = np.random.default_rng(seed)
    client = ldp.Client(WAITS, "minutes", service, rng=rng)
    times = [1000 * (START + 60 * minute + second) for second in range(40)]
    users = [f"user-{number}" for number in range(40)]
    table = client.reports(60 * rng.beta(2, 5, 40), users, event_times=times)
    return [
        {**record, "event_time": rfc3339(time)} for record, time in zip(table.to_pylist(), times, strict=True)
    ]


SENT = {
    minute: [r for s, seed in (("bus", 1), ("train", 2)) for r in reports_of(s, minute, seed + 10 * minute)]
    for minute in (0, 1)
}


def streaming() -> beam.Pipeline:
    return beam.Pipeline(runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))


#: The rows that the stream gave; the engine runs in this process.
_given: list[Any] = []


def test_early_panes_are_not_complete_and_others_are_a_millisecond_after_the_window_of_the_study() -> None:
    study = STUDY.replace("size: 1m,", "size: 1m, early_reports: 40,")
    source = test_stream.TestStream().advance_watermark_to(START)
    source.add_elements([TimestampedValue(record, START) for record in SENT[0]])
    source.advance_watermark_to_infinity()
    _given.clear()
    with streaming() as pipeline:
        found = pipeline | source | ldp.beam.Estimate(study, shards=1)
        for name in ("estimates", "shares", "statistics"):
            _ = getattr(found, name) | name >> beam.Map(_give_place)
    for kind in (ldp.beam.EstimateRow, ldp.beam.ShareRow, ldp.beam.StatisticRow):
        rows = [row for row, *_ in _given if isinstance(row, kind)]
        # How many are early depends on how the engine bundles reports.
        assert {(row.pane_timing, row.complete) for row in rows} == {("early", False), ("on_time", True)}
    assert {window for _, window, _ in _given} == {GlobalWindow()}
    on_time = {time for row, _, time in _given if row.pane_timing == "on_time"}
    assert on_time == {1000 * (START + 60) + 1}


def _give_place(row: Any, window: Any = beam.DoFn.WindowParam, time: Any = beam.DoFn.TimestampParam) -> None:
    _given.append((row, window, time.micros // 1000))


def test_a_stream_needs_windows(small_text: str) -> None:
    with pytest.raises(ValueError, match="study 'small' has no windows, and the reports are unbounded"):
        _ = streaming() | test_stream.TestStream() | ldp.beam.Estimate(small_text)
