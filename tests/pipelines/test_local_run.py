"""A run on this machine has no engine, and writes what an engine would, to the last byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from support.output_folders import contents
from support.studies import SMALL

from benchmarks.frozen import STUDY, reports
from ldpbeam.folders.output import LEDGER_PARTS
from ldpbeam.inputs.files import find_input
from ldpbeam.pipelines.commands import estimate as estimate_command
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.graphs.batch_stages import build, run_pipeline
from ldpbeam.pipelines.runs.locks import locked
from ldpbeam.pipelines.spool.batch import tally_here
from ldpbeam.runners.engines import Engine
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.dead_letters import Disclosure
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.windows import EVERYTHING, Span

#: What stands behind the study, by what is special about it.
SETTINGS = {
    "no windows": "",
    "windows overlap": "windows: {size: 6h, period: 15m}\n",
    "groups": "windows: {size: 2h}\ngroups: {field: region, at_most: 2}\n",
    "duplicates are kept": "duplicates: keep\nwindows: {size: 1h}\n",
    "windows share files": "windows: {size: 1h}\npublish: {at_least: 300}\n",
    "windows are joined": "windows: {size: 1h, joined: 2h}\n",
    "a ledger": "windows: {size: 1h}\nledger: {period: 30d}\n",
}
#: Windows are joined of one service.
JOINED = """\
study: small
attributes:
  x: {domain: {numeric: [0, 1]}, buckets: 8, services: {b: {mechanism: square_wave, epsilon: 2.0}}}
"""
KEY = bytes(range(32))
#: 2026-11-20T12:00:00Z to 18:00:00Z, in which not all reports lie.
SPAN = Span(1_795_176_000_000, 1_795_197_600_000)


def _job(folder: Path, setting: str = "", span: Span = EVERYTHING) -> BatchJob:
    """A run over good, bad and damaged files."""
    text = JOINED if "joined" in setting else STUDY
    if "duplicates" in setting:
        # Only reports that are grouped by user are joined.
        text = text.replace("both: {estimator: ule}", "both: {estimator: ivw}")
    study = parse_study(text + setting, "study.yaml")
    lines = [json.dumps(record) for record in reports(with_ids=True)]
    lines.insert(100, '{"user_id": "a record that is cut off')
    for part in range(3):
        (folder / f"{part}.jsonl").write_text("\n".join(lines[part::3]) + "\n")
    with (folder / "2.jsonl").open("a") as damaged:
        damaged.write('{"user_id": "a file that is cut off')
    (folder / "text.jsonl").write_text("no reports\n")
    return BatchJob(
        study=study, input=find_input([str(folder / "*.jsonl")], "skip"), output="", run="r",
        columns=wanted_columns(study, None, None), span=span, disclosure=Disclosure(user_id_key=KEY),
        ledger_key=KEY if study.ledger else None,
    )  # fmt: skip


def _into(job: BatchJob, folder: Path) -> BatchJob:
    folder.mkdir()
    return BatchJob(**{**vars(job), "output": str(folder)})


def _received(job: BatchJob) -> list[tuple[object, ...]]:
    """The rows of the ledger of a run, sorted."""
    tables = [pa.ipc.open_file(path).read_all() for path in Path(job.output).glob(f"{LEDGER_PARTS}/*.arrow")]
    return sorted({tuple(row.values()) for table in tables for row in table.to_pylist()})


@pytest.mark.parametrize(("name", "span"), [
    *((name, EVERYTHING) for name in SETTINGS),
    *((name, SPAN) for name in ("windows overlap", "windows are joined", "a ledger")),
])  # fmt: skip
def test_a_run_without_an_engine_writes_what_an_engine_writes(name: str, span: Span, tmp_path: Path) -> None:
    job = _job(tmp_path, SETTINGS[name], span)
    by_itself = _into(job, tmp_path / "alone")
    (waits := tmp_path / "waits").mkdir()
    tally_here(by_itself, waits, lambda _: None)
    by_engine = _into(job, tmp_path / "engine")
    engine = Engine(FnApiRunner(), (), here=True)
    build(pipeline := engine.pipeline([]), by_engine)
    run_pipeline(pipeline, here=True)
    # Workers name and order the parts of the ledger at random.
    assert _received(by_itself) == _received(by_engine)
    assert bool(_received(by_itself)) == (name == "a ledger")
    files, of_engine = (
        {path: data for path, data in contents(Path(job.output)).items() if not path.endswith(".arrow")}
        for job in (by_itself, by_engine)
    )
    assert {path.partition("/")[0] for path in files} == {"accounting.json", "dead_letters", "statistics"}
    assert files == of_engine


def test_a_folder_where_another_run_writes_is_refused_before_anything_is_read(
    command: Any, write_lines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.yaml").write_text(SMALL)
    reports = write_lines(tmp_path / "in.jsonl", [{"user_id": "u", "attribute": "x", "service": "a"}])
    read: list[object] = []
    monkeypatch.setattr(estimate_command, "tally_here", lambda *given: read.append(given))
    with locked(str(tmp_path / "out"), alone=True):
        given = ("--study", tmp_path / "study.yaml", "--input", reports, "--output", tmp_path / "out")
        ran = command("estimate", *given)
    assert (ran.code, read) == (2, [])
    assert "another run is writing there now" in ran.err
