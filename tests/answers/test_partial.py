"""Windows that may hold a part of their time: marked where all windows are read, and no change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ldpbeam as ldp
from ldpbeam.answers.partial import with_partial
from ldpbeam.charts.subject import Subject, state_of
from ldpbeam.results.page.answer import answer_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.times import milliseconds, rfc3339

DAY = 86_400_000
STUDY = """\
study: year
attributes:
  drink: {domain: {categories: [tea, coffee]}, services: {app: {mechanism: grr, epsilon: 3.0}}}
windows: {size: 28d}
"""


def record(start: int, reports: int, **more: Any) -> EstimateRecord:
    return EstimateRecord(
        study="s", attribute="x", name="n", estimator="e", reports=reports, converged=True, n_iterations=0,
        window_start=rfc3339(start * DAY), window_end=rfc3339((start + 1) * DAY), **more,
    )  # fmt: skip


def parts(*reports: int) -> list[float | None]:
    return [one.partial for one in with_partial([record(day, count) for day, count in enumerate(reports)])]


def test_first_and_last_windows_of_few_reports_are_partial_and_no_others() -> None:
    assert parts(7, 100, 10, 100, 110, 100) == [0.07, None, None, None, None, None]
    assert parts(100, 100, 100, 100, 49) == [None, None, None, None, 0.49]
    assert parts(100, 50, 100, 100, 50) == [None] * 5
    # Windows that slide, or a start within a day of hours: several hold a part.
    assert parts(10, 20, 40, 100, 100, 100, 100, 100, 30) == [0.1, 0.2, 0.4, *[None] * 5, 0.3]
    # Of few windows nobody knows what is usual.
    assert parts(1, 100, 100, 100) == [None] * 4


def test_groups_of_a_window_count_together_and_joined_windows_apart() -> None:
    single = [record(day, 50, group=group) for day in range(6) for group in "ab"]
    few = record(0, 2, group="a")
    marked = with_partial([few, record(0, 48, group="b"), *single[2:]])
    assert [one.partial for one in marked] == [None] * 12
    # One group has ended, and the others have nearly as many reports as before.
    ended = [record(day, 100 if day < 5 else 4, group="a") for day in range(6)]
    others = [record(day, 60 if day < 5 else 50, group="b") for day in range(6)]
    marked = with_partial([*ended, *others])
    assert [one.partial for one in marked] == [*[None] * 5, 0.04, *[None] * 6]
    longer = [record(day, 1, joined=True) for day in range(6)]
    assert [one.partial for one in with_partial([*single, *longer])] == [None] * 18


def test_a_window_with_two_of_its_days_is_marked_and_no_change(
    run_estimate: Any, command: Any, tmp_path: Path
) -> None:
    """A year of data from 30 December 2025 on: the first window of 28 days has two of them."""
    rng = np.random.default_rng(5)
    windows = ldp.Study.from_yaml(STUDY).windows
    begin = windows.windows_of(milliseconds("2026-01-15T00:00:00Z"))[0][0] - 2 * DAY
    people = 20 * 338
    times = begin + np.arange(people) * DAY // 20
    tea = np.where(times < begin + 2 * DAY, "tea", rng.choice(["tea", "coffee"], people))
    client = ldp.Client(ldp.Study.from_yaml(STUDY), "drink", "app", rng=rng)
    table = client.reports(tea, [f"u{n}" for n in range(people)], event_times=times.tolist())
    pq.write_table(table, tmp_path / "reports.parquet")
    run = run_estimate(tmp_path, STUDY, [tmp_path / "reports.parquet"])
    assert "it has 7% of the usual reports, and may cover only part of its time" in run.out
    assert not any("partial" in line for line in run.estimates)
    shown = json.loads(command("show", run.path, "--json").out)["estimates"]
    assert [line.get("partial") for line in shown] == [40 / 560, *[None] * 12]
    records = with_partial(list(ldp.estimate(ldp.Study.from_yaml(STUDY), pa.table(table))))
    assert [state_of(one) for one in records] == ["partial", *["complete"] * 12]
    # All drank tea in its two days, which is no change.
    assert changes(records[:2]) == []
    assert len(changes([replace(one, partial=None) for one in records[:2]])) == 1


def changes(records: list[EstimateRecord]) -> list[str]:
    """What a page says of changes since the window before."""
    answer = answer_of(Subject("drink", records), None)
    return list(answer.sentences)
