"""A few lines with ``Estimate(study)`` on Prism: the estimates of ``ldpbeam estimate`` and ``stream``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from stream_messages import MINUTE, WEEK_AGO, evenly, reports_of, rides
from stream_runs import answers, streaming
from support.beam_reports import records_in, rows_of, shares_of
from unbounded_reports import Records, place_of, write_both, written

import ldpbeam as ldp
from ldpbeam.runners import prism as engine

pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, write_reports: Any) -> list[Path]:
    """What people told two services in half an hour, as JSON lines."""
    sent = reports_of(STUDY, "user", evenly(WEEK_AGO, 30 * MINUTE, 600), seed=1)
    return list(write_reports(tmp_path_factory.mktemp("reports"), sent, "jsonl"))


def on_prism(location: str, *, unbounded: bool) -> beam.Pipeline:
    closed = engine.get(location, allow_open=False)
    assert closed is not None
    return beam.Pipeline(
        runner=engine.runner(closed), options=PipelineOptions(list(engine.options(streaming=unbounded)))
    )


def as_dicts(rows: list[Any]) -> list[dict[str, Any]]:
    return sorted(map(ldp.beam.as_dict, rows), key=place_of)


def test_a_batch_is_that_of_the_command(
    prism: str, files: list[Path], run_estimate: Any, tmp_path: Path
) -> None:
    run = run_estimate(tmp_path / "run", STUDY, files)
    assert len(run.estimates) == 6
    with on_prism(prism, unbounded=False) as pipeline:
        reports = pipeline | ldp.beam.ReadReports(STUDY, list(map(str, files)))
        write_both(reports | ldp.beam.Estimate(STUDY), tmp_path)
    assert written(tmp_path / "estimates") == as_dicts(rows_of(run.estimates))
    assert written(tmp_path / "shares") == as_dicts(shares_of(run.estimates))


def test_a_stream_is_that_of_the_command(prism: str, files: list[Path], tmp_path: Path) -> None:
    with streaming(tmp_path / "run", STUDY, prism, "--input", *files, "--stop-when-idle", "3s") as stream:
        assert stream.wait() == 0, stream.said
        records = stream.left.records
    assert len(answers(records)) == 6
    with on_prism(prism, unbounded=True) as pipeline:
        reports = pipeline | beam.io.Read(Records(records_in(files), ends=True))
        write_both(reports | ldp.beam.Estimate(STUDY), tmp_path)
    assert written(tmp_path / "estimates") == as_dicts(rows_of(records))
    assert written(tmp_path / "shares") == as_dicts(shares_of(records))
