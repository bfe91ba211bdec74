"""The Python and the YAML of docs/beam.md run, and its lists of fields are those of the Rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream

import ldpbeam as ldp
from ldpbeam.transforms.reports import counts

PAGE = (Path(__file__).parents[2] / "docs" / "beam.md").read_text(encoding="utf-8")
STUDY = """\
study: commute
attributes:
  minutes:
    domain: {numeric: [0, 180]}
    buckets: 16
    services: {maps: {mechanism: square_wave, epsilon: 1.0}}
    estimates: {distribution: {estimator: ems}, mean: {estimator: ivw}}
windows: {size: 1h}
"""
TIME = "2026-11-20T10:30:00Z"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a study and reports, in which the page's programs run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "reports").mkdir()
    client = ldp.Client(ldp.Study.from_yaml(STUDY), "minutes", "maps", rng=np.random.default_rng(1))
    reports = [client.report(value, f"user {value}", event_time=TIME) for value in range(0, 180, 2)]
    (tmp_path / "reports" / "a.jsonl").write_text("".join(json.dumps(report) + "\n" for report in reports))
    return tmp_path


def test_the_counters_are_those_of_the_code() -> None:
    listed = re.search(r"## Counters\n.*?\n\n(.*?)\n- distributions", PAGE, re.DOTALL)
    assert listed is not None
    of_reports = {
        counts.IN, counts.USED, counts.DUPLICATES, counts.LATE, counts.OUT_OF_RANGE, counts.DEAD_LETTERS,
    }  # fmt: skip
    named = re.findall(r"`([a-z_]+)`", listed[1])
    elsewhere = {counts.TOO_FAR, counts.NOT_BEGUN, counts.IN_OPEN_WINDOWS, counts.ROWS_OF_COUNTS}
    others = {*counts.OCCASIONAL, "damaged_places", "estimates"} - elsewhere
    assert sorted(named) == sorted(of_reports | others)


def test_the_page_runs_from_top_to_bottom(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    shown = capsys.readouterr().out
    assert "CountRow(name='used', reports=2)" in shown
    mean = float(re.search(r"^([\d.]+)$", shown, re.MULTILINE)[1])  # type: ignore[index]
    (estimate,) = ldp.estimate(ldp.Study.from_yaml(STUDY), _table(place)).only("mean")
    assert mean == estimate.mean
    assert shown.count("'service': 'maps'") == 2
    assert len([*place.glob("out/estimates-*")]) == len([*place.glob("out/distribution-*")]) == 1
    stream = test_stream.TestStream().add_elements((place / "reports/a.jsonl").read_bytes().splitlines()[:2])
    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=PipelineOptions(["--streaming"]))
    with pipeline:
        found = names["estimates_of"](pipeline | stream.advance_watermark_to_infinity())
        _ = found.estimates | beam.Map(_give)
    assert sorted(_given) == [("distribution", 2), ("mean", 2)]


#: What the stream gave; the engine runs in this process.
_given: list[tuple[str, int]] = []


def _give(row: ldp.beam.EstimateRow) -> None:
    _given.append((row.estimate, row.reports))


def _table(place: Path) -> dict[str, list[Any]]:
    records = [json.loads(line) for line in (place / "reports" / "a.jsonl").read_text().splitlines()]
    return {name: [record[name] for record in records] for name in records[0]}


def test_the_page_s_yaml_runs(place: Path) -> None:
    pytest.importorskip("docstring_parser", reason="Beam YAML is not installed: pip install 'ldpbeam[yaml]'")
    from apache_beam.yaml.yaml_transform import expand_pipeline

    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        expand_pipeline(pipeline, text.replace("/path/of/ldpbeam/beam/providers.yaml", ldp.beam.PROVIDERS))
    assert len([*place.glob("out/estimates-*")]) == 1


@pytest.mark.parametrize("kind", [ldp.beam.StatisticRow, ldp.beam.DeadLetterRow, ldp.beam.CountRow])
def test_the_page_lists_the_fields_of_rows(kind: Any) -> None:
    (item,) = re.findall(rf"^- `{kind.__name__}`: (.*?)\.(?:\n|$| )", PAGE, re.MULTILINE | re.DOTALL)
    assert re.findall(r"`(\w+)`", item) == list(kind._fields)
