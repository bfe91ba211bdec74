"""The pipeline options that Beam gets, and what a run prints of the ports that Beam opens."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from ldpbeam.runners.engines import Engine, engine_of
from ldpbeam.runners.request import EngineRequest


def options(*arguments: str) -> PipelineOptions:
    """The options of a local pipeline."""
    return Engine(FnApiRunner(), arguments).pipeline(["--job_name=counts"]).options


def test_options_are_parsed_once_for_each_class() -> None:
    given = options("--streaming")
    standard = given.view_as(StandardOptions)
    assert standard.streaming
    assert given.view_as(StandardOptions) is standard
    assert given.view_as(GoogleCloudOptions).job_name == "counts"


def test_all_views_of_the_options_change_the_same_values() -> None:
    given = options()
    given.view_as(StandardOptions).streaming = True
    cloud = given.view_as(GoogleCloudOptions)
    cloud.region = "europe-west1"
    assert cloud.view_as(StandardOptions).streaming
    assert given.get_all_options().items() >= {"streaming": True, "region": "europe-west1"}.items()


@pytest.mark.parametrize(
    ("runner", "listens"), [("DirectRunner", True), ("FlinkRunner", True), ("FnApiRunner", False)]
)
def test_what_beam_starts_with_open_ports_is_printed(
    runner: str, listens: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine_of(EngineRequest(runner), tmp_path)
    printed = capsys.readouterr().err
    assert printed.startswith("ldpbeam: what Beam starts for it (a job server,") == listens
    assert bool(printed) == listens
