"""Batches cut by window and shard: every report comes to each of its windows once, or is counted late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.transforms.reports.batches import attribute_name, shard_of, tagged, version_index
from ldpbeam.transforms.windows import cut as stage
from ldpbeam.transforms.windows import split as split_stage
from ldpbeam.transforms.windows.cut import Pieces, Runs, each_window, together, windows_in
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.transforms.windows.split import Split
from ldpbeam.windows import EVERYTHING, FUTURE, Bounds, Span, Windows

YEAR_2020 = 1_577_836_800_000


def windows(size: int, period: int | None = None, lateness: int = 0) -> Windows:
    """Windows of so many milliseconds."""
    return Windows(size, period or size, lateness, max_age=2**61)


def brute_windows(model: Windows, time: int) -> list[tuple[int, int]]:
    """The windows [k period, k period + size) that a time lies in, the last first."""
    period = model.period
    starts = [k * period for k in range((time - model.size) // period - 2, time // period + 3)]
    return [(start, start + model.size) for start in reversed(starts) if start <= time < start + model.size]


@st.composite
def models(draw: st.DrawFn) -> Windows:
    size = draw(st.integers(1, 30))
    period = draw(st.none() | st.integers(1, size))
    return windows(size, period, draw(st.sampled_from([0, 1, 7, 25])))


RUNS = {"each window": each_window, "together": together}


class Sent(NamedTuple):
    user: bytes
    time: int
    version: int = 0
    report_id: bytes | None = None
    attribute: str = "minutes"


def batch_of(some: Sequence[Sent], watermark: int | None = None) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        "user": pa.array([s.user for s in some], pa.binary()),
        "event_time": pa.array([s.time for s in some], pa.int64()),
        "payload": pa.array([float(s.time) for s in some]),
    }
    if any(s.report_id for s in some):
        columns["report_id"] = pa.array([s.report_id for s in some], pa.binary())
    (attribute,), (version,) = {s.attribute for s in some}, {s.version for s in some}
    batch = tagged(pa.RecordBatch.from_pydict(columns), attribute, version)
    if watermark is None:
        return batch
    return batch.replace_schema_metadata({**batch.schema.metadata, stage.WATERMARK: str(watermark).encode()})


class Piece(NamedTuple):
    key: PieceKey
    batch: pa.RecordBatch
    time: int


def streamed(model: Windows, shards: int) -> Split:
    """As a stream cuts."""
    return Split(Pieces(model, shards, each_window), clock=True)


def split(
    function: Split, batches: Sequence[pa.RecordBatch]
) -> tuple[list[Piece], list[Piece], Counter[str]]:
    """What one bundle hands on while it goes, what at its end, and its counts."""
    early, counts = [], Counter[str]()
    function.start_bundle()
    for batch in batches:
        for one in function.process(batch):
            if hasattr(one, "tag"):
                counts[one.value[0]] += one.value[1]
            else:
                early.append(Piece(*one.value, one.timestamp.micros // 1000))
    last = list(function.finish_bundle())
    assert all(piece.windows == [GlobalWindow()] for piece in last), "no engine may drop anything"
    return early, [Piece(*piece.value, piece.timestamp.micros // 1000) for piece in last], counts


def rows(piece: Piece) -> list[Sent]:
    batch = piece.batch
    ids = batch.column("report_id").to_pylist() if "report_id" in batch.schema.names else [None] * len(batch)
    columns = (batch.column("user").to_pylist(), batch.column("event_time").to_pylist(), ids)
    return [
        Sent(user, time, version_index(batch), report_id, attribute_name(batch))
        for user, time, report_id in zip(*columns, strict=True)
    ]


USERS = st.sampled_from([b"u1", b"u2", b"a longer user", bytes(16)])
REPORTS = st.lists(
    st.tuples(USERS, st.integers(-40, 40)).map(lambda own: Sent(*own)), min_size=1, max_size=20
)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(models(), st.lists(st.tuples(REPORTS, st.none() | st.integers(-60, 80)), min_size=1, max_size=3))
def test_a_report_goes_to_each_window_that_is_open_or_is_counted_late(
    model: Windows, bundle: list[tuple[list[Sent], int | None]]
) -> None:
    expected: Counter[tuple[str, Sent]] = Counter()
    counted: Counter[str] = Counter()
    for some, watermark in bundle:
        for report in some:
            (part,) = shard_of(pa.array([report.user], pa.binary()), 3)
            bounds = brute_windows(model, report.time)
            still = [
                own for own in bounds if watermark is None or own[1] + model.allowed_lateness > watermark
            ]
            expected.update((PieceKey("minutes", part, (start, start)), report) for start, _ in still)
            counted["late"] += not still
            if model.slides:
                counted["late_in_windows"] += len(bounds) - len(still)
    batches = [batch_of(some, watermark) for some, watermark in bundle]
    early, last, counts = split(streamed(model, 3), batches)
    assert not early
    assert Counter((piece.key, row) for piece in last for row in rows(piece)) == expected
    assert counts == +counted
    assert all(stage.WATERMARK not in piece.batch.schema.metadata for piece in last)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(models(), st.lists(st.tuples(REPORTS, st.none() | st.integers(-60, 80)), min_size=1, max_size=3))
def test_a_piece_holds_the_watermark_at_its_earliest_report_or_where_none_of_its_reports_was_late(
    model: Windows, bundle: list[tuple[list[Sent], int | None]]
) -> None:
    _, last, _ = split(streamed(model, 2), [batch_of(*each) for each in bundle])
    watermarks = [-(2**62) if watermark is None else watermark for _, watermark in bundle]
    for piece in last:
        assert piece.time == max(min(watermarks), min(row.time for row in rows(piece)))
        # Its window expires after that.
        (window,) = windows_in(model, piece.key.run)
        assert piece.time < window[1] + model.allowed_lateness


def test_reports_from_a_day_ahead_of_the_clock_are_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    # Their windows would stay open until then. What is both late and from the future is out of range.
    monkeypatch.setattr(split_stage, "time", SimpleNamespace(time_ns=lambda: YEAR_2020 * 1_000_000 + 999_999))
    function, day = streamed(windows(10, 5), 1), FUTURE
    times = [YEAR_2020, YEAR_2020 + day - 1, YEAR_2020 + day, YEAR_2020 + 9 * day]
    reports = [Sent(b"u%d" % place, time) for place, time in enumerate(times)]
    _, last, counts = split(function, [batch_of(reports), batch_of(reports[2:], 2**45)])
    assert {row.user for piece in last for row in rows(piece)} == {b"u0", b"u1"}
    assert counts == {"out_of_range": 4}


def test_batches_of_a_bundle_are_gathered_where_channel_and_columns_are_the_same() -> None:
    function = streamed(windows(10), 1)
    plain = [batch_of([Sent(b"u%d" % n, 1)], watermark=n) for n in range(4)]
    others = [
        batch_of([Sent(b"u5", 2, version=1)], 0),
        batch_of([Sent(b"u6", 3, report_id=b"r")], 1),
        batch_of([Sent(b"u7", 4, attribute="price")], 2),
        batch_of([Sent(b"u8", 15)], 3),
    ]
    _, last, _ = split(function, [*plain, *others])
    assert [(piece.key, piece.batch.num_rows) for piece in last] == [
        (PieceKey("minutes", 0, (0, 0)), 4),
        (PieceKey("minutes", 0, (0, 0)), 1),
        (PieceKey("minutes", 0, (0, 0)), 1),
        (PieceKey("price", 0, (0, 0)), 1),
        (PieceKey("minutes", 0, (10, 10)), 1),
    ]
    assert [version_index(piece.batch) for piece in last] == [0, 1, 0, 0, 0]
    assert split(function, []) == ([], [], {}), "nothing is left for the next bundle"


def test_a_bundle_hands_on_its_pieces_when_it_has_gathered_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_stage, "GATHERED_REPORTS", 10)
    function = streamed(windows(10, 5), 1)
    # Three reports a batch, each in two windows: six are gathered of a batch, so two batches reach ten.
    batches = [batch_of([Sent(b"u%d" % (3 * n + k), k) for k in range(3)]) for n in range(5)]
    early, last, _ = split(function, batches)
    assert [piece.batch.num_rows for piece in early] == [6] * 4
    assert [piece.batch.num_rows for piece in last] == [3] * 2
    users = Counter(row.user for piece in early + last for row in rows(piece))
    assert users == Counter({b"u%d" % n: 2 for n in range(15)})


SPANS = st.just(EVERYTHING) | st.tuples(st.integers(-40, 0), st.integers(1, 40)).map(lambda own: Span(*own))


def windowed(runs: Runs, model: Windows, span: Span, piece: Piece) -> list[tuple[Bounds, Sent]]:
    """The windows inside the span to which the rows of a piece come."""
    assert piece.key.run is not None
    windows = [window for window in windows_in(model, piece.key.run) if span.holds(window)]
    inside = [(w, row) for row in rows(piece) for w in windows if w[0] <= row.time < w[1]]
    if runs is together:
        assert len(inside) == len(windows) * piece.batch.num_rows, "all of a piece lies in all of its windows"
    return inside


@pytest.mark.parametrize("name", RUNS)
@settings(max_examples=100, derandomize=True, deadline=None)
@given(models(), st.lists(REPORTS, min_size=1, max_size=3), SPANS)
def test_a_report_comes_to_each_of_its_windows_inside_the_span_once(
    name: str, model: Windows, bundle: list[list[Sent]], span: Span
) -> None:
    function = Split(Pieces(model, 3, RUNS[name], span=span))
    _, last, counts = split(function, [batch_of(some) for some in bundle])
    expected = Counter(
        (window, report)
        for some in bundle
        for report in some
        for window in brute_windows(model, report.time)
        if span.holds(window)
    )
    assert Counter(pair for piece in last for pair in windowed(RUNS[name], model, span, piece)) == expected
    assert counts == {}
    for piece in last:
        assert set(shard_of(piece.batch.column("user"), 3)) == {piece.key.shard}


def test_by_shard_alone_there_is_no_run_and_event_times_may_be_anything() -> None:
    reports = [Sent(b"u1", -(2**63)), Sent(b"u2", 2**63 - 1)]
    _, (piece,), _ = split(Split(Pieces(None, 1)), [batch_of(reports)])
    assert piece.key == PieceKey("minutes", 0, None)
    assert (rows(piece), piece.time) == (reports, 0)


def test_the_key_can_be_another_column() -> None:
    reports = [Sent(b"u1", 0, report_id=b"r%d" % place) for place in range(50)]
    _, last, _ = split(Split(Pieces(None, 8, column="report_id")), [batch_of(reports)])
    assert len(last) > 1
    for piece in last:
        assert set(shard_of(piece.batch.column("report_id"), 8)) == {piece.key.shard}


def test_windows_that_overlap_sixty_times_are_the_most() -> None:
    stage.check_overlap(None)
    stage.check_overlap(windows(3600, 60))
    with pytest.raises(ValueError, match=r"windows\.size is 61 times windows\.period") as caught:
        stage.check_overlap(windows(3660, 60))
    assert "60 is the most: raise period or lower size" in str(caught.value)
