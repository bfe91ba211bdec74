"""Pieces through an engine, and their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa

from benchmarks.scale.measuring.meter import line, spent
from benchmarks.scale.measuring.reports import channel_batches
from benchmarks.scale.setting import study_of
from ldpbeam.transforms.reports.emitted import BatchCoder
from ldpbeam.transforms.windows.coders import KeyCoder
from ldpbeam.transforms.windows.piece_keys import PieceKey

#: The key of all pieces.
KEY = PieceKey("minutes", 1234, None)
#: What :func:`shuffled` shuffles: here, as an engine pickles functions with what they hold.
_pieces: list[tuple[PieceKey, pa.RecordBatch]] = []


def _hand_on(_: None) -> list[tuple[PieceKey, pa.RecordBatch]]:
    return _pieces


def _number(element: tuple[PieceKey, Iterable[pa.RecordBatch]]) -> int:
    return len(list(element[1]))


def shuffled(pieces: list[tuple[PieceKey, pa.RecordBatch]]) -> None:
    """Pieces brought together by key, by the shuffle of Beam's engine in this process."""
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    global _pieces
    _pieces = pieces
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        one = pipeline | beam.Create([None], reshuffle=False)
        handed = one | beam.FlatMap(_hand_on).with_output_types(tuple[PieceKey, pa.RecordBatch])
        _ = handed | beam.GroupByKey() | beam.Map(_number)


def measure(_folder: Path) -> dict[str, Any]:
    """Pieces through an engine, and their bytes."""
    study = study_of(2)
    coder = beam.coders.TupleCoder([KeyCoder(PieceKey), BatchCoder()])

    def through(reports: int, rows: int) -> tuple[float, float]:
        parts = [(KEY, part) for part in channel_batches(study, reports, rows)]
        idle = spent(lambda: shuffled([]))
        return len(parts) / reports, (spent(lambda: shuffled(parts)) - idle) / reports

    def size(rows: int, ids: bool) -> tuple[float, float]:
        parts = channel_batches(study, 4096, rows, ids)
        return 1 / rows, sum(len(coder.encode((KEY, part))) for part in parts) / 4096

    shuffle, shuffle_piece = line(through(1_000_000, 4096), through(200_000, 16))
    plain, piece = line(size(2048, False), size(16, False))
    with_ids, _ = line(size(2048, True), size(16, True))
    return {
        "shuffle": shuffle,
        "shuffle_piece": shuffle_piece,
        "bytes_plain": plain,
        "bytes_ids": with_ids,
        "bytes_piece": piece,
    }
