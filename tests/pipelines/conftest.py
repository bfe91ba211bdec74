"""Output folders of every kind of run, for the tests of what reads them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.output_folders import EVERYTHING, SPAN, everything_sent, stream_folder


@pytest.fixture(scope="session")
def folders(
    tmp_path_factory: pytest.TempPathFactory,
    command: Callable[..., Any],
    run_estimate: Callable[..., Any],
    write_lines: Callable[..., Path],
) -> dict[str, Path]:
    """A folder of each kind of run."""
    place = tmp_path_factory.mktemp("runs")
    inputs = everything_sent(place / "reports")
    bad = write_lines(place / "bad.jsonl", [{"attribute": "minutes", "service": "maps", "payload": 0.5}])
    allowed = ("--max-bad-fraction", "0.5")
    batch = run_estimate(place / "batch", EVERYTHING, [*inputs, bad], *allowed)
    assert batch.code == 0, batch.err
    scheduled = run_estimate(place / "scheduled", EVERYTHING, [*inputs, bad], *SPAN, *allowed)
    assert scheduled.code == 0, scheduled.err
    study = place / "batch" / "study.yaml"
    statistics = batch.path / "statistics" / "*.avro"
    rolled = command("rollup", "--study", study, "--statistics", statistics, "--output", place / "rolled")
    assert rolled.code == 0, rolled.err
    return {
        "batch": batch.path,
        "scheduled": scheduled.path,
        "rollup": place / "rolled",
        "stream": stream_folder(place / "stream"),
    }


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a folder, which a test may spoil."""
    return lambda kind: Path(shutil.copytree(folders[kind], tmp_path / kind))
