"""Several readers of the source of streams: their progress, and what takes the place of another."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.utils.timestamp import Timestamp
from support.driven_source import (
    DISORDER,
    NOW,
    OPENED,
    SECOND,
    WEEK,
    Drive,
    Driven,
    Fake,
    at,
    batch,
    refuse,
    replaced,
    set_clocks,
)

from ldpbeam.transforms.engine_times import FINISHED
from ldpbeam.transforms.sources import reader, shared_feed, source
from ldpbeam.transforms.sources.feeds import FeedBatch
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.transforms.sources.reader import Progress, progress
from ldpbeam.transforms.sources.reading import Reading, ReadingOptions
from ldpbeam.transforms.state.files import CLAIMS
from ldpbeam.transforms.state.journal import positions_before
from ldpbeam.windows import Windows


def test_every_reader_has_its_own(tmp_path: Path) -> None:
    run = Driven(tmp_path).reading
    several = Reading(**{**vars(run), "readers": 3})
    sources: list[Any] = source.Source(several).split(20)
    readers = [one.create_reader(None, None) for one in sources]
    for each in readers:
        each.shared.finish(stopped=True)
    journals = sorted(path.name for path in tmp_path.glob("runs/*/journal-*.json"))
    assert journals == ["journal-0.json", "journal-1.json", "journal-2.json"]


#: The settings of a run on Flink with two readers.
OF_TWO: dict[str, Any] = {"run": "run", "readers": 2, "stop_when_idle": 10 * SECOND, "stays": True}


@pytest.fixture
def two(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> list[Driven]:
    """Two readers of one run, which ends when nothing has come for ten seconds."""
    monkeypatch.setattr(shared_feed, "LOOKING_SECONDS", 0.0)
    monkeypatch.setattr(shared_feed, "READING_TIMES", 0)
    return [drive(reader=place, **OF_TWO) for place in (0, 1)]


def wait(two: list[Driven], seconds: int, *asked: int) -> None:
    """So many seconds go by, in which some of the readers are asked for a batch and have none."""
    for _ in range(seconds):
        for each in two:
            each.now += SECOND
        for number in asked or (0, 1):
            assert not two[number].take()


def test_a_reader_whose_partitions_are_idle_goes_on_while_another_reads(two: list[Driven]) -> None:
    for _ in range(20):
        two[1].come(0)
        two[1].commit()
        wait(two, 1)
    assert not any(each.reader.ended for each in two)
    wait(two, 11)
    assert all(each.reader.ended for each in two)


def test_all_readers_end_when_one_has_ended_though_something_has_come(two: list[Driven]) -> None:
    wait(two, 5)
    wait(two, 6, 1)
    assert not two[1].reader.ended
    two[1].put(batch(at(0)))
    assert not two[0].take()
    assert [each.reader.ended for each in two] == [True, False]
    assert not two[1].take()
    assert [each.reader.get_watermark() == FINISHED for each in two] == [True, True]


def test_a_reader_that_begins_anew_ends_though_the_others_live_on_and_have_ended(
    two: list[Driven], drive: Drive
) -> None:
    """The engine has gone back to a checkpoint, because one of two processes was lost after all had ended."""
    wait(two, 12)
    assert all(each.reader.ended for each in two)
    del reader._feeds["run", 1]
    anew = drive(reader=1, **OF_TWO)
    assert not anew.reader.ended
    assert not anew.take()
    assert anew.reader.get_watermark() == FINISHED


def test_readers_that_are_not_heard_stop_nobody_and_are_heard_later(
    two: list[Driven], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    with monkeypatch.context() as failing:
        failing.setattr(shared_feed, "CLAIMS", SimpleNamespace(write=CLAIMS.write, read=refuse))
        two[0].come(0)
        assert two[0].watermark is None
    assert [record.getMessage() for record in caplog.records] == [
        f"{two[0].reader.shared.feed_name}: other readers are not heard, which is tried again: refused"
    ]
    two[0].commit()
    wait(two, 12)
    wait(two, 1)
    assert all(each.reader.ended for each in two)


def test_progress_is_of_all_readers_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clocks(monkeypatch, lambda: NOW)
    runs = [Driven(tmp_path, run=run, reader=reader) for run, reader in (("one", 0), ("one", 1), ("two", 0))]
    assert progress("one") == Progress(None, 0, None, None)
    runs[2].come(-500)
    for driven, second in zip(runs[:2], (-60, -50), strict=True):
        driven.reader.shared.look()
        driven.put(batch(at(second)), published=at(second + 1))
        driven.take()
    assert progress("one") == Progress(at(-62), 2, Lag(59 * SECOND), NOW)
    runs[0].commit()
    runs[0].reader.get_watermark()
    assert progress("one") == Progress(at(-62), 1, Lag(59 * SECOND), NOW)
    assert progress("three") == Progress(None, 0, None, None)


def test_what_has_all_been_taken_is_behind_by_the_time_since_the_last_empty_answer(drive: Drive) -> None:
    driven = drive()
    driven.come(-500, published=NOW - WEEK)
    driven.now += 3 * SECOND
    assert progress(driven.reading.run).lag == Lag(WEEK + 3 * SECOND)
    # The feed is silent, so a week of lag was the age of the backlog alone.
    assert not driven.take()
    assert progress(driven.reading.run).lag == Lag(0)
    driven.now += SECOND
    assert progress(driven.reading.run).lag == Lag(SECOND)


def test_a_feed_that_says_how_far_it_is_behind_is_believed(drive: Drive) -> None:
    driven = drive()
    driven.come(-500, published=NOW - WEEK)
    driven.feed.said = Lag(7, 3)
    assert progress(driven.reading.run).lag == Lag(7, 3)


def test_a_reader_in_anothers_place_goes_on_with_its_feed_and_its_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clocks(monkeypatch, lambda: NOW)
    windows = Windows(10 * SECOND, 10 * SECOND)
    reading = Reading(Fake(), ("x",), windows, str(tmp_path), "taken over", ReadingOptions(DISORDER))
    made = source.Source(reading)
    first = made.create_reader(None, None)
    (feed,) = OPENED[reading.feed.label]
    first.shared.look()
    for second in (-20, -10):
        feed.arrived.append(FeedBatch([batch(at(second))], [], [f"r{second}"], NOW, oldest=NOW))
    assert first.start()
    mark = first.get_checkpoint_mark()
    again = made.create_reader(None, None)
    assert (first.ended, again.ended, len(OPENED[reading.feed.label])) == (True, False, 1)
    # A stage that lets go of the first one changes nothing.
    first.close()
    assert not feed.closed
    assert again.start()
    assert again.get_watermark() == Timestamp(micros=1000 * at(-20 - DISORDER / 1000))
    mark.finalize_checkpoint()
    assert feed.acknowledged == ["r-20"]
    assert again.get_watermark() == Timestamp(micros=1000 * at(-10 - DISORDER / 1000))
    other = source.Source(reading, 1).create_reader(None, None)
    assert (again.ended, other.ended, len(OPENED[reading.feed.label])) == (False, False, 2)
    for opened in (again, other):
        opened.close()
    assert feed.closed


def test_readers_in_each_others_place_are_forgotten_when_all_is_safe(drive: Drive) -> None:
    driven = drive()
    for second in (-50, -40, -30):
        driven.come(second)
        driven.commit()
        replaced(driven)
    assert len(reader._readers) == 1
    assert len(OPENED[driven.reading.feed.name]) == 1
    driven.reader.close()
    assert driven.feed.closed
    assert reader._readers == {}


def test_where_its_partitions_begin_is_in_the_journal_before_anything_is_read(drive: Drive) -> None:
    driven = drive(starts=((0, 5), (1, 9)))
    assert positions_before(driven.output) == {0: 5, 1: 9}
