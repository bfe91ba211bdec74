"""Files to slices, and dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa

from benchmarks.scale.measuring.meter import line, outputs, spent
from benchmarks.scale.measuring.reports import sent
from benchmarks.scale.setting import filled, study_of
from ldpbeam.pipelines.simulated.report_files import write_reports
from ldpbeam.schemas.encodings.avro import BATCH_REPORTS
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.files import ReportFile, split
from ldpbeam.transforms.sources.read import read_range
from ldpbeam.transforms.statistics import ValidateReports
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.split import Split


def measure(folder: Path) -> dict[str, Any]:
    """Files to slices, and dead letters."""
    study, users = study_of(2), 1_000_000
    reports = 2 * users
    validate, columns = ValidateReports(study).function, wanted_columns(study, None, None)
    (folder / "reports").mkdir()
    for part in sent(study, users):
        write_reports(folder / "reports", part, "avro")
    paths = [(str(path), path.stat().st_size) for path in sorted((folder / "reports").iterdir())]
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

    cut_one, cut_slice = line(cut(8), cut(4096))
    bad: Any = next(read_range(ranges[0], columns))
    bad = bad.replace_schema_metadata({**bad.schema.metadata, b"attribute": b"unknown", b"file": b"f.avro"})
    letters = [one.value for one in validate.process(bad) if isinstance(one, beam.pvalue.TaggedOutput)]
    return {
        "avro": sum(size for _, size in paths) / reports,
        "read": spent(read) / reports,
        "cut": cut_one,
        "cut_slice": cut_slice,
        "letter": spent(lambda: list(validate.process(bad))) / bad.num_rows,
        "letter_bytes": sum(one.nbytes for one in letters if isinstance(one, pa.RecordBatch)) / bad.num_rows,
    }
