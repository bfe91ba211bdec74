"""Panes of candidates: a window whose table comes late is estimated late, and new names are another pane."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from support.keyed_state import END, Key

from ldpbeam.answers.solve import solve
from ldpbeam.beam.solve_windows import SolveWindow
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers, tally
from ldpbeam.transforms.outputs.panes import Solved
from ldpbeam.transforms.reports.counts import WITHOUT_NAMES
from ldpbeam.transforms.windows.groups import GroupStatistics
from ldpbeam.transforms.windows.panes import _Window
from ldpbeam.transforms.windows.piece_keys import GroupKey, WindowKey

WINDOW = (0, 10_000)
CLOSED, EXPIRED = 10_001, 30_001
STUDY = """\
study: polls
users: none
attributes:
  saw: {domain: {candidates: names.csv, places: 4}, services: {device: {mechanism: grr, epsilon: 1}}}
windows: {size: 10s, allowed_lateness: 20s}
"""


class Driven:
    """A window of candidates, driven by hand, with its table."""

    def __init__(self, folder: Path) -> None:
        self.study = parse_study(STUDY, str(folder / "study.yaml"))
        self.path = folder / "names.csv"
        self.key = Key(_Window(self.study), WindowKey("saw", WINDOW))

    def table(self, *names: str) -> None:
        rows = "".join(f"{place},{name}\n" for place, name in enumerate(names))
        self.path.write_text(f"place,name\n{rows}")

    def gain(self, reports: int) -> list[list[Snapshot]]:
        attribute = self.study.attribute("saw")
        payloads = np.arange(reports, dtype=np.uint32) % 4
        statistic = tally(attribute, reports, [Answers(0, np.arange(reports), payloads)])
        return self._panes(self.key.come(GroupStatistics({GroupKey("saw", None): statistic})))

    def advance(self, watermark: int) -> list[list[Snapshot]]:
        return self._panes(self.key.advance(watermark))

    def _panes(self, given: list[tuple[str, list[Snapshot]]]) -> list[list[Snapshot]]:
        return [snapshots for _, snapshots in given]


def told(panes: list[list[Snapshot]]) -> list[tuple[int, str, int, tuple[str, ...]]]:
    """The index, timing, reports and names of each pane."""
    return [
        (
            one.pane_index,
            one.pane_timing,
            one.statistic.reports,
            one.candidates.names if one.candidates is not None else (),
        )
        for pane in panes
        for one in pane
    ]


TEA = ("tea", "others")


def test_a_window_waits_for_its_table_as_long_as_for_late_reports(tmp_path: Path) -> None:
    window = Driven(tmp_path)
    window.table()
    window.gain(40)
    assert told(window.advance(CLOSED)) == [(0, "on_time", 40, ())]
    assert window.advance(EXPIRED - 1) == []
    window.table("tea")
    assert told(window.advance(EXPIRED)) == [(1, "late", 40, TEA)]
    assert window.advance(END) == []


def test_a_late_report_brings_the_table_at_once(tmp_path: Path) -> None:
    window = Driven(tmp_path)
    window.table()
    window.gain(40)
    window.advance(CLOSED)
    window.table("tea")
    window.gain(4)
    assert told(window.advance(CLOSED)) == [(1, "late", 44, TEA)]
    assert window.advance(END) == []


def test_names_that_change_after_the_pane_on_time_are_another_pane(tmp_path: Path) -> None:
    window = Driven(tmp_path)
    window.table("tea")
    window.gain(40)
    assert told(window.advance(CLOSED)) == [(0, "on_time", 40, TEA)]
    window.table("rum")
    assert told(window.advance(EXPIRED)) == [(1, "late", 40, ("rum", "others"))]
    window.table("gin")
    assert window.advance(END) == []


def test_a_table_that_cannot_be_read_is_as_it_was(tmp_path: Path) -> None:
    window = Driven(tmp_path)
    window.table("tea")
    window.gain(40)
    window.advance(CLOSED)
    for broken in ("place,name\n0,ru", "place,name\n0,rum\n0,gin\n"):
        window.path.write_text(broken)
        window.gain(4)
        (pane,) = window.advance(CLOSED)
        assert told([pane])[0][3] == TEA
    window.path.unlink()
    assert window.advance(END) == []


def test_a_window_without_reports_in_time_or_names_has_its_last_pane_once(tmp_path: Path) -> None:
    window = Driven(tmp_path)
    window.table()
    window.gain(40)
    assert told(window.advance(END)) == [(0, "on_time", 40, ())]


def test_a_pane_without_names_is_counted_and_not_estimated(tmp_path: Path) -> None:
    window = Driven(tmp_path)
    window.table()
    window.gain(40)
    solving = SolveWindow(window.study)
    solving.setup()
    outputs = []
    for names, watermark in (((), CLOSED), (("tea",), EXPIRED)):
        window.table(*names)
        (pane,) = window.advance(watermark)
        outputs.append(list(solving.process(("saw", pane))))
    (counted, unnamed), (named,) = outputs
    assert counted.value == (WITHOUT_NAMES, 1)
    assert isinstance(unnamed, Solved)
    assert unnamed.estimates == []
    (record,) = named.estimates
    assert record.categories == TEA
    (batch,) = solve(window.study, replace(pane[0], pane_index=0, pane_timing="on_time"))
    assert replace(record, pane_index=0, pane_timing="on_time") == batch
