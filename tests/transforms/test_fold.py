"""A partition of a window keeps its reports, and hands on what its statistics gained and lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.transforms.userstate import get_dofn_specs, is_stateful_dofn
from hypothesis import given, settings
from hypothesis import strategies as st
from support.keyed_state import Key, main_and_counts
from support.pane_reports import NOT_TO_JOIN, Report, batches_of, study_of, study_text, times_of

from ldpbeam.cells import Cells
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import empty
from ldpbeam.study import Study
from ldpbeam.transforms.windows import groups
from ldpbeam.transforms.windows.cut import Pieces
from ldpbeam.transforms.windows.fold import Fold, Folded, lone_in_steps
from ldpbeam.transforms.windows.groups import GroupStatistics, added_up
from ldpbeam.transforms.windows.panes import _Window
from ldpbeam.transforms.windows.piece_keys import PieceKey
from ldpbeam.transforms.windows.split import Split
from ldpbeam.transforms.windows.unbounded import FoldStream, FoldWindow
from ldpbeam.windows import EVERYTHING, REMEMBERED_WINDOWS, Span

#: All in one window of ten seconds: two services, some users twice, some report ids twice.
WINDOW = (0, 10_000)
PAYLOADS = (0.1, 0.5, 0.9)
SECONDS = st.sampled_from([0, 1000, 5000, 5001, 9999])
SOME = st.lists(
    st.builds(
        Report, user=st.sampled_from(["ann", "bob", "cho", "dee"]), time=SECONDS, version=st.integers(0, 1),
        payload=st.sampled_from(PAYLOADS), report_id=st.none() | st.sampled_from(["r1", "r2", "r3"]),
        group=st.none() | st.sampled_from(["north", "south"]),
    ),
    min_size=1,
    max_size=16,
)  # fmt: skip
KINDS = (
    "two services joined", "groups, two at most", "sliding windows", "repeats count", "two repeats count",
    "duplicates are kept",
)  # fmt: skip


def fold_window(study: Study, batches: Sequence[pa.RecordBatch], window: tuple[int, int] = WINDOW) -> Folded:
    """What a stream makes of all reports of a window."""
    fold = Fold(study, report_ids=study.duplicates == "drop")
    return fold.fold_window(study.attribute("x"), batches, window)


STARTS = st.integers(-4, 8).map(lambda place: 4000 * place)
SLIDING_SPANS = st.just(EVERYTHING) | st.tuples(STARTS, st.integers(0, 6)).map(
    lambda own: Span(own[0], own[0] + 10_000 + 4000 * own[1])
)
SPREAD = st.lists(
    st.builds(
        Report, user=st.sampled_from(["ann", "bob", "cho", "dee"]), time=st.integers(-15_000, 30_000),
        version=st.integers(0, 1), payload=st.sampled_from(PAYLOADS),
        group=st.none() | st.sampled_from(["north", "south"]),
    ),
    min_size=1,
    max_size=20,
)  # fmt: skip


@pytest.mark.parametrize(
    ("windows", "alone"),
    [("size: 10s, period: 4s", False), ("size: 10s, period: 4s", True), ("size: 10s", False)],
    ids=["sliding", "sliding, not joined", "apart"],
)
@settings(max_examples=80, derandomize=True, deadline=None)
@given(SPREAD, SLIDING_SPANS)
def test_windows_are_folded_together_as_each_by_itself(
    windows: str, alone: bool, reports: list[Report], span: Span
) -> None:
    more = "groups: {field: region, at_most: 2}\n" + ("duplicates: keep" if alone else "")
    study = parse_study(study_text(estimates=NOT_TO_JOIN, windows=windows, more=more))
    assert study.windows is not None
    fold, split = (Fold(study, span), Split(Pieces(study.windows if alone else None, 1, span=span)))
    split.start_bundle()
    for batch in batches_of(*reports):
        assert not list(split.process(batch))
    pieces: dict[PieceKey, list[pa.RecordBatch]] = defaultdict(list)
    for key, piece in (element.value for element in split.finish_bundle()):
        pieces[key].append(piece)
    found: dict[Any, list[Folded]] = defaultdict(list)
    for key, own in pieces.items():
        for window, part in fold.fold(key, own):
            found[window].append(part)
    inside: dict[Any, list[Report]] = defaultdict(list)
    for report in reports:
        for window in filter(span.holds, study.windows.windows_of(report.time)):
            inside[window].append(report)
    x = study.attribute("x")
    expected = {window: fold.fold_window(x, batches_of(*own), window) for window, own in inside.items()}
    assert {window: added_up([part.statistics for part in parts]) for window, parts in found.items()} == {
        window: own.statistics for window, own in expected.items()
    }
    for place in ("used", "duplicates", "in_window"):
        for window, own in expected.items():
            assert sum(getattr(part, place) for part in found[window]) == getattr(own, place)
    # A report that lies in any window of the span is counted once.
    counted = [report for report in reports if any(map(span.holds, study.windows.windows_of(report.time)))]
    assert sum(own.used + own.duplicates for own in expected.values()) == len(counted)


def test_reports_are_alone_in_a_step_whatever_their_channels_and_batches() -> None:
    def report(time: int, version: int) -> Report:
        return Report("ann", time, version, 0.5)

    seconds, batches = Cells(1000), batches_of(report(0, 0), report(500, 1), report(1000, 1), report(3000, 0))
    lone, others = lone_in_steps(seconds, [*batches, *batches_of(report(3001, 0), report(9000, 1))])
    assert sorted(time for batch in lone for time in times_of(batch)) == [1000, 9000]
    assert sorted(time for batch in others for time in times_of(batch)) == [0, 500, 3000, 3001]
    # Where steps are few, looking takes longer than it saves.
    many = batches_of(*[report(time, 0) for time in range(200)], report(1000, 0))
    assert lone_in_steps(seconds, many) == ([], many)


def folded(study: Study, *reports: Report) -> GroupStatistics:
    """The statistics of some reports of the window."""
    return fold_window(study, batches_of(*reports)).statistics if reports else GroupStatistics()


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(SOME | st.just([]), min_size=2, max_size=4))
def test_gains_add_up_to_what_is_there(name: str, states: list[list[Report]]) -> None:
    study = study_of(name)
    before = GroupStatistics()
    gained = []
    for reports in states:
        after = folded(study, *reports)
        gained.append(groups.gains(study, after, before))
        total = added_up(gained)
        assert {key: own for key, own in total.items() if own.reports} == after
        assert all(own == empty(study.attribute("x")) for key, own in total.items() if key not in after)
        assert groups.gains(study, after, after) == {}
        before = after


class Driven:
    """A partition of users in the window, driven by hand; the window waits twenty seconds."""

    def __init__(self) -> None:
        self.study = parse_study(study_text())
        self.key = Key(FoldStream(self.study, 1).function, PieceKey("x", 0, (0, 0)))

    def come(self, *reports: Report) -> tuple[int, dict[str, int]]:
        """Reports come together: by how many its statistics grew, and the counts."""
        return self._heard([one for batch in batches_of(*reports) for one in self.key.come(batch)])

    def advance(self, watermark: int) -> tuple[int, dict[str, int]]:
        """The watermark moves on; likewise."""
        return self._heard(self.key.advance(watermark))

    def _heard(self, given: list[Any]) -> tuple[int, dict[str, int]]:
        gains, counts = main_and_counts(given)
        return sum(own.reports for _, gained in gains for own in gained.values()), dict(counts)


ANN, BOB, CHO = (Report(user, 1000 * at, report_id=user) for at, user in enumerate(["ann", "bob", "cho"], 2))
NOTHING: tuple[int, dict[str, int]] = (0, {})


def test_nothing_is_said_before_the_windows_end_and_then_all() -> None:
    key = Driven()
    assert key.come(ANN, BOB) == key.come(CHO) == key.advance(9_999) == NOTHING
    assert key.advance(10_000) == (3, {"used": 3})
    assert key.advance(10_001) == NOTHING


def test_reports_go_when_none_is_waited_for_and_the_mark_when_none_can_be_on_its_way() -> None:
    key = Driven()
    key.come(ANN, BOB)
    assert key.key.kept == {"reports", "due"}
    key.advance(10_000)
    assert key.key.kept == {"reports", "emitted", "progress", "due"}
    key.advance(30_001)
    assert key.key.kept == {"progress", "due"}
    key.come(CHO)
    assert key.key.kept == {"progress", "due"}, "what is late leaves nothing"
    key.advance(30_000 + REMEMBERED_WINDOWS * 10_000 - 1)
    assert key.come(CHO) == (0, {"late": 1})
    key.advance(30_000 + REMEMBERED_WINDOWS * 10_000)
    assert not key.key.kept


def test_there_is_one_timer_as_several_that_are_due_may_fire_in_any_order() -> None:
    study = parse_study(study_text())
    for function in (FoldWindow(Fold(study), 8), _Window(study)):
        assert len(get_dofn_specs(function)[1]) == 1


def test_where_no_reports_are_compared_none_is_kept() -> None:
    for name in ("duplicates are kept", "no users, and duplicates are kept"):
        stages = FoldStream(study_of(name), 3)
        assert stages.fold.compares_all is False
        assert not is_stateful_dofn(stages.alone)
