"""When a run commits, and what it does with what nobody should have sent."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.spooled import Stream, in_polls

import ldpbeam as ldp
from ldpbeam.pipelines.spool import run as run_module
from ldpbeam.pipelines.spool.run import COMMIT_MILLISECONDS, Run
from ldpbeam.schemas.study.yaml_file import parse_study

BEGAN = 1_800_000_000_000
STUDY = parse_study(
    "study: s\nwindows: {size: 1d}\nattributes:\n"
    "  x: {domain: {categories: [p, q, r]}, services: {a: {mechanism: grr, epsilon: 1}}}\n"
)


def stream_of(folder: Path, polls: int, rows: int = 1) -> Stream:
    """A stream of so many polls of some reports each, in one window."""
    times = BEGAN + np.arange(polls * rows)
    reports = ldp.Client(STUDY, "x", "a").reports(["p"] * len(times), event_times=times)
    return Stream(STUDY, in_polls(STUDY, reports, rows), folder)


def changed(batch: pa.RecordBatch, name: str, values: list[object]) -> pa.RecordBatch:
    """A batch with other values in a column."""
    place = batch.schema.get_field_index(name)
    return batch.set_column(
        place, batch.schema.field(place), pa.array(values, batch.schema.field(place).type)
    )


def waiting(stream: Stream) -> Run:
    """A run that has committed the first poll, and waits for the next commit as long as it ever does."""
    run = stream.begin()
    stream.turns(run, 1)
    run._began -= COMMIT_MILLISECONDS
    assert run.manifest.number == 1
    return run


def test_commits_come_soon_at_first_and_then_at_intervals(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, 400)
    run = stream.begin()
    began, commits, number = run.turned_at, list[int](), 0
    while not stream.turns(run, 1):
        run.clock.milliseconds += 50  # type: ignore[attr-defined]
        if run.manifest.number != number:
            number = run.manifest.number
            commits.append(run.turned_at - began)
    between = np.diff(commits)
    slack = 300
    assert commits[0] < slack
    # Whenever it is killed, half of what it did is kept.
    assert all(each <= before + slack for each, before in zip(between, commits, strict=False))
    assert between.max() <= COMMIT_MILLISECONDS + slack
    assert between[-1] >= COMMIT_MILLISECONDS


@pytest.mark.parametrize("limit", ["LETTERS", "LETTER_BYTES"])
def test_many_dead_letters_bring_on_a_commit(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls, rows = 8, 10
    stream = stream_of(tmp_path, polls, rows)
    bad = [stream.batches[0], *(changed(each, "service", ["nobody"] * rows) for each in stream.batches[1:])]
    run = waiting(dataclasses.replace(stream, batches=bad))
    run.turn()
    assert run.manifest.number == 1
    size = {"LETTERS": rows, "LETTER_BYTES": run._letter_size}[limit]
    monkeypatch.setattr(run_module, limit, 3 * size)
    while run.manifest.number == 1:
        run.turn()
    assert run.manifest.counts["dead_letters"] == 3 * rows
    assert run.manifest.letter_files == 1


def test_reports_of_wild_times_wait_for_no_window(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, 3, 6)
    years = 20 * 365 * 86_400_000
    wild: list[Any] = [-(2**63), 0, BEGAN - years, BEGAN, BEGAN + years, 2**63 - 1]
    polls = [stream.batches[0], changed(stream.batches[1], "event_time", wild), stream.batches[2]]
    run = dataclasses.replace(stream, batches=polls).begin()
    run.clock.date = run.feed.clock = BEGAN  # type: ignore[attr-defined]
    stream.turns(run, 3)
    run.commit()
    assert (run.counts["dead_letters"], run.counts["out_of_range"], run.windows.reports) == (3, 2, 13)
    assert len(run.windows.windows) == 1
    # None of them has moved the watermark.
    assert run.manifest.watermark is None or run.manifest.watermark <= BEGAN


@pytest.mark.parametrize("ahead", [-3_600_000, 3_600_000])
def test_windows_that_had_begun_when_messages_were_lost_are_incomplete_by_any_clock(
    ahead: int, tmp_path: Path
) -> None:
    run = waiting(stream_of(tmp_path, 3))
    server, run.clock.date = BEGAN + 1_000, BEGAN + ahead  # type: ignore[attr-defined]
    run.feed.lost = run.clock.now()  # type: ignore[attr-defined]
    # However soon a commit comes, it names the loss that the feed has passed over.
    run.changed = True
    run.commit()
    assert run.lost
    assert (run.manifest.incomplete_before or 0) >= server
