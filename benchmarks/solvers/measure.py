"""Paired measurements of CPU time, which other processes on the machine change less than wall time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator

#: How often each of the two things is measured.
REPEATS = 5


def seconds(work: Callable[[], object]) -> float:
    """The CPU time of one call, of all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def pairs(
    one: Callable[[], object], other: Callable[[], object], repeats: int = REPEATS
) -> list[tuple[float, float]]:
    """CPU seconds of two things, measured one right after the other, after one call of each that is not."""
    one()
    other()
    return [(seconds(one), seconds(other)) for _ in range(repeats)]


def medians(measured: Iterable[tuple[float, float]]) -> tuple[float, float, float]:
    """The median seconds of both, and the median of the ratios of the first to the second."""
    rows = list(measured)
    first, second = (statistics.median(column) for column in zip(*rows, strict=True))
    return first, second, statistics.median(a / b for a, b in rows)


def table(header: list[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join('---' for _ in header)} |"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
