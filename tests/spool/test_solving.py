"""Panes are finished in their order, whatever becomes of the process that finishes them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ldpbeam.pipelines.spool import solving
from ldpbeam.pipelines.spool.finish import Finished, Finishing, Pane
from ldpbeam.pipelines.spool.solving import DEATHS, Solving
from ldpbeam.transforms.segments import Stored

pytestmark = pytest.mark.slow

SECONDS = 300.0


class Odd:
    """Finishes panes in a folder; what else it does depends on the attribute of the pane."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def finish(self, pane: Pane) -> Finished:
        """Note the pane, and finish it."""
        with (self.folder / "begun").open("a") as file:
            file.write(f"{pane.start}\n")
        if pane.attribute == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if pane.attribute == "dies once" and not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if pane.attribute == "waits" and not (self.folder / "there").exists():
            raise OSError("the topic is away")
        if pane.attribute == "wrong":
            raise ZeroDivisionError("a mistake of ours")
        return Finished(str(pane.start), {}, {}, [], 0, 0, 0.0)


def pane(start: int, attribute: str = "x") -> Pane:
    return Pane(attribute, start, start + 1, 0, Stored(1, 0, 1))


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[Solving]:
    own = Solving(cast(Finishing, Odd(tmp_path)))
    yield own
    own.close()


def all_of(panes: Solving) -> list[tuple[int, str | None]]:
    """(start, line) of the panes, in their order."""
    until, found = time.monotonic() + SECONDS, list[tuple[Any, Any]]()
    while panes._waiting or panes._sent:
        found += panes.finished()
        assert time.monotonic() < until
        time.sleep(0.01)
    return [(one.start, done and done.line) for one, done in found]


def test_a_pane_that_ends_processes_is_left_out_and_the_others_come_in_their_order(
    panes: Solving, tmp_path: Path
) -> None:
    for start in range(8):
        panes.begin(pane(start, "dies" if start == 3 else "x"))
    assert all_of(panes) == [(start, None if start == 3 else str(start)) for start in range(8)]
    begun = (tmp_path / "begun").read_text().split()
    # It ended so many processes alone, and perhaps one together with others.
    assert DEATHS <= begun.count("3") <= DEATHS + 1
    # What was finished before its process ended is not finished again but for those sent with the killer.
    assert all(begun.count(str(start)) <= 2 for start in range(8) if start != 3)


def test_a_pane_whose_process_was_killed_once_is_finished(panes: Solving) -> None:
    for start in range(4):
        panes.begin(pane(start, "dies once" if start == 1 else "x"))
    assert all_of(panes) == [(start, str(start)) for start in range(4)]


def test_panes_wait_for_a_topic_that_is_away_and_none_overtakes_another(
    panes: Solving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(solving, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(solving.LOG, "warning", lambda text, *given: said.append(text % given))
    for start in range(4):
        panes.begin(pane(start, "waits" if start == 1 else "x"))
    until, found = time.monotonic() + SECONDS, list[tuple[Any, Any]]()
    while not said:
        found += panes.finished()
        assert time.monotonic() < until
        time.sleep(0.01)
    assert (len(found), len(panes._waiting) + len(panes._sent)) == (1, 3)
    (tmp_path / "there").touch()
    assert [start for start, _ in all_of(panes)] == [1, 2, 3]
    assert said == ["estimates wait: the topic is away; the run tries again"]


def test_a_mistake_of_ours_is_raised(panes: Solving) -> None:
    panes.begin(pane(0, "wrong"))
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        all_of(panes)
