"""Numbers, times and lists as text for readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

_DAY = timedelta(days=1)
_Ends = tuple[float, float] | None


def counted(n: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 report, 2,000 reports."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def number(value: float | None) -> str:
    """Four digits, with commas in the thousands; an empty text for None."""
    if value is None:
        return ""
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    text = f"{value:,.4g}"
    return text if "e" not in text else f"{value:.3g}"


def rounded(value: float | None, ends: _Ends = None, *, share: bool = False) -> str:
    """A number with as many digits as its interval justifies.

    A unit of the last digit is at most a third of the interval's half-width. If this leaves fewer than two
    significant digits, there is one more.

    Args:
        value: the number; None for an empty text.
        ends: its interval; without one, the number has four digits.
        share: whether it is a share, which is written as a percentage.
    """
    return _rounded(value, ends, share, round, 6)


def rounded_ends(ends: _Ends, *, share: bool = False) -> str:
    """The two ends of an interval, rounded outward by at most a twentieth of its width; "" for None."""
    if ends is None:
        return ""
    ways = (math.floor, math.ceil)
    return " to ".join(_rounded(end, ends, share, way, 20) for end, way in zip(ends, ways, strict=True))


def _rounded(value: float | None, ends: _Ends, share: bool, way: Callable[[float], int], parts: int) -> str:
    width = 0.0 if ends is None else ends[1] - ends[0]
    # More digits than a double has say nothing; neither does a width that is not a number.
    if value is None or not 1e-200 < width < math.inf or not abs(value) < 1e15 * width:
        return percent(value) if share else number(value)
    times = 100 if share else 1
    digits = -math.floor(math.log10(times * width / parts))
    if value and math.floor(math.log10(abs(times * value))) + digits < 1:
        digits += 1
    # Rounding errors move no end by a whole digit. Adding zero removes the sign of a negative zero.
    whole = way(round(times * value * 10.0**digits, 6)) / 10.0**digits + 0.0
    return f"{whole:,.{max(digits, 0)}f}{'%' if share else ''}"


def percent(share: float | None) -> str:
    """A share as a percentage with about three digits."""
    if share is None:
        return ""
    size = abs(share)
    digits = 1 if size >= 0.1 else 2 if size >= 0.001 or size == 0 else 4
    return f"{100 * share:.{digits}f}%"


def listed(parts: Sequence[str], last: str = "and") -> str:
    """The parts in a sentence: a, b and c."""
    return " ".join([", ".join(parts[:-1]), last, parts[-1]]) if len(parts) > 1 else "".join(parts)


def first_ones(parts: Sequence[str], most: int = 10) -> str:
    """The first parts, and the number of further ones."""
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {more:,} more" if more > 0 else "")


def opened(where: str, first: str) -> str:
    """The start of a sentence: its first word, after the place that the sentence is about, if any."""
    return f"{where}: {first}" if where else first.capitalize()


def window(start: str, end: str) -> str:
    """A window between two times of RFC 3339, in UTC."""
    first, last = _time(start), _time(end)
    whole = first.time() == last.time() == datetime.min.time()
    return f"{span(first, last)}{'' if whole else ' UTC'}"


def span(start: datetime, end: datetime, *, year: bool = True) -> str:
    """The time between two times of one clock: 19\u201325 Oct 2026, or 20 Nov 2026, 10:00\u201311:00.

    Args:
        start: the first time.
        end: the time after the last.
        year: whether to write the year; it is always written if the two ends differ in it.
    """
    whole = start.time() == end.time() == datetime.min.time()
    last = end - _DAY if whole else end
    year = year or start.year != last.year
    parts = [start.second + end.second, start.microsecond + end.microsecond]
    fine = "milliseconds" if parts[1] else "seconds" if parts[0] else "minutes"
    first, final = (time.time().isoformat(fine) for time in (start, end))
    if not whole and end - start <= _DAY:
        return f"{_day(start, year)}, {first}\u2013{final}"
    if not whole:
        return f"{_day(start, year)} {first} \u2013 {_day(end, year)} {final}"
    if start == last:
        return _day(last, year)
    if start.day == end.day == 1:
        months = [f"{start:%b}"] * (start.year != last.year or start.month != last.month) + [f"{last:%b}"]
        return "\u2013".join(months) + (f" {last:%Y}" if year else "")
    if (start.year, start.month) == (last.year, last.month):
        return f"{start:%-d}\u2013{_day(last, year)}"
    return f"{_day(start, start.year != last.year)} \u2013 {_day(last, year)}"


def day(time: str) -> str:
    """The day of a time of RFC 3339, without its year."""
    return _day(datetime.fromisoformat(time), year=False)


def _day(time: datetime, year: bool) -> str:
    return f"{time:%-d %b %Y}" if year else f"{time:%-d %b}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
