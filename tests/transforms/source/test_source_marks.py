"""What the source of streams acknowledges, and when: marks, and readers that are replaced."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Sequence

import pytest
from apache_beam.io.unbounded_source import _FinalizeCheckpointOnce
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from support.driven_source import SECOND, WEEK, Drive, refuse, replaced

from ldpbeam.transforms.sources import reader, shared_feed
from ldpbeam.transforms.sources.reader import progress
from ldpbeam.transforms.state.journal import ask_to_stop


def test_what_cannot_be_written_in_the_journal_is_not_acknowledged(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = drive()
    driven.come(-25)

    def full_disk(**_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
        patch.setattr(driven.reader.shared.journal, "_write", full_disk)
        driven.commit()
    assert driven.feed.acknowledged == []
    assert driven.watermark == -27


def test_a_batch_has_passed_when_a_mark_is_asked_for_by_who_took_it_and_not_when_the_stages_fail(
    drive: Drive,
) -> None:
    driven = drive()
    driven.come(-5)
    # An engine divides a bundle, while the batch is in the stages after this one.
    other = threading.Thread(target=driven.mark)
    other.start()
    other.join()
    assert driven.feed.passes == 0
    driven.mark()
    assert driven.feed.passes == 1
    driven.come(-4)
    driven.reader.close()
    assert driven.feed.passes == 1


def test_a_mark_of_a_reader_that_is_not_in_this_process_does_nothing(drive: Drive) -> None:
    driven = drive()
    driven.come(-5)
    reader.Mark("of another process", 1, {}).finalize_checkpoint()
    assert driven.feed.acknowledged == []
    assert driven.watermark == -7


def test_what_could_not_be_acknowledged_is_not_safe_and_is_tried_again_at_the_next_mark(
    drive: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    driven = drive()
    driven.feed.before_acknowledging = refuse
    receipt = driven.come(-5)
    with pytest.raises(OSError, match="refused"):
        driven.commit()
    # Beam logs it and goes on.
    _FinalizeCheckpointOnce(driven.mark())()
    assert "refused" in caplog.text
    assert driven.watermark == -7
    assert progress(driven.reading.run).pending == 1
    driven.feed.before_acknowledging = lambda receipts: None
    assert not driven.take()
    driven.commit()
    assert driven.feed.acknowledged == [receipt]
    assert driven.watermark == -7
    assert progress(driven.reading.run).pending == 0


def test_what_could_not_be_acknowledged_is_tried_again_though_its_reader_has_been_replaced(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else its messages would be held for ever, and the stream would neither end nor close a window."""
    monkeypatch.setattr(shared_feed, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(shared_feed, "FEEDS", logging.getLogger("said of feeds"))
    caplog.set_level("WARNING", logger="said of feeds")
    driven = drive(stop_when_idle=SECOND)
    driven.feed.before_acknowledging = refuse
    receipt = driven.come(-5)
    with pytest.raises(OSError, match="refused"):
        driven.commit()
    replaced(driven)
    for _ in range(3):
        assert not driven.take()
    assert [record.getMessage() for record in caplog.records if record.name == "said of feeds"] == [
        f"{driven.reading.feed.name}: reports are counted and cannot be acknowledged, which is tried again: "
        "refused"
    ]
    driven.feed.before_acknowledging = lambda receipts: None
    driven.now += SECOND
    assert not driven.take()
    assert driven.feed.acknowledged == [receipt]
    assert driven.reader.get_watermark() == MAX_TIMESTAMP
    assert reader._readers == {}


def test_two_marks_at_once_are_acknowledged_one_after_the_other(drive: Drive) -> None:
    driven = drive()
    inside, entered, most = [0], threading.Event(), [0]

    def linger(receipts: Sequence[str]) -> None:
        inside[0] += 1
        most[0] = max(inside[0], most[0])
        if entered.is_set():
            second_entered.set()
        entered.set()
        second_entered.wait(0.5)
        inside[0] -= 1

    second_entered = threading.Event()
    driven.feed.before_acknowledging = linger
    marks = []
    for second in (-9, -8):
        driven.come(second)
        marks.append(driven.mark())
    threads = [threading.Thread(target=mark.finalize_checkpoint) for mark in marks]
    threads[0].start()
    assert entered.wait(30)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert most[0] == 1


def test_what_was_taken_is_acknowledged_after_the_engine_closed_the_reader(drive: Drive) -> None:
    driven = drive()
    receipt = driven.come(-5)
    mark = driven.mark()
    driven.reader.close()
    driven.reader.close()
    assert driven.feed.closed
    assert driven.feed.acknowledged == []
    mark.finalize_checkpoint()
    assert driven.feed.acknowledged == [receipt]
    assert driven.stopped_at is None


@pytest.mark.parametrize("ending", ["idle", "closed", "stopped", "stopped before all is safe"])
def test_a_reader_that_has_ended_is_forgotten_when_all_is_safe(ending: str, drive: Drive) -> None:
    driven = drive(stop_when_idle=SECOND if ending == "idle" else None)
    driven.come(-5)
    if ending != "stopped before all is safe":
        driven.commit()
    driven.now += WEEK
    if ending.startswith("stopped"):
        ask_to_stop(driven.output, driven.reading.run)
    if ending == "closed":
        driven.reader.close()
    else:
        assert not driven.take()
    if ending == "stopped before all is safe":
        assert reader._readers
    driven.commit()
    assert reader._readers == {}


def test_a_reader_keeps_no_batch_that_its_mark_covers(drive: Drive) -> None:
    # Each of the engine's copies of the reading stage keeps a reader, and each batch may have megabytes.
    driven = drive()
    driven.come(-5)
    (batch,) = driven.reader.get_current().batch.batches
    kept = weakref.ref(batch)
    del batch
    assert kept() is not None
    driven.mark()
    assert kept() is None
