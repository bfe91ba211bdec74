"""Time in successive cells: of some milliseconds, or of days and months by the clocks of a zone.

Times are in milliseconds since 1970-01-01T00:00:00Z, and lengths in milliseconds. A length that is a multiple
of :data:`~ldpbeam.times.MONTH` counts months of the calendar. With a clock, a length of whole days counts
days of the calendar, which have 23, 24 or 25 hours.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.resources
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ldpbeam.times import format_duration, months_in

Times = NDArray[np.int64]
DAY = 86_400_000
#: Days by a clock are counted from Monday 5 January 1970, so that weeks begin on Mondays.
MONDAY = 4 * DAY
#: Beyond any time.
_NEVER = 2**62
#: The most calendar days in a number of months.
_MOST_DAYS = {1: 31, 3: 92, 12: 366}


@dataclass(frozen=True)
class Clock:
    """The clocks of a zone.

    When they are turned back, the same time of day comes twice. Cells begin at the first one, so here the
    clocks stand still until they show a time for the first time.

    Attributes:
        zone: the IANA name of the zone.
        changes: (time, milliseconds from UTC to the zone from then on), ascending; the first also holds for
            all times before it.
    """

    zone: str
    changes: tuple[tuple[int, int], ...]

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of the zone's rules: if these change, the starts of cells may move."""
        return hashlib.sha256(repr(self.changes).encode()).hexdigest()[:16]

    @cached_property
    def _spans(self) -> tuple[Times, Times, Times]:
        """(the start of each span without a change, its offset, the latest time it or one before shows)."""
        starts, offsets = np.array(self.changes, dtype=np.int64).T
        shown = np.append(starts[1:] + offsets[:-1], _NEVER)
        return starts, offsets, np.maximum.accumulate(shown)

    def shows(self, times: Times) -> Times:
        """What the clocks show at some times, in milliseconds since they showed 1970-01-01T00:00."""
        starts, offsets, latest = self._spans
        span = np.searchsorted(starts, times, side="right") - 1
        before = np.append(-_NEVER, latest[:-1])[span]
        return np.asarray(np.maximum(times + offsets[span], before - 1))

    def first(self, shown: Times) -> Times:
        """The first times at which the clocks show these; later ones if they skip them."""
        starts, offsets, latest = self._spans
        span = np.searchsorted(latest, shown, side="right")
        return np.asarray(np.maximum(shown - offsets[span], starts[span]))

    def only(self, shown: Times) -> tuple[Times, NDArray[np.bool_]]:
        """The times at which the clocks show these, and whether that is exactly once."""
        starts, offsets, latest = self._spans
        begin = np.append(starts[:1], starts[1:] + offsets[1:])
        first = np.searchsorted(latest, shown, side="right")
        last = np.searchsorted(np.minimum.accumulate(begin[::-1])[::-1], shown, side="right") - 1
        return shown - offsets[first], first == last

    def name(self, window: tuple[int, int]) -> str:
        """A window in words, as 2026-03-08 (New York), 23 h; 2026-03-02 to 2026-03-08; or 2026-03."""
        before, first, last, after = (
            np.datetime64(shown, "ms")
            for shown in self.shows(np.array([window[0] - 1, window[0], window[1] - 1, window[1]])).tolist()
        )
        city, hours = self.zone.rpartition("/")[2].replace("_", " "), (window[1] - window[0]) / 3_600_000
        days = [time.astype("datetime64[D]") for time in (before, first, last, after)]
        if days[0] == days[1] or days[2] == days[3]:
            return f"{str(first)[:16]} to {str(last + 1)[:16]} ({city})".replace("T", " ")
        if days[1] == days[2]:
            return f"{days[1]} ({city})" + ("" if hours == 24 else f", {hours:g} h")
        months = [day.astype("datetime64[M]").astype(int) for day in days]
        whole, year = months[3] - months[1], 1970 + months[1] // 12
        if months[0] < months[1] and months[2] < months[3]:
            if whole == 1:
                return f"{str(days[1])[:7]} ({city})"
            if whole == 3 and months[1] % 3 == 0:
                return f"{year} quarter {months[1] % 12 // 3 + 1} ({city})"
            if whole == 12 and months[1] % 12 == 0:
                return f"{year} ({city})"
        return f"{days[1]} to {days[2]} ({city})"


def moment(text: str, clock: Clock | None = None) -> int:
    """The epoch milliseconds of ISO 8601 text; without a zone it is what a clock shows, or a date in UTC.

    Raises:
        ValueError: if the text is no time, or without a clock a time of the day that has no zone.
    """
    given = datetime.fromisoformat(text)
    if given.tzinfo is None and clock is not None:
        return int(clock.first(np.array([_since(given.replace(tzinfo=UTC))]))[0])
    if given.tzinfo is None and len(text) > len("2026-11-20"):
        raise ValueError("it has no zone")
    return _since(given if given.tzinfo else given.replace(tzinfo=UTC))


@lru_cache(16)
def clock_of(zone: str) -> Clock:
    """The clock of a zone, from 1900 to 2199, by the rules of the package ``tzdata``.

    The rules of the machine might be older, or differ from those of the next machine.

    Raises:
        ValueError: if there is no such zone.
    """
    rules, week = _zone(zone), timedelta(weeks=1)
    time, end = datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

    def offset_at(time: datetime) -> timedelta:
        offset = rules.utcoffset(rules.fromutc(time.replace(tzinfo=rules)))
        assert offset is not None
        return offset

    before = offset_at(time)
    changes = [(-_NEVER, _milliseconds(before))]
    while time < end:
        after = offset_at(time + week)
        if after != before:
            low, high = time, time + week
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // timedelta(seconds=2) * timedelta(seconds=1)
                low, high = (middle, high) if offset_at(middle) == before else (low, middle)
            changes.append((_since(high), _milliseconds(after)))
        time, before = time + week, after
    return Clock(zone, tuple(changes))


def _milliseconds(time: timedelta) -> int:
    return time // timedelta(milliseconds=1)


def _since(time: datetime) -> int:
    return _milliseconds(time - datetime(1970, 1, 1, tzinfo=UTC))


def rules_version() -> str:
    """The version of the rules of all zones."""
    return importlib.metadata.version("tzdata")


@lru_cache(16)
def _zone(name: str) -> zoneinfo.ZoneInfo:
    zones = importlib.resources.files("tzdata").joinpath("zones").read_text().split()
    if name not in zones:
        raise ValueError(f"{name!r} is no time zone; zones have names as in UTC and Europe/Berlin")
    with importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as stream:
        return zoneinfo.ZoneInfo.from_file(stream, name)


@dataclass(frozen=True)
class Cells:
    """Numbered cells of one length; each ends where the next begins.

    Attributes:
        length: the length of a cell.
        offset: how much later cells begin, in milliseconds of the clock.
        clock: the clock of the days and months; None for UTC, where cells are counted from 1970-01-01.
    """

    length: int
    offset: int = 0
    clock: Clock | None = None

    def numbers(self, times: Times) -> Times:
        """The number of the cell that holds each time."""
        if self.clock is not None:
            times = self.clock.shows(times)
        if months := months_in(self.length):
            since = (times - self.offset).astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
            return np.asarray(since // months)
        return np.asarray((times - self._origin) // self.length)

    def starts(self, numbers: Times) -> Times:
        """The starts of the cells with some numbers. A day that the clocks of a zone skip is empty."""
        if months := months_in(self.length):
            first = (numbers * months).astype("datetime64[M]").astype("datetime64[ms]")
            shown = first.astype(np.int64) + self.offset
        else:
            shown = numbers * self.length + self._origin
        return shown if self.clock is None else self.clock.first(shown)

    def number(self, time: int) -> int:
        """The number of the cell that holds a time."""
        if self._fixed:
            return (time - self.offset) // self.length
        return int(self.numbers(np.array([time]))[0])

    def start(self, number: int) -> int:
        """The start of a cell."""
        if self._fixed:
            return number * self.length + self.offset
        return int(self.starts(np.array([number]))[0])

    def holding(self, time: int) -> tuple[int, int]:
        """The start and the end of the cell that holds a time."""
        number = self.number(time)
        return self.start(number), self.start(number + 1)

    @property
    def _fixed(self) -> bool:
        return self.clock is None and not months_in(self.length)

    @property
    def _origin(self) -> int:
        return self.offset if self.clock is None else self.offset + MONDAY

    def most_in(self, length: int) -> int:
        """The most cells of another length that lie in one of these.

        Raises:
            ValueError: if a cell of the other length may lie in two of these.
        """
        months, other = months_in(self.length), months_in(length)
        if months and not other:
            if DAY % length == 0:
                return _MOST_DAYS[months] * DAY // length
        elif (other or not months) and self.length % length == 0:
            return self.length // length
        raise ValueError(
            f"{format_duration(self.length)} does not hold whole windows of {format_duration(length)}"
        )
