"""Files to slices; dead letters; and whole runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa

from benchmarks.scale.measuring.meter import line, outputs, spent
from benchmarks.scale.measuring.reports import sent
from benchmarks.scale.setting import CHECKED_SHARDS, filled, study_of
from ldpbeam.pipelines.graphs import batch
from ldpbeam.pipelines.simulated.report_files import write_reports
from ldpbeam.schemas.encodings.avro_rows import BATCH_REPORTS
from ldpbeam.transforms.reports.validate import ValidateReports
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.files import ReportFile, split
from ldpbeam.transforms.sources.read import read_range
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.split import Split


def measure(folder: Path) -> dict[str, Any]:
    """Files to slices; dead letters; and whole runs."""
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from rich.console import Console

    from ldpbeam.inputs import files as inputs
    from ldpbeam.pipelines.graphs import run as graph
    from ldpbeam.runners import engines

    study, users, few = study_of(2), 1_000_000, 10_000
    reports = 2 * users
    validate, columns = ValidateReports(study).function, wanted_columns(study, None, None)
    for name, count in (("many", users), ("few", few)):
        (folder / name).mkdir()
        for part in sent(study, count):
            write_reports(folder / name, part, "avro")
    paths = [(str(path), path.stat().st_size) for path in sorted((folder / "many").iterdir())]
    ranges = [part for path, size in paths for part in split(ReportFile(path, size, "avro"))]

    def validated(batches: Iterable[Any]) -> list[pa.RecordBatch]:
        return [one for part in batches for one in validate.process(part) if isinstance(one, pa.RecordBatch)]

    def read() -> list[pa.RecordBatch]:
        return validated(decoded for part in ranges for decoded in read_range(part, columns))

    good = read()
    assert sum(part.num_rows for part in good) == reports

    def cut(shards: int) -> tuple[float, float]:
        step = Split(Pieces(None, shards))
        slices = filled(shards, BATCH_REPORTS) / BATCH_REPORTS
        return slices, spent(lambda: outputs(step, good)) / reports

    def whole(name: str, shards: int | None = None) -> float:
        files = inputs.find_input([f"{folder}/{name}/*.avro"], "stop")
        found = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as output, tempfile.TemporaryDirectory() as spill:
                job = batch.BatchJob(study, output, "scale", files, columns, shards=shards)
                engine = engines.Engine(FnApiRunner(), (), here=True, spill=spill)
                pipeline = graph.assemble(job, engine, [])
                run = lambda: graph.run_pipeline(pipeline, Console(quiet=True), True)  # noqa: B023, E731
                found.append(spent(run, runs=1))
        return min(found)

    small = whole("few")
    cut_one, cut_slice = line(cut(8), cut(4096))
    bad: Any = next(read_range(ranges[0], columns))
    bad = bad.replace_schema_metadata({**bad.schema.metadata, b"attribute": b"unknown", b"file": b"f.avro"})
    letters = [one.value for one in validate.process(bad) if isinstance(one, beam.pvalue.TaggedOutput)]
    return {
        "avro": sum(size for _, size in paths) / reports,
        "read": spent(read) / reports,
        "cut": cut_one,
        "cut_slice": cut_slice,
        "whole": (whole("many") - small) / (reports - 2 * few),
        "checked": (whole("many", CHECKED_SHARDS) - small) / 1e6,
        "letter": spent(lambda: list(validate.process(bad))) / bad.num_rows,
        "letter_bytes": sum(one.nbytes for one in letters if isinstance(one, pa.RecordBatch)) / bad.num_rows,
    }
