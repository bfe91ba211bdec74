"""A few lines with ``Estimate(study)`` on Prism and on a Flink cluster, beside ``ldpbeam estimate``.

That ``ldpbeam stream`` gives there what ``ldpbeam estimate`` gives: test_stream, test_stream_on_flink.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import flink as jobs
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue
from stream_messages import MINUTE, WEEK_AGO, evenly, reports_of, rides
from support.beam_reports import records_in, rows_of, shares_of
from unbounded_reports import Records, place_of, write_both, written

import ldpbeam as ldp
from ldpbeam.runners import flink as flink_runner
from ldpbeam.runners import prism as prism_runner
from ldpbeam.runners.flink.cluster import Cluster
from ldpbeam.times import rfc3339

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "beam.md").read_text(encoding="utf-8")

STUDY = rides("size: 10m, allowed_lateness: 10m", intervals=True)
Make = Callable[[bool], beam.Pipeline]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, write_reports: Any) -> list[Path]:
    """What people told two services in half an hour, as JSON lines."""
    sent = reports_of(STUDY, "user", evenly(WEEK_AGO, 30 * MINUTE, 600), seed=1)
    return list(write_reports(tmp_path_factory.mktemp("reports"), sent, "jsonl"))


@pytest.fixture(scope="module")
def expected(
    files: list[Path], run_estimate: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    """The estimates and the shares that the command writes, as dicts."""
    run = run_estimate(tmp_path_factory.mktemp("run"), STUDY, files)
    assert len(run.estimates) == 6
    rows = {"estimates": rows_of(run.estimates), "shares": shares_of(run.estimates)}
    return {name: sorted(map(ldp.beam.as_dict, own), key=place_of) for name, own in rows.items()}


@pytest.fixture
def on_prism(request: pytest.FixtureRequest) -> Make:
    """Makes a pipeline: (whether it is unbounded)."""
    closed = prism_runner.get(request.getfixturevalue("prism"), allow_open=False)
    assert closed is not None
    runner = prism_runner.runner(closed)
    return lambda unbounded: beam.Pipeline(
        runner=runner, options=PipelineOptions(list(prism_runner.options(streaming=unbounded)))
    )


@pytest.fixture
def on_flink(flink: Cluster) -> Make:
    """The same."""
    return lambda unbounded: beam.Pipeline(
        runner=flink_runner.runner(),
        options=PipelineOptions(list(flink_runner.options(flink.address, streaming=unbounded))),
    )


@pytest.mark.parametrize("engine", ["on_prism", "on_flink"])
def test_a_batch_is_that_of_the_command(
    engine: str, files: list[Path], expected: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with request.getfixturevalue(engine)(False) as pipeline:
        reports = pipeline | ldp.beam.ReadReports(STUDY, list(map(str, files)))
        write_both(reports | ldp.beam.Estimate(STUDY), tmp_path)
    assert {name: written(tmp_path / name) for name in expected} == expected


def test_a_stream_on_prism_is_that_of_the_command(
    on_prism: Make, files: list[Path], expected: dict[str, Any], tmp_path: Path
) -> None:
    with on_prism(True) as pipeline:
        reports = pipeline | beam.io.Read(Records(records_in(files), ends=True))
        write_both(reports | ldp.beam.Estimate(STUDY), tmp_path)
    assert {name: written(tmp_path / name) for name in expected} == expected


def test_a_stream_on_prism_writes_files_as_the_page_does(
    on_prism: Make, files: list[Path], tmp_path: Path
) -> None:
    own = [record for record in records_in(files) if record["event_time"] < rfc3339(WEEK_AGO + 10 * MINUTE)]
    start = WEEK_AGO // 1000
    source = test_stream.TestStream().advance_watermark_to(start)
    source.add_elements([TimestampedValue(record, start) for record in own[::2]])
    source.advance_watermark_to(start + 11 * 60)
    source.add_elements([TimestampedValue(record, start + 11 * 60) for record in own[1::2]])
    source.advance_watermark_to_infinity()
    (block,) = re.findall(r"```python\n(import uuid\n.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"beam": beam, "json": json}
    exec(block, names)
    with on_prism(True) as pipeline:
        found = pipeline | source | ldp.beam.Estimate(STUDY, shards=2)
        names["write_estimates"](found, str(tmp_path / "files"))
    lines = [line for path in (tmp_path / "files").glob("*.jsonl") for line in path.read_text().splitlines()]
    panes = [(row["window_start"], row["pane_timing"], row["reports"]) for row in map(json.loads, lines)]
    on_time, late = ("on_time", len(own[::2])), ("late", len(own))
    assert Counter(panes) == {(rfc3339(WEEK_AGO), *on_time): 2, (rfc3339(WEEK_AGO), *late): 2}


def test_a_stream_on_flink_is_that_of_the_command(
    on_flink: Make, flink: Cluster, files: list[Path], expected: dict[str, Any], tmp_path: Path
) -> None:
    pipeline = on_flink(True)
    reports = pipeline | beam.io.Read(Records(records_in(files), ends=False))
    write_both(reports | ldp.beam.Estimate(STUDY), tmp_path)
    result = pipeline.run()

    def all_there() -> bool:
        assert not flink.rest.problems(flink.rest.jobs()[0]["jid"])
        return all(len(written(tmp_path / name)) >= len(expected[name]) for name in expected)

    try:
        jobs.wait_for(all_there, "the estimates")
    finally:
        result.cancel()
    assert {name: written(tmp_path / name) for name in expected} == expected
