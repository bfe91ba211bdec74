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
from support.beam_reports import rows_of, shares_of

import ldpbeam as ldp
from ldpbeam.times import rfc3339

STUDY = """\
study: waits
attributes:
  minutes:
    domain: {numeric: [0, 60]}
    buckets: 8
    services:
      bus: {mechanism: square_wave, epsilon: 2.0}
      train: {mechanism: piecewise, epsilon: 1.0}
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


def arriving() -> test_stream.TestStream:
    """Most of the first minute in time, the rest late; the second in time, and one report too late."""
    late = [record for record in SENT[0] if int(record["user_id"].split(b"-")[1]) >= IN_TIME]
    in_time = [record for record in SENT[0] if record not in late]
    source = test_stream.TestStream()
    source.advance_watermark_to(START)
    source.add_elements([TimestampedValue(record, START) for record in in_time])
    source.advance_watermark_to(START + 70)
    source.add_elements([TimestampedValue(record, START + 70) for record in [*late, *SENT[1]]])
    source.advance_watermark_to(START + 200)
    source.add_elements([TimestampedValue({**SENT[0][0], "user_id": "too late"}, START + 200)])
    source.advance_watermark_to_infinity()
    return source


def streaming() -> beam.Pipeline:
    return beam.Pipeline(runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))


def test_the_last_panes_are_the_estimates_of_the_command(
    run_estimate: Any, write_lines: Any, tmp_path: Any
) -> None:
    records = [{**r, "user_id": r["user_id"].decode()} for own in SENT.values() for r in own]
    run = run_estimate(tmp_path, STUDY, [write_lines(tmp_path / "reports.jsonl", records)])
    assert run.accounting["used"] == 160
    expected = {(row.window_start, row.estimate): row for row in rows_of(run.estimates)}
    shares = {(row.window_start, row.estimate, row.place): row for row in shares_of(run.estimates)}

    def check(rows: list[ldp.beam.EstimateRow]) -> None:
        last = {(row.window_start, row.estimate): row for row in sorted(rows, key=lambda r: r.pane_index)}
        assert {
            key: row._replace(pane_index=0, pane_timing="on_time") for key, row in last.items()
        } == expected
        first = [row for row in rows if row.window_start == rfc3339(1000 * START)]
        assert {(row.pane_index, row.pane_timing, row.reports) for row in first} == {
            (0, "on_time", 2 * IN_TIME),
            (1, "late", 80),
        }

    def check_shares(rows: list[ldp.beam.ShareRow]) -> None:
        last = {(r.window_start, r.estimate, r.place): r for r in sorted(rows, key=lambda r: r.pane_index)}
        assert {key: row._replace(pane_index=0, pane_timing="on_time") for key, row in last.items()} == shares

    def check_counts(rows: list[ldp.beam.CountRow]) -> None:
        found = {name: sum(row.reports for row in rows if row.name == name) for name, _ in rows}
        assert found == {"in": 161, "used": 160, "late": 1}

    _given.clear()
    with streaming() as pipeline:
        found = pipeline | arriving() | ldp.beam.Estimate(STUDY, shards=2)
        for name in found._fields:
            _ = getattr(found, name) | name >> beam.Map(_give)
    check([row for row in _given if isinstance(row, ldp.beam.EstimateRow)])
    check_shares([row for row in _given if isinstance(row, ldp.beam.ShareRow)])
    check_counts([row for row in _given if isinstance(row, ldp.beam.CountRow)])


#: The rows that the stream gave; the engine runs in this process.
_given: list[Any] = []


def _give(row: Any) -> None:
    _given.append(row)


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
