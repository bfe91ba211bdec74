"""``ldpbeam tidy``: fewer files of old windows, and nothing that reads the folder says anything else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.output_folders import HOUR, START, contents

from ldpbeam.folders.read import earlier_in, read_results
from ldpbeam.pipelines.commands import tidy
from ldpbeam.pipelines.runs.locks import locked

#: The day of the folder's windows, and 40 days later.
DAY_END = 1_795_219_200_000
LATER = (DAY_END + 40 * 24 * HOUR) * 1_000_000


@pytest.fixture
def folder(copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tidy.time, "time_ns", lambda: LATER)
    return copied("stream")


def said_of(folder: Path, study: Path, place: Path, command: Any) -> list[Any]:
    """What commands and readers say of a folder."""
    place.mkdir()
    rolled = command(
        "rollup", "--study", study, "--statistics", folder / "statistics" / "*.avro", "--output",
        place / "rolled",
    )  # fmt: skip
    assert rolled.code == 0, rolled.err
    page = place / "page.html"
    assert command("report", folder, "-o", page).code == 0
    tables = [pq.read_table(folder / "tables" / kind).to_pylist() for kind in ("estimates", "distribution")]
    return [
        command("show", folder, "--json").out,
        # Charts number their clips on and on.
        re.sub(r"clip\d+", "clip", page.read_text()),
        (place / "rolled" / "estimates.jsonl").read_bytes(),
        [path.read_bytes() for path in sorted((place / "rolled" / "statistics").iterdir())],
        [sorted(map(str, rows)) for rows in tables],
    ]


def test_whatever_reads_the_folder_says_the_same_of_fewer_files(
    folder: Path, tmp_path: Path, command: Any
) -> None:
    before = said_of(folder, folder / "study.json", tmp_path / "before", command)
    whole = shutil.copytree(folder, tmp_path / "whole")
    records = {
        record.window: record for record in read_results(str(folder)).estimates if record.name == "all"
    }
    ran = command("tidy", folder, "--older-than", "30d")
    assert ran.code == 0, ran.err
    assert said_of(folder, folder / "study.json", tmp_path / "after", command) == before
    tidied = contents(folder)
    assert len(list((folder / "statistics").iterdir())) == 2 < len(list((whole / "statistics").iterdir()))
    # An alarm finds the window before.
    of_window = records[START, START + HOUR]
    assert earlier_in(str(folder), "panes")(of_window, START) == earlier_in(str(whole), "panes")(
        of_window, START
    )
    assert earlier_in(str(folder), "panes")(of_window, START + 5 * HOUR) is None
    # A command that was killed is run again, whichever files it had deleted.
    for path in (whole / "statistics", whole / "estimates"):
        left = sorted(path.iterdir())[-1]
        shutil.copy(left, folder / path.name / left.name)
    assert command("tidy", folder, "--older-than", "30d").code == 0
    assert contents(folder) == tidied
    assert command("tidy", folder, "--older-than", "30d").out.startswith("0 files")


def test_a_day_that_has_not_ended_so_long_ago_stays_as_it_is(folder: Path, command: Any) -> None:
    before = contents(folder)
    assert command("tidy", folder, "--older-than", "41d").code == 0
    assert contents(folder) == before


def test_a_running_stream_other_folders_and_short_times_are_refused(
    folder: Path, folders: dict[str, Path], command: Any
) -> None:
    for place, older, said in (
        (folders["batch"], "30d", "not a folder of ldpbeam stream"),
        (folder, "1h", "--older-than 1h: give a day or more"),
        (folder, "soon", "--older-than soon: write a whole number and a unit"),
    ):
        ran = command("tidy", place, "--older-than", older)
        assert (ran.code, said in ran.err) == (2, True)
    before = contents(folder)
    with locked(str(folder), alone=True):
        ran = command("tidy", folder, "--older-than", "30d")
    assert (ran.code, "another run is writing there now" in ran.err) == (2, True)
    assert contents(folder) == before
