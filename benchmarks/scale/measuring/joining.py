"""A partition's reports joined and tallied; those with one report id left out."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.scale.measuring.meter import line, spent
from benchmarks.scale.measuring.reports import channel_batches, joined
from benchmarks.scale.setting import shard_reports, study_of
from ldpbeam.transforms.joining.report_ids import without_duplicate_ids
from ldpbeam.transforms.reports.emitted import BatchCoder
from ldpbeam.transforms.windows.fold import Fold
from ldpbeam.transforms.windows.piece_keys import PieceKey


def measure(folder: Path) -> dict[str, Any]:
    """A partition's reports joined and tallied; those with one report id left out."""
    study, reports = study_of(2), shard_reports(32)

    def cost(work: Callable[[Any], Any], rows: int, ids: bool = False) -> tuple[float, float]:
        batches = channel_batches(study, reports, rows, ids)
        return len(batches) / reports, spent(lambda: work(batches)) / reports

    def join_them(batches: Sequence[pa.RecordBatch]) -> None:
        joined(study, batches)

    def by_hours() -> float:
        hours, key = study_of(2, window="1h"), PieceKey("minutes", 0, None)
        batches = channel_batches(hours, reports, 16_384)
        return spent(lambda: sum(one.used for _, one in Fold(hours).fold(key, batches)))

    def first(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return without_duplicate_ids(study.attribute("minutes"), batches)[0]

    join_one, join_piece = line(cost(join_them, 16_384), cost(join_them, 128))
    first_one, first_piece = line(cost(first, 16_384, True), cost(first, 128, True))
    join_each = spent(lambda: join_them(channel_batches(study, 100, 50)))
    small = channel_batches(study, reports, 128, ids=True)
    pieces = [BatchCoder().encode(part) for part in channel_batches(study, reports, 206)]
    (folder / "partition").write_bytes(pickle.dumps(pieces))
    return {
        "join": join_one,
        "join_piece": join_piece,
        "join_each": join_each,
        "join_hours": (by_hours() - 24 * join_each) / reports,
        "first": first_one,
        "first_piece": first_piece,
        "batches_after_first": len(first(small)) / len(small),
    }
