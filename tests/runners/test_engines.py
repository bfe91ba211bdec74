"""The pipeline options that Beam gets: parsed once for each class that asks."""

from __future__ import annotations

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from ldpbeam.runners.engines import Engine


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
