"""Ctrl-C in a terminal: one line, exit code 130, and no part of an output that looks whole."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from listeners import listeners
from stream_runs import MARK, processes_of
from terminal import CTRL_C, ldpbeam, paused, terminal

pytestmark = pytest.mark.slow

STUDY = """
study: s
attributes:
  x:
    domain: {numeric: [0, 10]}
    buckets: 16
    services: {a: {mechanism: square_wave, epsilon: 1.0}, b: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {alone: {estimator: ems, services: [a]}}
"""
COMBINED = "ldpbeam.transforms.windows.coders:CombineGroups.extract_output"
ALONE = "ldpbeam.pipelines.commands.estimate:tally_here"
ESTIMATED = "ldpbeam.pipelines.commands.estimate:estimate_all"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("x\n" + "".join(f"{n % 10}\n" for n in range(2_000)))
    return path


@pytest.fixture
def reports(command: Any, study: Path, people: Path, tmp_path: Path) -> Path:
    ran = command("perturb", "--study", study, "--attribute", "x", "--input", people, "--value-column", "x",
                  "--output", tmp_path / "reports")  # fmt: skip
    assert ran.code == 0, ran.err
    return tmp_path / "reports"


def interrupted(function: str, folder: Path, *arguments: object) -> str:
    """What a command says when it is interrupted at a call of a function; its progress is left out.

    Nothing of it listens then.
    """
    mark = f"batch-{os.getpid()}"
    with terminal(paused(function, folder, *arguments), {MARK: mark}) as run:
        run.wait_until((folder / "reached").exists)
        assert listeners(processes_of(mark)) == set()
        run.press(CTRL_C)
        assert run.wait() == 130, run.said
    said = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", run.said.partition("^C")[2]).replace("\r", "\n")
    lines = [
        line
        for line in said.splitlines()
        if line.strip() and not re.search("reading reports$|reports read$|━", line)
    ]
    return "\n".join(lines)


def outputs(folder: Path) -> set[str]:
    """What a reader could take for outputs."""
    return {
        path.name
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name != "run.json"
    }


# Estimates are made in this process, whatever the engine is. That a job on Flink ends: test_study_on_flink.
@pytest.mark.parametrize(
    ("function", "runner"),
    [(ALONE, "local"), (ESTIMATED, "local"), (COMBINED, "direct"), (ESTIMATED, "direct")],
)
def test_estimate(function: str, runner: str, study: Path, reports: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run = ["estimate", "--study", study, "--input", f"{reports}/*", "--output", output, "--runner", runner]
    said = interrupted(function, tmp_path, *run)
    assert said == "ldpbeam: estimate was interrupted; run the same command to start it again"
    assert outputs(output) == set()
    with terminal(ldpbeam(*run)) as again:
        assert again.wait() == 0, again.said
    assert {"estimates.jsonl", "accounting.json"} <= outputs(output)
