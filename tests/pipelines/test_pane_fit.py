"""Each pane of a stream is tested, and its file has the warnings of all panes of its window."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ldpbeam import Answers, tally
from ldpbeam.cells import Cells
from ldpbeam.fit.spending import Spending
from ldpbeam.pipelines.estimates.pane_fit import PaneFit
from ldpbeam.pipelines.graphs.stream import begun_at, run_name
from ldpbeam.pipelines.runs.stream_runs import earlier_runs, new_run
from ldpbeam.schemas.outputs.checked import read_record
from ldpbeam.schemas.outputs.records import Fit
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study

HOUR = 3_600_000
HASHED = parse_study("""\
study: hashed
windows: {size: 1h}
attributes:
  x:
    domain: {categories: [a, b, c, d, e, f, g, h]}
    services: {s: {mechanism: olh, epsilon: 1.0}}
    estimates: {mean: {estimator: norm_sub}}
""")


def hashed_pane(index: int, timing: str, sent: float, people: int = 50_000) -> tuple[str, list[Snapshot]]:
    """A pane of the window that begins with the stream, of reports of some epsilon."""
    attribute, rng = HASHED.attribute("x"), np.random.default_rng(index)
    mechanism = replace(attribute.versions[0].mechanism, epsilon=sent)  # type: ignore[type-var]
    reports = mechanism.perturb(rng.integers(0, 8, people), rng)
    statistic = tally(attribute, people, [Answers(0, np.arange(people), reports)])
    own = Snapshot("x", (0, HOUR), None, 0, statistic, pane_index=index, pane_timing=timing)
    return "x", [own]


def test_each_pane_is_tested_and_a_later_one_takes_no_warning_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ldpbeam.panes")
    spending = Spending(since=0, started=0, earlier_runs=0, windows=Cells(HOUR), attributes=1)
    stage = PaneFit(HASHED, str(tmp_path / "fit"), spending)
    stage.setup()

    def tests() -> list[tuple[int, bool]]:
        (path,) = (tmp_path / "fit").iterdir()
        assert path.name == "hashed-x-19700101T000000Z-19700101T010000Z.json"
        found = read_record(Fit, path.read_bytes())
        assert found.tests[-1].limit == spending.limit((0, HOUR), found.tests[-1].pane_index or 0)
        return [(test.pane_index or 0, test.flagged) for test in found.tests]

    stage.process(hashed_pane(0, "early", 1.0))
    assert tests() == [(0, False)] and not caplog.messages
    for _ in range(2):
        # The engine may process a pane again.
        stage.process(hashed_pane(1, "early", 1.2))
        assert tests() == [(1, True)]
    assert "do not fit olh" in caplog.messages[0]
    stage.process(hashed_pane(2, "on_time", 1.0))
    assert tests() == [(1, True), (2, False)]
    stage.process(hashed_pane(3, "late", 1.2))
    assert tests() == [(1, True), (3, True)]


def test_a_run_begins_when_its_name_says_and_knows_the_runs_before(tmp_path: Path) -> None:
    now = datetime(2026, 11, 20, 10, 0, 7, tzinfo=UTC)
    names = [run_name(now + timedelta(hours=hour)) for hour in (0, 1, 2)]
    assert begun_at(names[0]) == round(1000 * now.timestamp())
    assert earlier_runs(str(tmp_path / "out"), names[0]) == ()
    for name in names:
        (tmp_path / "out" / "runs" / name).mkdir(parents=True)
        (tmp_path / "out" / "runs" / name / "run.json").write_text("{}")
    assert earlier_runs(str(tmp_path / "out"), names[1]) == (names[0],)


def test_a_run_comes_after_all_others_though_the_clock_was_set_back(tmp_path: Path) -> None:
    now = datetime(2026, 11, 20, 10, 0, 7, tzinfo=UTC)
    ahead = [run_name(now + timedelta(hours=hour)) for hour in (0, 2)]
    for name in (*ahead, "backup"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text("{}")
    name = new_run(str(tmp_path), now)
    assert earlier_runs(str(tmp_path), name) == tuple(ahead)
    assert begun_at(name) == begun_at(ahead[1]) + 1000
    assert begun_at(new_run(str(tmp_path), now + timedelta(hours=3))) == begun_at(ahead[0]) + 3 * HOUR
