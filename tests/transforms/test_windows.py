"""A batch that is split by window step and windowed as a whole is windowed as its reports would be."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that
from apache_beam.transforms import window

from ldpbeam.runners import direct
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.partitions import partition
from ldpbeam.transforms.windows import cut as stage
from ldpbeam.windows import Windows

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOVEMBER = 1_795_168_800_000  # 2026-11-20T10:00:00Z


def windows(size: int, period: int | None = None) -> Windows:
    return Windows(size, period or size)


def batch_of(times: list[int], version: int = 0, first: int = 0, **columns: list[Any]) -> pa.RecordBatch:
    users = [f"u{first + i}".encode() for i in range(len(times))]
    data: dict[str, Any] = {
        "user": pa.array(users, pa.binary()),
        "event_time": pa.array(times, pa.int64()),
        "payload": pa.array(np.zeros(len(times))),
    }
    for name, values in columns.items():
        data[name] = pa.array(values, pa.binary())
    return tagged(pa.RecordBatch.from_pydict(data), "minutes", version)


def windows_of(time: int, model: Windows | None) -> list[tuple[int, int] | None]:
    """The windows of one report: those [k period, k period + size) that its time lies in."""
    if model is None:
        return [None]
    period = model.period
    last = time // period
    starts = [k * period for k in range(last - model.size // period - 1, last + 1)]
    return [(start, start + model.size) for start in starts if start <= time < start + model.size]


class Spread(beam.DoFn):
    """(window, user, time) of each report of a windowed batch."""

    def process(self, element: tuple[str, pa.RecordBatch], bounds: Any = beam.DoFn.WindowParam) -> Any:
        _, batch = element
        rows = zip(batch.column("user").to_pylist(), batch.column("event_time").to_pylist(), strict=True)
        for user, time in rows:
            yield stage.window_bounds(bounds), user, time


MODELS = [
    None,
    windows(HOUR),
    windows(7 * SECOND),
    windows(2 * HOUR, 30 * MINUTE),
    windows(90 * MINUTE, 60 * MINUTE),
    windows(250, 100),
    windows(1001),
    windows(4009, 2003),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{m.size},{m.period}" if m else "none")
def test_windowing_a_batch_is_windowing_its_reports(model: Windows | None) -> None:
    rng = random.Random(3)
    step = model.size if model else HOUR
    edges = [base + k * step + d for base in (0, NOVEMBER) for k in (-2, 0, 1) for d in (-1, 0, 1)]
    times = edges + [rng.randrange(-3 * step, 3 * step) for _ in range(60)]
    times += [NOVEMBER + rng.randrange(-3 * step, 3 * step) for _ in range(60)]
    rng.shuffle(times)
    batches = [batch_of(times[at : at + 20], first=at) for at in range(0, len(times), 20)]
    expected = Counter(
        (bounds, f"u{place}".encode(), time)
        for place, time in enumerate(times)
        for bounds in windows_of(time, model)
    )

    def same(found: list[Any]) -> None:
        assert Counter(found) == expected

    with test_pipeline.TestPipeline(runner=direct.runner()) as pipeline:
        spread = (
            pipeline
            | beam.Create(batches)
            | beam.ParDo(stage.SplitByStepAndKey(model, "user", 3))
            | beam.WindowInto(stage.beam_windows(model))
            | beam.ParDo(Spread())
        )
        assert_that(spread, same, reify_windows=False)


def pieces_of(
    function: stage.SplitByStepAndKey, batches: list[pa.RecordBatch]
) -> tuple[list[Any], list[Any]]:
    """What one bundle hands on while it goes, and what at its end; (key, batch, time) each."""
    function.start_bundle()
    early = [piece for batch in batches for piece in function.process(batch)]
    late = list(function.finish_bundle())
    return (
        [(*piece.value, piece.timestamp.micros // 1000) for piece in early],
        [(*piece.value, piece.timestamp.micros // 1000) for piece in late],
    )


def test_pieces_are_gathered_until_the_bundle_ends() -> None:
    batches = [batch_of([k * HOUR + at for k in range(4)], first=4 * at) for at in range(10)]
    early, late = pieces_of(stage.SplitByStepAndKey(windows(HOUR), "user", 1), batches)
    assert early == []
    assert [(key, at, piece.num_rows) for key, piece, at in late] == [
        ("minutes/0", k * HOUR, 10) for k in range(4)
    ]


def test_a_bundle_hands_on_its_pieces_when_it_has_gathered_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "GATHERED_REPORTS", 10)
    batches = [batch_of([0, 1, HOUR, HOUR + 1], first=4 * at) for at in range(7)]
    function = stage.SplitByStepAndKey(windows(HOUR), "user", 1)
    early, late = pieces_of(function, batches)
    # Twelve reports are the first multiple of a batch of four that reaches ten: twice, then four are left.
    assert [piece.num_rows for _, piece, _ in early] == [6, 6, 6, 6]
    assert [piece.num_rows for _, piece, _ in late] == [2, 2]
    users = [user for _, piece, _ in early + late for user in piece.column("user").to_pylist()]
    assert Counter(users) == Counter(f"u{i}".encode() for i in range(28))
    assert pieces_of(function, []) == ([], []), "nothing is left for the next bundle"


def test_a_piece_holds_one_step_one_partition_and_one_channel() -> None:
    rng = np.random.default_rng(0)
    batches = [
        batch_of(rng.integers(-5 * HOUR, 5 * HOUR, 200).tolist(), version, first=200 * version)
        for version in (0, 1)
    ]
    _, late = pieces_of(stage.SplitByStepAndKey(windows(2 * HOUR, 30 * MINUTE), "user", 4), batches)
    seen = 0
    for key, piece, at in late:
        assert set(np.asarray(piece.column("event_time")) // (HOUR // 2)) == {at // (HOUR // 2)}
        attribute, _, code = key.rpartition("/")
        assert attribute == "minutes"
        assert set(partition(piece.column("user"), 4)) == {int(code)}
        numbers = [int(user[1:]) // 200 for user in piece.column("user").to_pylist()]
        assert set(numbers) == {int(piece.schema.metadata[b"version"])}
        seen += piece.num_rows
    assert seen == 400


def test_batches_of_different_columns_are_not_gathered_into_one() -> None:
    plain, named = batch_of([0, 1]), batch_of([2, 3], first=2, report_id=[b"r1", b"r2"])
    _, late = pieces_of(stage.SplitByStepAndKey(None, "user", 1), [plain, named])
    assert sorted(piece.schema.names for _, piece, _ in late) == sorted(
        [["user", "event_time", "payload"], ["user", "event_time", "payload", "report_id"]]
    )


def test_the_key_can_be_another_column() -> None:
    ids = [f"r{i}".encode() for i in range(50)]
    batch = batch_of([0] * 50, report_id=ids)
    _, late = pieces_of(stage.SplitByStepAndKey(None, "report_id", 8), [batch])
    assert len(late) > 1
    for key, piece, _ in late:
        assert {f"minutes/{code}" for code in partition(piece.column("report_id"), 8)} == {key}


def test_windows_that_overlap_sixty_times_are_the_most() -> None:
    assert isinstance(stage.beam_windows(windows(HOUR, MINUTE)), window.SlidingWindows)
    with pytest.raises(ValueError, match=r"windows\.size is 61 times windows\.period") as caught:
        stage.beam_windows(windows(61 * MINUTE, MINUTE))
    assert "60 is the most: raise period or lower size" in str(caught.value)


def test_bounds_are_milliseconds_and_the_global_window_has_none() -> None:
    assert stage.window_bounds(window.GlobalWindow()) is None
    assert stage.window_bounds(window.IntervalWindow(-3.5, 7200)) == (-3500, 7_200_000)
