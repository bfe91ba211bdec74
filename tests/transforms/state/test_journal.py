"""The journal of a run: the windows it promised to say something of, and where it was asked to stop."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from ldpbeam.transforms.engine_times import timestamp
from ldpbeam.transforms.offsets import Offsets
from ldpbeam.transforms.state import files as stage
from ldpbeam.transforms.state.files import STEPS
from ldpbeam.transforms.state.journal import (
    Journal,
    ask_to_stop,
    lost_before,
    named_windows,
    positions_before,
    stopped_at,
)
from ldpbeam.transforms.state.records import OpenWindow, Step
from ldpbeam.transforms.windows.timers import Stop

HOUR = 3_600_000
#: Before every event time: nothing had arrived when the run was asked to stop.
NEVER = -(2**62)


def window(hour: int, attribute: str = "x") -> OpenWindow:
    return OpenWindow(attribute, hour * HOUR, (hour + 1) * HOUR)


def journal(output: Path, run: str = "run-1", reader: int = 0, kept: int = 10 * HOUR) -> Journal:
    return Journal(str(output), run, reader, kept)


def test_windows_stand_in_the_file_when_they_are_named(tmp_path: Path) -> None:
    own = journal(tmp_path)
    assert named_windows(str(tmp_path), "run-1") == set()
    own.name([window(3), window(1)], None)
    assert named_windows(str(tmp_path), "run-1") == {window(1), window(3)}
    own.name([window(2, "y"), window(1)], 2 * HOUR)
    assert named_windows(str(tmp_path), "run-1") == {window(1), window(2, "y"), window(3)}
    assert [path.name for path in (tmp_path / "runs" / "run-1").iterdir()] == ["journal-0.json"]


def test_the_file_is_json_that_a_person_can_read(tmp_path: Path) -> None:
    journal(tmp_path).name([window(3), window(1)], None)
    text = (tmp_path / "runs" / "run-1" / "journal-0.json").read_text()
    assert text.endswith("\n")
    assert json.loads(text) == {
        "ended_at": None,
        "stopped_at": None,
        "windows": [["x", HOUR, 2 * HOUR], ["x", 3 * HOUR, 4 * HOUR]],
    }


def test_steps_are_in_a_file_of_their_partition_which_commits_do_not_write_again(tmp_path: Path) -> None:
    own = journal(tmp_path)
    own.record(0, [Step(7, None, HOUR)])
    own.record(1, [Step(3, None, HOUR), Step(5, HOUR, 2 * HOUR)])
    for path in (tmp_path / "runs" / "run-1").glob("steps-0-1.json"):
        path.unlink()
    own.name([window(1)], HOUR, [Offsets(0, 7, 9)])
    own.record(0, [Step(7, None, HOUR), Step(9, HOUR, 2 * HOUR)])
    (steps,) = STEPS.each(own.folder).values()
    assert steps == (0, (Step(7, None, HOUR), Step(9, HOUR, 2 * HOUR)))
    assert positions_before(str(tmp_path)) == {0: 9, 1: 3}


def test_a_window_that_stands_there_is_not_written_again(tmp_path: Path) -> None:
    own = journal(tmp_path)
    own.name([window(1)], None)
    path = tmp_path / "runs" / "run-1" / "journal-0.json"
    path.unlink()
    own.name([window(1)], HOUR)
    assert not path.exists()
    own.name([window(2)], HOUR)
    assert named_windows(str(tmp_path), "run-1") == {window(1), window(2)}


def test_readers_and_runs_have_journals_of_their_own(tmp_path: Path) -> None:
    journal(tmp_path).name([window(1)], None)
    journal(tmp_path, reader=1).name([window(2)], None)
    journal(tmp_path, run="run-2").name([window(3)], None)
    assert named_windows(str(tmp_path), "run-1") == {window(1), window(2)}
    assert named_windows(str(tmp_path), "run-2") == {window(3)}
    assert named_windows(str(tmp_path), "run-3") == set()


def test_windows_leave_it_when_nothing_can_be_said_of_them_any_more(tmp_path: Path) -> None:
    own = journal(tmp_path, kept=10 * HOUR)
    own.name([window(1), window(2)], 2 * HOUR)
    # Window 1 ends at hour 2: with 10 hours it is kept up to hour 12, and gone when the watermark is there.
    own.name([window(11)], 12 * HOUR - 1)
    assert named_windows(str(tmp_path), "run-1") == {window(1), window(2), window(11)}
    own.name([window(12), window(1)], 12 * HOUR)
    assert named_windows(str(tmp_path), "run-1") == {window(2), window(11), window(12)}
    path = tmp_path / "runs" / "run-1" / "journal-0.json"
    path.unlink()
    own.name([window(1)], 12 * HOUR)
    assert not path.exists()


def test_where_partitions_begin_is_in_the_file_before_anything_is_read(tmp_path: Path) -> None:
    own = journal(tmp_path)
    own.begin({0: 5, 1: 9})
    assert positions_before(str(tmp_path)) == {0: 5, 1: 9}
    own.name((), None, [Offsets(0, 5, 8)])
    # The reader is made again, and goes back.
    journal(tmp_path).begin({0: 6, 1: 10, 2: 7})
    assert positions_before(str(tmp_path)) == {0: 8, 1: 9, 2: 7}


def test_what_is_lost_stays_lost_when_the_reader_is_made_again(tmp_path: Path) -> None:
    own = journal(tmp_path)
    own.begin({0: 5})
    assert lost_before(str(tmp_path), "run-1") is None
    own.lose(7 * HOUR)
    own.lose(6 * HOUR)
    journal(tmp_path).stop(None)
    assert lost_before(str(tmp_path), "run-1") == 7 * HOUR


def test_a_run_that_goes_on_has_not_stopped(tmp_path: Path) -> None:
    assert stopped_at(str(tmp_path), "run-1") is None
    journal(tmp_path).name([window(1)], None)
    assert stopped_at(str(tmp_path), "run-1") is None


def test_the_stop_mark_is_the_earliest_of_the_readers(tmp_path: Path) -> None:
    first, second, third = (journal(tmp_path, reader=reader) for reader in range(3))
    first.name([window(1)], None)
    first.stop(5 * HOUR)
    assert stopped_at(str(tmp_path), "run-1") == 5 * HOUR
    assert named_windows(str(tmp_path), "run-1") == {window(1)}
    third.name([window(2)], None)
    second.stop(4 * HOUR)
    assert stopped_at(str(tmp_path), "run-1") == 4 * HOUR
    assert stopped_at(str(tmp_path), "run-2") is None


def test_a_run_that_stops_before_anything_came_has_no_complete_window(tmp_path: Path) -> None:
    journal(tmp_path).stop(None)
    assert stopped_at(str(tmp_path), "run-1") == NEVER
    assert named_windows(str(tmp_path), "run-1") == set()


def test_the_stop_mark_stays_when_the_last_reports_become_safe_after_it(tmp_path: Path) -> None:
    own = journal(tmp_path)
    own.stop(HOUR)
    own.name([window(1)], HOUR)
    assert named_windows(str(tmp_path), "run-1") == {window(1)}
    assert stopped_at(str(tmp_path), "run-1") == HOUR


def test_a_reader_that_is_made_again_goes_on_with_its_journal(tmp_path: Path) -> None:
    journal(tmp_path).name([window(1)], None)
    journal(tmp_path).name([window(2)], None)
    assert named_windows(str(tmp_path), "run-1") == {window(1), window(2)}


def test_the_stop_mark_stays_when_windows_are_named_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, write = journal(tmp_path), stage.replacing
    stopping = threading.Thread(target=own.stop, args=(HOUR,))

    @contextlib.contextmanager
    def slowly(path: str, **how: bool) -> Iterator[IO[bytes]]:
        with write(path, **how) as stream:
            yield stream
            if not stopping.ident:
                stopping.start()
                stopping.join(0.5)

    monkeypatch.setattr(stage, "replacing", slowly)
    own.name([window(1)], None)
    stopping.join()
    assert stopped_at(str(tmp_path), "run-1") == HOUR
    assert named_windows(str(tmp_path), "run-1") == {window(1)}


class DiskFullError(OSError):
    pass


@contextlib.contextmanager
def full_disk(path: str, **_: bool) -> Iterator[IO[bytes]]:
    raise DiskFullError(path)
    yield


def test_what_could_not_be_written_is_an_error_and_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = journal(tmp_path)
    own.name([window(1)], None)
    with monkeypatch.context() as patch, pytest.raises(DiskFullError):
        patch.setattr(stage, "replacing", full_disk)
        own.name([window(2)], None)
    assert named_windows(str(tmp_path), "run-1") == {window(1)}


def test_what_could_not_be_written_is_written_when_it_is_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = journal(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(DiskFullError):
        patch.setattr(stage, "replacing", full_disk)
        own.name([window(1)], None)
    own.name([window(1)], None)
    assert named_windows(str(tmp_path), "run-1") == {window(1)}


@pytest.mark.parametrize("name", ["out[1]", "out*", "a b?"])
def test_an_output_folder_may_be_called_like_a_pattern(name: str, tmp_path: Path) -> None:
    own = journal(tmp_path / name)
    own.name([window(1)], None)
    own.stop(HOUR)
    journal(tmp_path / "out1", run="run-1").name([window(2)], None)
    assert named_windows(str(tmp_path / name), "run-1") == {window(1)}
    assert stopped_at(str(tmp_path / name), "run-1") == HOUR


@pytest.mark.parametrize("watermark", [HOUR, None])
def test_a_timer_that_only_the_stop_fires_lies_after_the_watermark_of_the_stop(
    watermark: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldpbeam.transforms.windows.timers.LOOKING_SECONDS", 0.0)
    stop = Stop(str(tmp_path), "run-1")
    ask_to_stop(str(tmp_path), "run-1")
    assert not stop.is_before(timestamp(9 * HOUR)), "the reader has not stopped yet"
    journal(tmp_path).stop(watermark)
    assert stop.is_before(timestamp(HOUR + 1))
    assert stop.is_before(timestamp(HOUR)) == (watermark is None)


def test_files_are_looked_for_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stop = Stop(str(tmp_path), "run-1")
    assert not stop.is_before(timestamp(HOUR))
    ask_to_stop(str(tmp_path), "run-1")
    journal(tmp_path).stop(0)
    assert not stop.is_before(timestamp(HOUR))
    now += 1.0
    assert stop.is_before(timestamp(HOUR))
