"""When a run commits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.spooled import Stream, in_polls

import ldpbeam as ldp
from ldpbeam.pipelines.spool.run import COMMIT_MILLISECONDS
from ldpbeam.schemas.study.yaml_file import parse_study

BEGAN = 1_800_000_000_000
STUDY = parse_study(
    "study: s\nwindows: {size: 1d}\nattributes:\n"
    "  x: {domain: {categories: [p, q, r]}, services: {a: {mechanism: grr, epsilon: 1}}}\n"
)


def stream_of(folder: Path, polls: int) -> Stream:
    """A stream of so many polls of one report each, in one window."""
    reports = ldp.Client(STUDY, "x", "a").reports(["p"] * polls, event_times=BEGAN + np.arange(polls))
    return Stream(STUDY, in_polls(STUDY, reports, 1), folder)


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
