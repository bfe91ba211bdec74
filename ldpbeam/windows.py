"""The arithmetic of event-time windows and spans.

Every time and duration is in milliseconds, times since 1970-01-01T00:00:00Z. A window is a pair of integers
(start, end); it holds the times start <= time < end. Windows are aligned: one starts with each cell of the
length of the period (:mod:`ldpbeam.cells`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.cells import DAY, Cells, Clock
from ldpbeam.times import format_duration, months_in, rfc3339

#: A window: (start, end).
Bounds = tuple[int, int]

#: The end of an open span, beyond every event time.
FAR = 2**62
#: A report dated this many milliseconds or more ahead of the clock is out of range. No client's clock is that
#: wrong, and the report's window would stay open until then.
FUTURE = DAY
#: A stream remembers that a window is closed for this many window sizes after the window's last possible
#: report: a report that was not late at the source may take that long to arrive.
REMEMBERED_WINDOWS = 100
#: By default, a stream accepts reports up to this age, or up to this many window periods if that is longer.
OLDEST, OLDEST_WINDOWS = 7 * DAY, 1_000


@dataclass(frozen=True)
class Windows:
    """Windows of one size; one starts every period.

    Attributes:
        size: the length of a window.
        period: the time from the start of one window to the start of the next, at most ``size``. If it is
            shorter than ``size``, windows slide, and a report lies in several.
        allowed_lateness: how long after its end a stream's window still accepts reports.
        early_reports: the number of further reports after which a stream estimates an open window again; None
            for never.
        offset: how much later windows begin than the days, weeks or months of a calendar, or than multiples
            of the period since 1970-01-01T00:00:00Z.
        clock: the clock of the windows' days and months; None for UTC.
        max_age: the age from which on reports are out of range in a stream; None for 7 days, or 1,000 periods
            if that is more, plus the allowed lateness.
        joined: the size of longer windows, in which the reports of a user in several windows are joined; None
            for none.

    Raises:
        ValueError: if ``period`` is not above zero and at most ``size``, ``allowed_lateness`` is negative,
            ``joined`` does not hold several whole windows, or there are no such days or months.
    """

    size: int
    period: int
    allowed_lateness: int = 0
    early_reports: int | None = None
    max_age: int | None = None
    joined: int | None = None
    offset: int = 0
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if not 0 < self.period <= self.size:
            raise ValueError("period must be above zero and at most size")
        if bool(months_in(self.size)) != bool(months_in(self.period)):
            raise ValueError("size and period are both in months, quarters or years, or neither is")
        check_calendar((self.size, self.period, self.joined or self.size), self.offset, self.clock)
        if self.allowed_lateness < 0:
            raise ValueError("allowed_lateness must not be negative")
        if self.joined is not None:
            if self.slides:
                raise ValueError("joined is for windows that do not slide: leave out period or joined")
            if self.joined <= self.size or not _holds_whole(self.cells(self.joined), self.size):
                raise ValueError(
                    f"joined must be two or more times size ({format_duration(self.size)}), found "
                    f"{format_duration(self.joined)}"
                )

    @property
    def slides(self) -> bool:
        """Whether windows overlap, so that reports lie in several."""
        return self.period < self.size

    @property
    def oldest_age(self) -> int:
        """The greatest age, in milliseconds, of a stream's reports."""
        if self.max_age is not None:
            return self.max_age
        return max(OLDEST, OLDEST_WINDOWS * self.period) + self.allowed_lateness

    def plausible(self, now: int) -> Span:
        """The event times that a stream accepts at a time of its clock: neither too old nor in the future."""
        return Span(now - self.oldest_age, now + FUTURE)

    def cells(self, length: int) -> Cells:
        """Cells of another length by the same clock."""
        return Cells(length, self.offset, self.clock)

    @cached_property
    def each_joined(self) -> int:
        """The most windows that are joined by user in a longer one; 1 if none are."""
        return 1 if self.joined is None else self.cells(self.joined).most_in(self.size)

    def longer(self, window: Bounds) -> Bounds:
        """The window of the size ``joined`` that holds a window."""
        assert self.joined is not None
        return self.cells(self.joined).holding(window[0])

    def is_longer(self, window: Bounds) -> bool:
        """Whether a window is one of the size ``joined``."""
        return self.joined is not None and window == self.longer(window)

    @cached_property
    def steps(self) -> Cells:
        """The longest cells that divide every window: all reports in a cell share their windows."""
        return self.cells(math.gcd(self.size, self.period))

    @property
    def remembered(self) -> int:
        """How long after a window's last possible report a stream remembers that the window is closed."""
        return REMEMBERED_WINDOWS * self.size

    def windows_of(self, time: int) -> list[Bounds]:
        """The windows that hold an event time, the latest start first."""
        return self.of_step(self.steps.number(time))

    def of_step(self, number: int) -> list[Bounds]:
        """The windows that hold the step with a number, the latest start first."""
        period, size = (length // self.steps.length for length in (self.period, self.size))
        numbers = range(number - number % period, number - size, -period)
        return self._beginning(numbers[::-1])[::-1]

    def next(self, window: Bounds) -> Bounds:
        """The window that starts one period later."""
        return self.windows_of(self.cells(self.period).holding(window[0])[1])[0]

    def between(self, first: int, last: int) -> list[Bounds]:
        """The windows that start from one time to a later one, both included, earliest first."""
        period = self.period // self.steps.length
        start, stop = self.steps.number(first), self.steps.number(last) + 1
        return self._beginning(range(start - start % period, stop, period))

    def _beginning(self, numbers: range) -> list[Bounds]:
        """The windows that begin with the steps with some numbers, in order."""
        steps, size = self.steps, self.size // self.steps.length
        if self.clock is None:
            return [(steps.start(number), steps.start(number + size)) for number in numbers]
        firsts = np.array(numbers, dtype=np.int64)
        starts, ends = steps.starts(firsts).tolist(), steps.starts(firsts + size).tolist()
        # A window that slides may begin with a day that the clocks skip: it is the next one.
        return list(dict(zip(starts, ends, strict=True)).items())


def check_calendar(lengths: Sequence[int], offset: int, clock: Clock | None) -> None:
    """Check that windows of some lengths can begin at an offset, by a clock.

    Raises:
        ValueError: if they cannot.
    """
    if clock is not None and any(not months_in(length) and length % DAY for length in lengths):
        raise ValueError(
            "zone is for windows of whole days, weeks, months, quarters or years: leave it out, because "
            "shorter windows are the same in all zones, or give offset: 30m where their hours begin later"
        )
    longest = 28 * DAY if any(map(months_in, lengths)) else max(*lengths, 0 if clock is None else 7 * DAY)
    if not 0 <= offset < longest:
        raise ValueError(
            f"offset must be below {format_duration(longest)}, found {format_duration(offset)}: it is how "
            "much later a window begins"
        )


def _holds_whole(cells: Cells, length: int) -> bool:
    try:
        return cells.most_in(length) > 1
    except ValueError:
        return False


@dataclass(frozen=True)
class Span:
    """The event times start <= time < stop."""

    start: int = -FAR
    stop: int = FAR

    @property
    def bounded(self) -> bool:
        """Whether any event time lies outside."""
        return self.start > -FAR or self.stop < FAR

    def outside(self, times: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each event time lies outside."""
        return np.asarray((times < self.start) | (times >= self.stop))

    def holds(self, window: Bounds | None) -> bool:
        """Whether a window lies inside; the window over everything always does."""
        return window is None or (self.start <= window[0] and window[1] <= self.stop)

    def cut(self, windows: Windows | None) -> list[Bounds]:
        """The longer windows that lie only partly inside, so that their users are not joined."""
        if windows is None or windows.joined is None:
            return []
        ends = [end for end in (self.start, self.stop) if abs(end) < FAR]
        longer = [windows.longer((end, end)) for end in ends]
        return list(dict.fromkeys(cut for cut, end in zip(longer, ends, strict=True) if cut[0] != end))


EVERYTHING = Span()


def times_of(window: Bounds | None, clock: Clock | None = None) -> str:
    """A window's times as text: by its name on a clock, or in UTC."""
    if window is not None and clock is not None:
        return clock.name(window)
    return "all" if window is None else f"{rfc3339(window[0])} to {rfc3339(window[1])}"


def name_of(window: Bounds, clock: Clock | None) -> str:
    """The name of a window: its days or months by a clock, or else its start."""
    return rfc3339(window[0]) if clock is None else clock.name(window)


def counted_until(windows: Windows | None, window: Bounds | None, span: Span = EVERYTHING) -> int:
    """The event time before which this window counts its reports; the next window counts later ones.

    Sliding windows share reports. Each report is counted once, in the last-starting window inside the span.
    Reports that precede it there are also in all its other windows, so a report that is kept in any window is
    kept in that one.

    Args:
        windows: the windows of the study; None for one window over everything.
        window: the window that counts; None for the one over everything.
        span: windows outside it are not estimated.
    """
    if windows is None or window is None or not windows.slides:
        return FAR
    later = windows.next(window)
    return later[0] if span.holds(later) else FAR


def time_text(time: int, clock: Clock | None) -> str:
    """A time as text: what a clock shows, or in UTC."""
    return rfc3339(time) if clock is None else str(np.datetime64(int(clock.shows(np.array([time]))[0]), "m"))


def whole_windows(windows: Windows, given: Span) -> Span:
    """The span of the windows inside a given span.

    Raises:
        ValueError: if none does; the text names the nearest span of whole windows.
    """
    periods, steps = windows.cells(windows.period), windows.steps
    size, period = (length // steps.length for length in (windows.size, windows.period))

    def end(number: int) -> int:
        """The end of the window of a period."""
        return steps.start(number * period + size)

    first = None if given.start == -FAR else periods.number(given.start - 1) + 1
    last = None if given.stop == FAR else (steps.number(given.stop) - size) // period
    if first is None or last is None or first <= last:
        return Span(-FAR if first is None else periods.start(first), FAR if last is None else end(last))
    first = last = periods.number(given.start)
    while end(last) < given.stop:
        last += 1
    origin, begin, until = (
        time_text(time, windows.clock) for time in (steps.start(0), periods.start(first), end(last))
    )
    raise ValueError(
        f"no window of {format_duration(windows.size)} lies inside; one starts every "
        f"{format_duration(windows.period)}, counted from {origin}; the nearest span of whole windows is "
        f"{begin} to {until}"
    )
