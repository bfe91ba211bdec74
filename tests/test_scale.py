"""What the tables on scale say follows from its constants, and its formulas from the code they are of."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.load_tests import dataflow_cost_consts as published

from benchmarks.scale import prices
from benchmarks.scale.computing.batch_run import batch_run
from benchmarks.scale.computing.costs import WORKER_GB
from benchmarks.scale.computing.limits import limits
from benchmarks.scale.measured import measured_in
from benchmarks.scale.measuring.meter import outputs
from benchmarks.scale.measuring.reports import channel_batches, sent
from benchmarks.scale.measuring.shuffle import KEY, shuffled
from benchmarks.scale.setting import filled, study_of
from benchmarks.scale.tables import tables
from ldpbeam.pipelines.graphs import batch
from ldpbeam.pipelines.simulated.report_files import write_reports
from ldpbeam.transforms.reports.batch_coder import BatchCoder
from ldpbeam.transforms.reports.validate import ValidateReports
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.sources.files import ReportFile, split
from ldpbeam.transforms.sources.read import read_range
from ldpbeam.transforms.windows.coders import KeyCoder
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.transforms.windows.split import Split

FOLDER = Path(__file__).parents[1] / "docs" / "measured"
MEASURED = measured_in((FOLDER / "scale.json").read_text(encoding="utf-8"))


def test_the_tables_are_computed() -> None:
    again = "python -m benchmarks.scale --measured docs/measured/scale.json --write docs/measured"
    for table in tables(MEASURED):
        kept = (FOLDER / f"{table.name}.csv").read_text(encoding="utf-8")
        assert table.text() == kept, f"formulas have changed; make the tables again: {again}"


def test_prices_are_those_that_beam_publishes() -> None:
    assert (prices.VCPU_HOUR_BATCH, prices.VCPU_HOUR_STREAMING) == (
        published.VCPU_PER_HR_BATCH,
        published.VCPU_PER_HR_STREAMING,
    )
    assert (prices.GB_HOUR_BATCH, prices.GB_HOUR_STREAMING) == (
        published.MEM_PER_GB_HR_BATCH,
        published.MEM_PER_GB_HR_STREAMING,
    )
    assert (prices.SHUFFLED_GB, prices.STREAMED_GB) == (
        published.SHUFFLE_PER_GB_BATCH,
        published.SHUFFLE_PER_GB_STREAMING,
    )


@pytest.mark.parametrize("shards", [50, 3000])
def test_as_many_pieces_are_foretold_as_are_cut(shards: int) -> None:
    one_service = channel_batches(study_of(2), 20_000, 10_000)[:1]
    cut = outputs(Split(Pieces(None, shards)), one_service)
    # The empty ones are about a Poisson number where they are few, and less spread else.
    spread = math.sqrt(shards * math.exp(-10_000 / shards))
    assert len(cut) == pytest.approx(filled(shards, 10_000), abs=5 * spread)


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("rows", [30, 700])
def test_pieces_are_as_large_as_was_measured(ids: bool, rows: int) -> None:
    coder = beam.coders.TupleCoder([KeyCoder(PieceKey), BatchCoder()])
    piece = channel_batches(study_of(2), 4096, rows, ids)[0]
    told = rows * (MEASURED.bytes_ids if ids else MEASURED.bytes_plain) + MEASURED.bytes_piece
    # Many reports are compressed a little better than few, and a column more has a longer schema.
    assert len(coder.encode((PieceKey("minutes", 1234, None), piece))) == pytest.approx(
        told, rel=0.05, abs=250 * ids
    )


def test_pieces_have_the_key_of_pieces() -> None:
    shuffled([(KEY, piece) for piece in channel_batches(study_of(2), 40, 10)])


def test_the_measured_reports_are_valid(tmp_path: Path) -> None:
    study = study_of(2)
    for part in sent(study, 100):
        write_reports(tmp_path, part, "avro")
    columns, validate = wanted_columns(study, None, None), ValidateReports(study).function
    files = [ReportFile(str(path), path.stat().st_size, "avro") for path in tmp_path.iterdir()]
    batches = [batch for file in files for part in split(file) for batch in read_range(part, columns)]
    valid = [reports for batch in batches for reports in validate.process(batch)]
    assert sum(reports.num_rows for reports in valid if isinstance(reports, pa.RecordBatch)) == 200


def test_shards_grow_with_the_input_until_there_are_no_more() -> None:
    runs = [batch_run(MEASURED, users) for users in (1e6, 1e9, 1e10, 1e11)]
    assert [run.shards for run in runs] == [
        batch.FEWEST_SHARDS,
        math.ceil(2e9 * MEASURED.avro / batch.SHARD_BYTES),
        batch.MOST_SHARDS,
        batch.MOST_SHARDS,
    ]
    assert runs[3].memory == pytest.approx(10 * runs[2].memory)
    assert runs[3].rows == pytest.approx(runs[2].rows)
    assert runs[3].core_hours == pytest.approx(10 * runs[2].core_hours, rel=0.02)


def test_limits_of_memory_are_where_a_worker_is_full() -> None:
    room = WORKER_GB * 1e9 - MEASURED.process
    met = {where: users for users, where, _ in limits(MEASURED)}
    assert batch_run(MEASURED, met["batch, one window"]).memory == pytest.approx(room, rel=1e-3)
    assert list(met.values()) == sorted(met.values())
    frugal = replace(MEASURED, merge_memory=0.1)
    assert not any("bundle of its own" in where for _, where, _ in limits(frugal))
    lavish = replace(MEASURED, merge_memory=10.0)
    assert any("bundle of its own" in where for _, where, _ in limits(lavish))


def test_slots_fill_as_rows_fall() -> None:
    rng = np.random.default_rng(0)
    seen = [len(np.unique(rng.integers(0, 500, 700))) for _ in range(400)]
    error = np.std(seen) / math.sqrt(len(seen))
    assert np.mean(seen) == pytest.approx(filled(500, 700), abs=5 * error)
    assert filled(1, 700) == 1
