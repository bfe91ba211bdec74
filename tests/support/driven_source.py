"""A reader of the source of streams that tests drive by hand, with a feed of their own."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources import reader, shared_feed, source
from ldpbeam.transforms.sources.feeds import Feed, FeedBatch, FeedState, OpenFeed
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.transforms.sources.reading import Reading, ReadingOptions
from ldpbeam.transforms.state.journal import named_windows, stopped_at
from ldpbeam.transforms.state.records import OpenWindow
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
        #: How often it was told that the stages of the process have passed on what was taken.
        self.passes = 0
        self.closed = False
        self.answers = True
        self.before_acknowledging: Callable[[Sequence[str]], object] = lambda receipts: None
        self.said: Lag | None = None
        self.at: Mapping[int, int] = {}

    @property
    def state(self) -> FeedState:
        silent = shared_feed.elapsed() if self.answers and not self.arrived else None
        return FeedState({0: silent}, self.at, lag=self.said)

    def take(self) -> FeedBatch | None:
        assert not self.closed
        return self.arrived.popleft() if self.arrived else None

    def passed(self) -> None:
        self.passes += 1

    def acknowledge(self, receipts: Sequence[str]) -> None:
        self.before_acknowledging(receipts)
        self.acknowledged += receipts

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
    starts: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        return self.label

    def open(self, share: Any = None) -> OpenFeed:
        opened = Opened()
        opened.arrived = WAITING.get(self.label, deque())
        opened.at = dict(self.starts)
        OPENED.setdefault(self.label, []).append(opened)
        # A reader that is made anew for each bundle is never idle: the run would not end.
        assert len(OPENED[self.label]) < 20
        return opened


class Driven:
    """A reader of the source, driven as Beam drives it."""

    def __init__(self, output: Path, period: int = 10 * SECOND, reader: int = 0, **given: Any) -> None:
        self.now = NOW
        self.output = str(output)
        windows = given.pop("windows", Windows(10 * SECOND, period, 20 * SECOND, most_open=10**6))
        feed = Fake(starts=given.pop("starts", ()))
        own = {"feed": feed, "attributes": ("x", "y"), "windows": windows}
        options = ReadingOptions(given.pop("disorder", DISORDER), given.pop("stop_when_idle", None))
        self.reading = Reading(
            **{**own, "output": self.output, "run": feed.label, "options": options, **given}
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


def set_clocks(monkeypatch: pytest.MonkeyPatch, now: Callable[[], int]) -> None:
    """Both clocks of the source, that of the machine and the monotonic one, are a test's."""
    monkeypatch.setattr(shared_feed, "now", now)
    monkeypatch.setattr(shared_feed, "elapsed", now)
    monkeypatch.setattr(reader, "elapsed", now)


def refuse(*_: Any) -> None:
    raise OSError("refused")


def replaced(driven: Driven) -> None:
    """The engine gives the next bundle to another copy of the reading stage, with readers of its own."""
    driven.reader = source.Source(driven.reading).create_reader(None, None)
