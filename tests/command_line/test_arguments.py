"""Command lines: our options with dashes or underscores, Beam's as Beam writes them."""

from __future__ import annotations

from pathlib import Path

from apache_beam.options.pipeline_options import GoogleCloudOptions, StandardOptions

from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.runners.engines import engine_of
from ldpbeam.runners.request import engine_request

NEEDED = ["--study", "study.yaml", "--input", "in", "--output", "out"]


def test_our_options_take_dashes_and_underscores() -> None:
    parser = COMMANDS["estimate"].parser()
    written = ["--keep_bad_records", "--max_bad_fraction=0.5", "--on_bad_file", "skip"]
    options, rest = parser.parse_with_beam([*NEEDED, *written])
    dashed = [f"--{text.removeprefix('--').replace('_', '-')}" if "--" in text else text for text in written]
    assert parser.parse([*NEEDED, *dashed]) == options
    assert (options.keep_bad_records, options.on_bad_file) == (True, "skip")
    assert (options.max_bad_fraction, rest) == (0.5, [])


def test_beams_options_reach_beam_as_beam_writes_them(tmp_path: Path) -> None:
    written = [
        "--runner", "direct", "--job_name", "november", "--temp_location=some/where", "--experiments=a",
        "--experiments=b",
    ]  # fmt: skip
    options, rest = COMMANDS["estimate"].parser().parse_with_beam([*NEEDED, *written])
    given = engine_of(engine_request(options), tmp_path).pipeline(rest).options
    assert given.view_as(GoogleCloudOptions).job_name == "november"
    assert given.view_as(GoogleCloudOptions).temp_location == "some/where"
    assert {"a", "b"} <= set(given.get_all_options()["experiments"])
    assert not given.view_as(StandardOptions).streaming
