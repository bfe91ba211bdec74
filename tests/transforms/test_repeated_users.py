"""One user with many reports: what no fold can keep is left out early, and the same report is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.keyed_state import Key, main_and_counts

from ldpbeam.cells import Cells
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.joining import kept as kept_module
from ldpbeam.transforms.joining.kept import PART_REPORTS, Alike, can_be_kept, in_parts
from ldpbeam.transforms.reports.batches import shard_of, tagged
from ldpbeam.transforms.windows import unbounded
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.transforms.windows.unbounded import FoldStream

STEP = 1_000
ALIKE = Alike(steps=Cells(STEP))


def batch(rng: np.random.Generator, rows: int, *, users: int, times: int) -> pa.RecordBatch:
    """Reports of a channel, drawn from so many users and times, and of five payloads."""
    columns: dict[str, Any] = {
        "user": pa.array([b"u%d" % user for user in rng.integers(0, users, rows).tolist()], pa.binary()),
        "event_time": pa.array(rng.integers(0, times, rows)),
        "payload": pa.array(rng.integers(0, 5, rows).astype(np.float64)),
    }
    return tagged(pa.RecordBatch.from_pydict(columns), "x", 0)


def test_reports_of_different_users_are_left_as_they_are() -> None:
    rng = np.random.default_rng(1)
    some = batch(rng, 20_000, users=10**9, times=10)
    assert can_be_kept(some, ALIKE) is some


def test_a_large_partition_is_compared_in_parts_of_whole_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "PART_REPORTS", 10_000)
    rng = np.random.default_rng(1)
    pieces = [batch(rng, 5_000, users=300, times=STEP) for _ in range(12)]
    pieces += [batch(rng, 5_000, users=1, times=STEP) for _ in range(20)]
    rows, users, left_out = [], [], 0
    for part, dropped in in_parts(pieces, ALIKE):
        rows.append(sum(one.num_rows for one in part))
        users.append({user for one in part for user in one.column("user").to_pylist()})
        left_out += dropped
    assert sum(rows) + left_out == 160_000
    assert len(rows) == 17 and max(rows) < 20_000
    assert sum(map(len, users)) == len(set.union(*users)) == 300
    assert PART_REPORTS > 10_000


@pytest.mark.parametrize("last", [True, False], ids=["at the end", "at the start"])
def test_the_parts_of_a_shard_are_of_one_size_though_ids_count_up(
    last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_module, "PART_REPORTS", 1_100)
    ids = pa.array(
        [number.to_bytes(16, "big" if last else "little") for number in range(64_000)], pa.binary()
    )
    shard = ids.filter(pa.array(shard_of(ids, 8) == 3))
    piece = pa.RecordBatch.from_pydict({"user": shard, "event_time": np.arange(len(shard))})
    parts = [sum(one.num_rows for one in part) for part, _ in in_parts([tagged(piece, "x", 0)], ALIKE)]
    assert sum(parts) == len(shard) and len(parts) == 1 + len(shard) // 1_100 == 8
    # A part's size is binomial: five standard deviations.
    assert max(abs(size - len(shard) / len(parts)) for size in parts) < 5 * np.sqrt(len(shard) / len(parts))


STREAM = parse_study(
    """
study: repeated
attributes:
  x: {domain: {numeric: [0, 1]}, services: {app: {mechanism: laplace, epsilon: 1.0}}}
windows: {size: 1s, allowed_lateness: 1s}
"""
)


def streamed(batches: list[pa.RecordBatch]) -> tuple[list[Any], dict[str, int], int]:
    """What a window gives by its expiry, the counts, and the most reports in its state."""
    key = Key(FoldStream(STREAM, 1).function, PieceKey("x", 0, (0, 0)))
    most, given = 0, []
    for one in batches:
        given += key.come(one)
        most = max(most, sum(held.num_rows for held in key._cells["reports"].read()))
    main, counts = main_and_counts(given + key.advance(2 * STEP))
    return main, dict(counts), most


def test_the_state_of_a_stream_grows_with_users_and_not_with_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    batches = [batch(rng, 1_000, users=3, times=STEP) for _ in range(100)]
    expected, counts, most = streamed(batches)
    assert (most, counts) == (100_000, {"used": 3, "duplicates": 99_997})
    monkeypatch.setattr(unbounded, "HELD_REPORTS", 8_000)
    gains, same, most = streamed(batches)
    assert (gains, same) == (expected, counts)
    assert most <= 8_000
