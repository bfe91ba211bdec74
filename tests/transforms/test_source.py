"""The source of streams, driven by hand: its watermark, what it makes durable first, and how it ends."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.internal import pickler
from apache_beam.io.unbounded_source import _FinalizeCheckpointOnce
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.runners import direct
from ldpbeam.transforms.reports.batches import WATERMARK
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, DeadLetter, Disclosure
from ldpbeam.transforms.sources import reader, shared_feed, source
from ldpbeam.transforms.sources.feeds import Feed, FeedBatch, OpenFeed
from ldpbeam.transforms.sources.journal import OpenWindow, ask_to_stop, ended_at, named_windows, stopped_at
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.transforms.sources.reader import Progress, Taken, progress
from ldpbeam.transforms.sources.reading import Reading
from ldpbeam.transforms.sources.source import ReadStream, Unpack
from ldpbeam.windows import Windows

SECOND = 1000
WEEK = 7 * 86_400 * SECOND
#: The clock when a test begins, and the disorder of its source.
NOW, DISORDER = 1_750_000_000 * SECOND, 2 * SECOND
LETTER = DeadLetter("feed", 7, None, "not_json", "not JSON", 3, b"{")


def at(second: float) -> int:
    """An event time, so many seconds after the clock when a test begins."""
    return NOW + round(second * SECOND)


def batch(*times: int | None, attribute: str | Sequence[str | None] = "x") -> pa.RecordBatch:
    names = [attribute] * len(times) if isinstance(attribute, str) else list(attribute)
    return pa.RecordBatch.from_pydict(
        {"attribute": pa.array(names, pa.string()), "event_time": pa.array(times, pa.int64())}
    )


def windows_at(*seconds: float, attribute: str = "x") -> set[OpenWindow]:
    """The windows that start at these seconds."""
    return {OpenWindow(attribute, at(second), at(second + 10)) for second in seconds}


class Opened(OpenFeed):
    """A feed that is being read: what tests put into it, and what the source told it."""

    def __init__(self) -> None:
        self.arrived: deque[FeedBatch] = deque()
        self.acknowledged: list[str] = []
        self.closed = False
        self.answers = True
        self.before_acknowledging: Callable[[Sequence[str]], object] = lambda receipts: None
        self.said: Lag | None = None

    @property
    def lag(self) -> Lag | None:
        return self.said

    def take(self) -> FeedBatch | None:
        assert not self.closed
        return self.arrived.popleft() if self.arrived else None

    def acknowledge(self, receipts: Sequence[str]) -> None:
        self.before_acknowledging(receipts)
        self.acknowledged += receipts

    @property
    def silent(self) -> int | None:
        return shared_feed.elapsed() if self.answers and not self.arrived else None

    def close(self) -> None:
        assert not self.closed
        self.closed = True


#: What was opened, by the name of the feed: sources are pickled, and their feeds with them.
OPENED: dict[str, list[Opened]] = {}
#: What waits where a feed opens.
WAITING: dict[str, deque[FeedBatch]] = {}
_numbers = itertools.count()


@dataclass(frozen=True)
class Fake(Feed):
    label: str = field(default_factory=lambda: f"feed-{next(_numbers)}")
    done: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.label

    def open(self, share: Any = None) -> OpenFeed:
        opened = Opened()
        opened.arrived = WAITING.get(self.label, deque())
        OPENED.setdefault(self.label, []).append(opened)
        # A reader that is made anew for each bundle is never idle: the run would not end.
        assert len(OPENED[self.label]) < 20
        return opened


class Driven:
    """A reader of the source, driven as Beam drives it."""

    def __init__(self, output: Path, period: int = 10 * SECOND, reader: int = 0, **given: Any) -> None:
        self.now = NOW
        self.output = str(output)
        windows = Windows(10 * SECOND, period, 20 * SECOND)
        feed = Fake()
        own = {"feed": feed, "attributes": ("x", "y"), "windows": windows}
        self.reading = Reading(
            **{**own, "output": self.output, "run": feed.label, "disorder": DISORDER, **given}
        )
        self._numbers = itertools.count()
        source_of_one = source.Source(self.reading, reader)
        self.reader: Any = source_of_one.create_reader(None, None)
        self.feed = OPENED[feed.label][0]
        self._coder = source_of_one.get_checkpoint_mark_coder()
        self._started = False

    def put(
        self, *batches: pa.RecordBatch, letters: Sequence[DeadLetter] = (), published: int | None = None
    ) -> str:
        """A batch arrives that was published at this moment; gives its receipt."""
        receipt, now = f"r{next(self._numbers)}", self.now if published is None else published
        self.feed.arrived.append(FeedBatch(batches, letters, [receipt], now, oldest=now))
        return receipt

    def take(self) -> bool:
        """What Beam calls to have the next batch."""
        started, self._started = self._started, True
        taken: bool = self.reader.advance() if started else self.reader.start()
        return taken

    def come(self, *seconds: float, published: int | None = None, **given: Any) -> str:
        """Reports of these event times arrive where nothing was, and are taken."""
        self.reader.shared.look()
        receipt = self.put(batch(*map(at, seconds), **given), published=published)
        assert self.take()
        return receipt

    def mark(self) -> Any:
        """A mark, on the way that engines send it."""
        return self._coder.decode(self._coder.encode(self.reader.get_checkpoint_mark()))

    def commit(self) -> None:
        self.mark().finalize_checkpoint()

    @property
    def watermark(self) -> float | None:
        """In seconds after the clock when the test began; None before there is one."""
        reached = self.reader.get_watermark()
        return None if reached == MIN_TIMESTAMP else (reached.micros // 1000 - NOW) / SECOND

    @property
    def named(self) -> set[OpenWindow]:
        return named_windows(self.output, self.reading.run)

    @property
    def stopped_at(self) -> int | None:
        return stopped_at(self.output, self.reading.run)


Drive = Callable[..., Driven]


def _set_clocks(monkeypatch: pytest.MonkeyPatch, now: Callable[[], int]) -> None:
    """Both clocks of the source, that of the machine and the monotonic one, are a test's."""
    monkeypatch.setattr(shared_feed, "now", now)
    monkeypatch.setattr(shared_feed, "elapsed", now)
    monkeypatch.setattr(reader, "elapsed", now)


@pytest.fixture(autouse=True)
def no_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins without readers of another one."""
    monkeypatch.setattr(reader, "_readers", {})
    monkeypatch.setattr(reader, "_feeds", {})
    monkeypatch.setattr(reader, "LOOKING_SECONDS", 0.0)


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drive]:
    """Makes a reader, and lets the source's clock be that of the last one made."""

    def make(**given: Any) -> Driven:
        driven = Driven(tmp_path, **given)
        _set_clocks(monkeypatch, lambda: driven.now)
        return driven

    _set_clocks(monkeypatch, lambda: NOW)
    yield make


# What any course of events keeps is in the model below: the watermark never goes back nor past the clock, and
# nothing is acknowledged that is not durable and named in the journal.

# The watermark.


def test_it_waits_for_the_oldest_report_until_it_is_safe(drive: Drive) -> None:
    driven = drive()
    driven.come(-60, -50)
    assert driven.watermark == -62
    first = driven.mark()
    driven.come(-40, -55)
    second = driven.mark()
    assert driven.watermark == -62
    first.finalize_checkpoint()
    assert driven.watermark == -57
    second.finalize_checkpoint()
    assert driven.watermark == -42


def test_while_what_came_last_is_not_safe_the_clock_does_not_move_it(drive: Drive) -> None:
    driven = drive()
    driven.come(-10)
    driven.now += WEEK
    assert not driven.take()
    assert driven.watermark == -12
    driven.commit()
    assert driven.watermark == WEEK / SECOND - 12
    driven.put(letters=[LETTER])
    assert driven.take()
    driven.now += SECOND
    assert not driven.take()
    assert driven.watermark == WEEK / SECOND - 12


def test_what_has_no_event_time_leaves_it_where_it_is(drive: Drive) -> None:
    driven = drive()
    driven.put(letters=[LETTER])
    assert driven.take()
    assert driven.watermark is None
    driven.come(-60)
    driven.put(batch(None, None), letters=[LETTER])
    assert driven.take()
    assert driven.watermark == -62
    driven.commit()
    assert driven.watermark == -62


def test_event_times_in_another_unit_neither_hold_the_watermark_nor_name_windows(drive: Drive) -> None:
    driven = drive()
    driven.reader.shared.look()
    driven.put(batch(at(-60), at(-60) // 1000, at(-60) * 1000))
    assert driven.take()
    assert driven.watermark == -62
    driven.commit()
    assert driven.named == windows_at(-60)


def test_a_parcel_is_of_its_oldest_report_so_that_nothing_of_it_is_late(drive: Drive) -> None:
    driven = drive()
    driven.come(-40, -60, -50)
    assert driven.reader.get_current_timestamp().micros == 1000 * at(-60)
    assert driven.reader.get_current().watermark == at(-62)
    driven.put(letters=[LETTER])
    driven.take()
    assert driven.reader.get_current_timestamp().micros == 1000 * at(-62)


# Marks: what is acknowledged, and when.


def test_what_cannot_be_written_in_the_journal_is_not_acknowledged(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = drive()
    driven.come(-25)

    def full_disk(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
        patch.setattr(driven.reader.shared.journal, "_write", full_disk)
        driven.commit()
    assert driven.feed.acknowledged == []
    assert driven.watermark == -27


def test_a_mark_of_a_reader_that_is_not_in_this_process_does_nothing(drive: Drive) -> None:
    driven = drive()
    driven.come(-5)
    reader.Mark("of another process", 1, {}).finalize_checkpoint()
    assert driven.feed.acknowledged == []
    assert driven.watermark == -7


def refuse(receipts: Sequence[str]) -> None:
    raise OSError("refused")


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


# The journal.


def test_it_names_the_windows_of_the_attributes_of_the_study(drive: Drive) -> None:
    driven = drive()
    mixed = batch(*map(at, (1, 11, 21, 31)), None, attribute=["x", "y", "z", None, "x"])
    whole = batch(at(41)).select(["event_time"])
    driven.put(
        mixed,
        whole,
        whole.replace_schema_metadata({"attribute": "y"}),
        whole.replace_schema_metadata({"attribute": "z"}),
        batch(),
        letters=[LETTER],
    )
    driven.take()
    driven.commit()
    assert driven.named == windows_at(0) | windows_at(10, 40, attribute="y")


def test_of_windows_that_slide_it_names_all_that_hold_a_report(drive: Drive) -> None:
    driven = drive(period=4 * SECOND)
    driven.come(-7)
    driven.commit()
    held = {(own.start, own.end) for own in driven.named}
    assert held == {
        (start, start + 10 * SECOND) for start in range(at(-17) + 1, at(-7) + 1) if not start % (4 * SECOND)
    }


def test_reports_a_day_ahead_of_the_clock_have_no_window(drive: Drive) -> None:
    driven = drive()
    driven.come(86_400, 86_399.999)
    driven.commit()
    assert driven.named == windows_at(86_390)


@pytest.mark.parametrize(("then", "kept"), [(-1968.001, {-3000, -1970}), (-1968, {-1970})])
def test_windows_leave_it_a_hundred_sizes_and_the_lateness_after_their_end(
    then: float, kept: set[int], drive: Drive
) -> None:
    driven = drive()
    driven.come(-3000)
    driven.commit()
    # It ends at -2990, may be forgotten 1000 + 20 seconds later, and two more are the disorder.
    driven.come(then)
    driven.commit()
    assert driven.named == windows_at(*kept)


def test_every_reader_has_its_own(tmp_path: Path) -> None:
    run = Driven(tmp_path).reading
    several = Reading(**{**vars(run), "readers": 3})
    sources: list[Any] = source.Source(several).split(20)
    readers = [one.create_reader(None, None) for one in sources]
    assert len({reader.shared.journal.path for reader in readers}) == 3


# How a reader ends.


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
    assert ended_at(driven.output, driven.reading.run) is None
    driven.now += 2 * SECOND
    monkeypatch.setattr(shared_feed, "now", lambda: NOW - WEEK)  # somebody sets the clock of the machine
    assert not driven.take()
    assert ended_at(driven.output, driven.reading.run) == at(2)


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


def test_progress_is_of_all_readers_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _set_clocks(monkeypatch, lambda: NOW)
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


def test_a_parcel_is_unpacked_to_batches_dead_letters_and_counts() -> None:
    own = batch(at(1), at(2)).replace_schema_metadata({"file": "feed"})
    feed_batch = FeedBatch([own, batch(at(3))], [LETTER], ["r"], NOW, ["in/a.avro"])
    given = list(Unpack(Disclosure(records=True)).process(Taken(feed_batch, 0)))
    tagged = [(one.tag, one.value) for one in given if isinstance(one, beam.pvalue.TaggedOutput)]
    assert [value for tag, value in tagged if tag == COUNTS] == [
        ("in", 6),
        ("damaged_file/in/a.avro", 1),
        ("dead_letters_by_reason/not_json", 3),
        ("dead_letters", 3),
    ]
    (letters,) = (value for tag, value in tagged if tag == DEAD)
    assert letters.to_pylist()[0]["record"] == b"{"
    batches = [one for one in given if isinstance(one, pa.RecordBatch)]
    assert [one.num_rows for one in batches] == [2, 1]
    assert batches[0].schema.metadata == {b"file": b"feed", WATERMARK: b"0"}
    assert batches[1].schema.metadata == {WATERMARK: b"0"}
    plain = next(
        iter(one for one in Unpack(Disclosure()).process(Taken(feed_batch, None)) if hasattr(one, "schema"))
    )
    assert plain.schema.metadata == {b"file": b"feed"}


#: What may happen to a source: a batch of some event times comes, the clock moves on, a mark is made, one of
#: those made is finalised, or all acknowledgements fail from now on, or work again.
HAPPENINGS = st.lists(
    st.tuples(st.just("come"), st.lists(st.integers(-120, 20), min_size=1, max_size=3))
    | st.tuples(st.just("wait"), st.integers(0, 30))
    | st.tuples(st.just("mark"), st.none())
    | st.tuples(st.just("finalise"), st.integers(0, 10))
    | st.tuples(st.just("fail"), st.booleans()),
    max_size=25,
)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(HAPPENINGS)
def test_whatever_happens_the_source_keeps_its_promises(
    tmp_path_factory: pytest.TempPathFactory, happenings: list[tuple[str, Any]]
) -> None:
    driven = Driven(tmp_path_factory.mktemp("out"))
    with pytest.MonkeyPatch.context() as patch:
        _set_clocks(patch, lambda: driven.now)
        _see_promises_kept(driven, happenings)


def _see_promises_kept(driven: Driven, happenings: list[tuple[str, Any]]) -> None:
    unsafe: dict[str, list[int]] = {}  # the event times of what was taken and not acknowledged, by receipt
    marks: list[tuple[Any, set[str]]] = []
    durable: set[str] = set()
    fails, said = False, None

    def acknowledging(receipts: Sequence[str]) -> None:
        assert set(receipts) <= durable
        assert driven.named >= {
            OpenWindow("x", time // 10_000 * 10_000, time // 10_000 * 10_000 + 10_000)
            for receipt in receipts
            for time in unsafe.get(receipt, [])
        }
        if fails:
            raise OSError("refused")

    driven.feed.before_acknowledging = acknowledging
    for what, how in [*happenings, ("fail", False), ("mark", None), ("finalise", 10**6)]:
        if what == "come":
            times = [driven.now + second * SECOND for second in how]
            unsafe[driven.put(batch(*times))] = times
            assert driven.take()
        elif what == "wait":
            driven.now += how * SECOND
            assert not driven.take()
        elif what == "mark":
            marks.append((driven.mark(), set(unsafe)))
        elif what == "fail":
            fails = how
        elif marks:
            mark, taken = marks[min(how, len(marks) - 1)]
            durable |= taken
            # What could not be acknowledged before is tried again with every mark.
            if fails and durable & set(unsafe):
                with pytest.raises(OSError, match="refused"):
                    mark.finalize_checkpoint()
            else:
                mark.finalize_checkpoint()
                unsafe = {receipt: times for receipt, times in unsafe.items() if receipt not in durable}
        assert set(driven.feed.acknowledged).isdisjoint(unsafe)
        reached = driven.watermark
        if reached is not None:
            assert said is None or reached >= said
            assert at(reached) <= driven.now - DISORDER
            oldest = min((time for times in unsafe.values() for time in times), default=None)
            assert oldest is None or reached == said or at(reached) <= oldest - DISORDER
        said = reached
    assert unsafe == {}
    assert progress(driven.reading.run).pending == 0


#: What pipelines gave, by the name of the feed: the event times of decoded reports, and counts.
GIVEN: dict[str, tuple[list[int], Counter[str]]] = {}


def _take_down(batch: pa.RecordBatch, label: str) -> None:
    GIVEN[label][0].extend(batch.column("event_time").to_pylist())


def _count(pair: tuple[str, int], label: str) -> None:
    GIVEN[label][1][pair[0]] += pair[1]


MANY = tuple(f"part-{number}" for number in range(1000))


@pytest.mark.parametrize("done", [(), MANY], ids=len)
def test_on_an_engine_one_reader_reads_a_run_to_its_end(
    done: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BUNDLE_SECONDS", 1e-6)
    monkeypatch.setattr(source, "POLL_SECONDS", 0.01)
    feed = Fake(done=done)
    times = [at(second) for second in range(-40, 0)]
    WAITING[feed.name] = deque(
        FeedBatch([batch(time)], [LETTER] if time == at(-10) else [], [f"r{time}"], NOW) for time in times
    )
    # The clock of an engine cannot be set.
    windows = Windows(10 * SECOND, 10 * SECOND, max_age=2**42)
    reading = Reading(feed, ("x",), windows, str(tmp_path), feed.name, DISORDER, stop_when_idle=200)
    GIVEN[feed.name] = [], Counter()
    with beam.Pipeline(runner=direct.runner()) as pipeline:
        read = pipeline | ReadStream(reading, Disclosure())
        _ = read.decoded | "TakeDown" >> beam.Map(_take_down, feed.name)
        _ = read[COUNTS] | "Count" >> beam.Map(_count, feed.name)
    decoded, counts = GIVEN[feed.name]
    assert sorted(decoded) == times
    assert counts == {"in": 43, "dead_letters_by_reason/not_json": 3, "dead_letters": 3}
    (opened,) = OPENED[feed.name]
    assert opened.acknowledged == [f"r{time}" for time in times]
    assert opened.closed
    assert named_windows(str(tmp_path), feed.name) == windows_at(-40, -30, -20, -10)


def test_a_source_is_the_same_bytes_wherever_it_has_been() -> None:
    windows = Windows(10 * SECOND, 10 * SECOND)
    made = pickler.dumps(source.Source(Reading(Fake(done=MANY), ("x",), windows, "out", "run", DISORDER)))
    # A worker never has the source that was made, but what came over the wire.
    first = pickler.dumps(pickler.loads(made))
    assert pickler.dumps(pickler.loads(first)) == first


def test_a_reader_in_anothers_place_goes_on_with_its_feed_and_its_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_clocks(monkeypatch, lambda: NOW)
    windows = Windows(10 * SECOND, 10 * SECOND)
    reading = Reading(Fake(), ("x",), windows, str(tmp_path), "taken over", DISORDER)
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


def replaced(driven: Driven) -> None:
    """The engine gives the next bundle to another copy of the reading stage, with readers of its own."""
    driven.reader = source.Source(driven.reading).create_reader(None, None)


def test_what_any_reader_before_it_handed_on_holds_the_watermark_until_it_is_safe(drive: Drive) -> None:
    driven = drive()
    first = driven.come(-60)
    mark = driven.mark()
    replaced(driven)
    assert not driven.take()
    replaced(driven)
    driven.come(-10)
    driven.commit()
    assert driven.watermark == -62
    mark.finalize_checkpoint()
    assert driven.feed.acknowledged[-1] == first
    assert driven.watermark == -12


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
