"""How a reader of the source of streams ends."""

from __future__ import annotations

import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from support.driven_source import NOW, SECOND, WEEK, Drive, at, batch, replaced

from ldpbeam.transforms.sources import shared_feed
from ldpbeam.transforms.state.journal import all_ended, ask_to_stop, ended_at


def test_asked_to_stop_it_takes_no_more_and_says_how_far_it_came(drive: Drive) -> None:
    driven = drive()
    ask_to_stop(driven.output, "another run")
    receipt = driven.come(-60, -50)
    driven.put(batch(at(-40)))
    assert driven.watermark == -62
    ask_to_stop(driven.output, driven.reading.run)
    assert not driven.take()
    assert driven.reader.get_watermark() == MAX_TIMESTAMP
    assert driven.feed.closed
    assert driven.stopped_at == at(-62)
    assert not driven.take()
    driven.commit()
    assert driven.feed.acknowledged == [receipt]


def test_a_reader_that_finishes_records_the_later_of_both_clocks(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = drive(stop_when_idle=SECOND)
    driven.come(-60)
    driven.commit()
    run = driven.output, driven.reading.run
    assert ended_at(*run) is None and not all_ended(*run, readers=1)
    driven.now += 2 * SECOND
    monkeypatch.setattr(shared_feed, "now", lambda: NOW - WEEK)  # somebody sets the clock of the machine
    assert not driven.take()
    assert ended_at(*run) == at(2)
    assert all_ended(*run, readers=1) and not all_ended(*run, readers=2)


def test_it_does_not_end_while_its_server_does_not_answer(drive: Drive) -> None:
    driven = drive(stop_when_idle=30 * SECOND)
    driven.feed.answers = False
    driven.now += 60 * SECOND
    assert not driven.take()
    assert not driven.feed.closed
    driven.feed.answers = True
    assert not driven.take()
    assert driven.feed.closed


def test_it_ends_when_nothing_has_come_for_so_long(drive: Drive) -> None:
    driven = drive(stop_when_idle=30 * SECOND)
    driven.now += 29 * SECOND
    driven.come(-5)
    driven.commit()
    driven.now += 30 * SECOND - 1
    assert not driven.take()
    assert driven.watermark is not None
    assert not driven.feed.closed
    driven.now += 1
    assert not driven.take()
    assert driven.reader.get_watermark() == MAX_TIMESTAMP
    assert driven.feed.closed
    # All windows close: that is no stop.
    assert driven.stopped_at is None


@pytest.mark.parametrize("anew", [False, True])
def test_it_does_not_end_before_all_is_safe_whichever_reader_handed_it_on(anew: bool, drive: Drive) -> None:
    driven = drive(stop_when_idle=30 * SECOND)
    driven.come(-5)
    mark = driven.mark()
    if anew:
        replaced(driven)
    driven.now += WEEK
    assert not driven.take()
    assert driven.watermark == -7
    mark.finalize_checkpoint()
    assert not driven.take()
    assert driven.reader.get_watermark() == MAX_TIMESTAMP


def test_without_being_asked_it_does_not_end(drive: Drive) -> None:
    driven = drive()
    driven.now += 52 * WEEK
    assert not driven.take()
    assert driven.watermark is None
    assert not driven.feed.closed
