"""Each pane of a stream is tested, and its file has the warnings of all panes of its window."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from ldpbeam import Answers, tally
from ldpbeam.cells import Cells
from ldpbeam.fit.spending import Spending
from ldpbeam.pipelines.estimates.pane_fit import write_pane_tests
from ldpbeam.pipelines.spool.manifest import Manifest, write_manifest
from ldpbeam.pipelines.spool.place import StreamOutput, begun_at, placed, run_name
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


def hashed_pane(index: int, timing: str, sent: float, people: int = 50_000) -> list[Snapshot]:
    """A pane of the window that begins with the stream, of reports of some epsilon."""
    attribute, rng = HASHED.attribute("x"), np.random.default_rng(index)
    mechanism = replace(attribute.versions[0].mechanism, epsilon=sent)  # type: ignore[type-var]
    reports = mechanism.perturb(rng.integers(0, 8, people), rng)
    statistic = tally(attribute, people, [Answers(0, np.arange(people), reports)])
    return [Snapshot("x", (0, HOUR), None, 0, statistic, pane_index=index, pane_timing=timing)]


def test_each_pane_is_tested_and_a_later_one_takes_no_warning_back(tmp_path: Path) -> None:
    spending = Spending(since=0, started=0, earlier_runs=0, windows=Cells(HOUR), attributes=1)
    folder = tmp_path / "fit"

    def write(index: int, timing: str, sent: float) -> list[bool]:
        pane = hashed_pane(index, timing, sent)
        return [test.flagged for test in write_pane_tests(HASHED, str(folder), spending, pane)]

    def tests() -> list[tuple[int, bool]]:
        (path,) = folder.iterdir()
        assert path.name == "hashed-x-19700101T000000Z-19700101T010000Z.json"
        found = read_record(Fit, path.read_bytes())
        assert found.tests[-1].limit == spending.limit((0, HOUR), found.tests[-1].pane_index or 0)
        return [(test.pane_index or 0, test.flagged) for test in found.tests]

    assert write(0, "early", 1.0) == [False]
    assert tests() == [(0, False)]
    for _ in range(2):
        # A process that was killed may have written the pane before.
        assert write(1, "early", 1.2) == [True]
        assert tests() == [(1, True)]
    assert write(2, "on_time", 1.0) == [False]
    assert tests() == [(1, True), (2, False)]
    assert write(3, "late", 1.2) == [True]
    assert tests() == [(1, True), (3, True)]


def runs_before(folder: Path, *names: str) -> StreamOutput:
    """An output folder in which runs of some names have ended, the last one by itself."""
    output = StreamOutput(HASHED, str(folder), "")
    for name in names:
        run = replace(output, run=name)
        (folder / "runs" / name / "spool").mkdir(parents=True)
        (folder / "runs" / name / "run.json").write_text(json.dumps({"spool": ""}))
        write_manifest(run.spool, Manifest(HASHED.fingerprint, number=1, ended=1))
    return output


def test_a_run_comes_after_all_others_though_the_clock_was_set_back(tmp_path: Path) -> None:
    now = datetime(2026, 11, 20, 10, 0, 7, tzinfo=UTC)
    ahead = [run_name(now + timedelta(hours=hour)) for hour in (0, 2)]
    output = runs_before(tmp_path, *ahead)
    (tmp_path / "runs" / "backup").mkdir()
    (tmp_path / "runs" / "backup" / "run.json").write_text("{}")
    run = placed(output, now).output
    assert run.earlier_runs == tuple(ahead)
    assert begun_at(run.run) == begun_at(ahead[1]) + 1000
    later = placed(output, now + timedelta(hours=3)).output
    assert begun_at(later.run) == begun_at(ahead[0]) + 3 * HOUR
