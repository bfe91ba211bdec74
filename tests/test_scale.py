"""What the tables on scale say follows from its constants, and its formulas from the code they are of."""

from __future__ import annotations

import math
from pathlib import Path

import apache_beam as beam
import pytest

from benchmarks.scale.measured import measured_in
from benchmarks.scale.measuring.meter import outputs
from benchmarks.scale.measuring.reports import channel_batches
from benchmarks.scale.setting import filled, study_of
from benchmarks.scale.tables import tables
from ldpbeam.transforms.reports.emitted import BatchCoder
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
