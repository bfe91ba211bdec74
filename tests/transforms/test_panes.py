"""Panes of a window, driven by hand: when they fire, what they say, and how every schedule ends."""

from __future__ import annotations

import functools
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.keyed_state import END, Key, StreamByHand
from support.pane_reports import STUDIES, Report, batches_of, people_report, study_of, study_text, times_of
from support.pane_runs import Streamed, check_order, in_windows
from support.pane_scripts import Step, in_time, reports_in

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.transforms.windows.fold import Fold
from ldpbeam.transforms.windows.groups import GroupStatistics, gains
from ldpbeam.transforms.windows.panes import _Window
from ldpbeam.transforms.windows.piece_keys import WindowKey
from ldpbeam.windows import REMEMBERED_WINDOWS

WINDOW = (0, 10_000)


def statistics(study: Study, *reports: Report) -> GroupStatistics:
    """The statistics of some users, each of whom reports here alone."""
    if not reports:
        return GroupStatistics()
    return Fold(study).fold_window(study.attribute("x"), batches_of(*reports), WINDOW).statistics


class Driven:
    """A window, driven by hand; the last part of :class:`StreamByHand`."""

    def __init__(self, windows: str = "size: 10s, allowed_lateness: 20s") -> None:
        self.study = parse_study(study_text(windows=windows))
        self.key = Key(_Window(self.study), WindowKey("x", WINDOW))

    def gain(self, *reports: Report) -> list[list[Snapshot]]:
        """The panes that fire when these reports' statistics come."""
        return self._panes(self.key.come(statistics(self.study, *reports)))

    def change(self, before: tuple[Report, ...], after: tuple[Report, ...]) -> list[list[Snapshot]]:
        """The panes that fire when a shard's reports are others than they were."""
        gain = gains(self.study, statistics(self.study, *after), statistics(self.study, *before))
        return self._panes(self.key.come(gain))

    def advance(self, watermark: int) -> list[list[Snapshot]]:
        """The panes that fire while the watermark moves on."""
        return self._panes(self.key.advance(watermark))

    def _panes(self, given: list[tuple[str, list[Snapshot]]]) -> list[list[Snapshot]]:
        assert {name for name, _ in given} <= {"x"}
        assert all(own.window == WINDOW for _, pane in given for own in pane)
        return [snapshots for _, snapshots in given]


def told(panes: list[list[Snapshot]]) -> list[tuple[int, str, int]]:
    """The index, timing and reports of each pane; its snapshots share the first two."""
    found = []
    for pane in panes:
        ((index, timing),) = {(own.pane_index, own.pane_timing) for own in pane}
        found.append((index, timing, sum(own.statistic.reports for own in pane)))
    return found


ANN, BOB, CHO, DEE = (Report(user, 1000 * at) for at, user in enumerate(["ann", "bob", "cho", "dee"], 2))


def test_a_pane_fires_after_the_windows_end_when_all_shards_have_spoken() -> None:
    window = Driven()
    assert window.gain(ANN) == window.advance(9_999) == []
    # Shards speak when the watermark is at the end, and what they say holds it there.
    assert window.advance(10_000) == window.gain(BOB) == window.gain(CHO) == window.advance(10_000) == []
    assert told(window.advance(10_001)) == [(0, "on_time", 3)]
    assert window.advance(10_002) == []


def test_what_is_late_in_one_bundle_is_one_pane() -> None:
    window = Driven()
    window.gain(ANN)
    window.advance(12_000)
    window.gain(BOB)
    window.gain(CHO)
    assert told(window.advance(12_000)) == [(1, "late", 3)]


def test_a_change_without_more_reports_is_no_early_pane() -> None:
    window = Driven("size: 10s, early_reports: 1")
    assert told(window.gain(ANN)) == [(0, "early", 1)]
    earlier = ANN._replace(time=0, payload=0.9)
    assert window.change((ANN,), (earlier,)) == []
    (pane,) = window.advance(10_001)
    assert [own.statistic for own in pane] == list(statistics(window.study, earlier).values())


def test_a_window_without_reports_has_no_pane() -> None:
    window = Driven()
    window.change((ANN,), ())
    window.change((), (ANN,))
    assert window.advance(END) == []


def test_a_window_is_kept_until_no_report_can_be_on_its_way() -> None:
    window = Driven()
    window.gain(ANN)
    window.advance(12_000)
    assert window.key.kept == {"statistics", "fired", "due"}
    # Shards speak once more when no report is waited for, and forget a millisecond before this does.
    last = 30_000 + REMEMBERED_WINDOWS * 10_000
    assert told(window.gain(BOB) + window.advance(last)) == [(1, "late", 2)]
    window.advance(last + 1)
    assert not window.key.kept


ROWS = 48
#: How far the watermark moves on, often to where a window closes, and which of some reports come then: any of
#: them, any number of times.
SCHEDULES = st.lists(
    st.tuples(
        st.integers(0, 25).map(lambda n: 1000 * n) | st.integers(0, 25_000),
        st.lists(st.integers(0, ROWS - 1), max_size=12),
    ),
    min_size=1,
    max_size=6,
)


@functools.cache
def reports_of_few(name: str) -> list[pa.RecordBatch]:
    """Reports of five users to each service: most windows have several of a user."""
    study = study_of(name)
    return people_report(study, visits=ROWS // len(study.attribute("x").services), users=5)


def script_of(reports: list[pa.RecordBatch], schedule: list[tuple[int, list[int]]]) -> list[Step]:
    """Of each batch the rows of a step that are its, counted through all batches."""
    watermark, script = -5_000, []
    for more, rows in schedule:
        watermark, first, batches = watermark + more, 0, []
        for batch in reports:
            own = [row - first for row in rows if first <= row < first + batch.num_rows]
            batches += [batch.take(pa.array(own))] if own else []
            first += batch.num_rows
        script.append(Step(watermark, batches))
    return script


def check_last_panes(found: Streamed, expected: dict[tuple[str, object], list[Snapshot]]) -> None:
    """The last panes are these, and no window has others."""
    assert {key: own for key, own in found.last.items() if key in expected} == expected
    # A coordinate of a vector may lose its only report to another: no pane takes back what was said of it.
    assert all("." in attribute for attribute, _ in found.last.keys() - expected.keys())


@pytest.mark.parametrize("name", STUDIES)
@settings(max_examples=16, derandomize=True, deadline=None)
@given(
    SCHEDULES, st.sampled_from(["0s", "7s", "20s"]), st.sampled_from(["", ", early_reports: 3"]),
    st.integers(1, 3), st.randoms(use_true_random=False),
)  # fmt: skip
def test_any_schedule_ends_with_what_came_in_time(
    name: str,
    schedule: list[tuple[int, list[int]]],
    lateness: str,
    early: str,
    shards: int,
    order: random.Random,
) -> None:
    text = STUDIES[name].replace("allowed_lateness: 20s", f"allowed_lateness: {lateness}{early}")
    study = parse_study(text)
    script = script_of(reports_of_few(name), schedule)
    stream = StreamByHand(study, shards, order)
    found = stream.run(script)
    check_last_panes(found, in_windows(study, script))
    check_order(found)
    _, late = in_time(study, script)
    assert found.counts["late"] == late
    assert found.counts["used"] + found.counts["duplicates"] + late == reports_in(script)
    if study.windows and study.windows.slides:
        standing = sum(own.statistic.reports for pane in found.last.values() for own in pane)
        assert found.counts["used_in_windows"] == standing
        assert found.counts["late_in_windows"] == sum(
            end + study.windows.allowed_lateness <= watermark
            for watermark, batches in script
            for batch in batches
            for time in times_of(batch)
            for _, end in study.windows.windows_of(time)
        )
    assert not any(key.kept for key in (*stream.joins.values(), *stream.windows.values()))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    SCHEDULES, st.sampled_from(["two services joined", "sliding windows"]), st.randoms(use_true_random=False)
)
def test_every_report_is_counted_where_only_the_engine_knows_what_is_late(
    schedule: list[tuple[int, list[int]]], name: str, order: random.Random
) -> None:
    study = study_of(name)
    script = script_of(reports_of_few(name), schedule)
    found = StreamByHand(study, 2, order).run(script, marked=False)
    check_order(found)
    assert sum(found.counts[own] for own in ("used", "duplicates", "late")) == reports_in(script)
