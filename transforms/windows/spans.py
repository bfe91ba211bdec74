"""``--from`` and ``--to``: which windows lie inside, and what becomes of reports that lie in none of those.

A window that is cut gives a wrong estimate of itself, so a study with windows takes whole ones only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import BoundedWindow
from numpy.typing import NDArray

from ldpbeam.schemas.study.models import WindowsModel
from ldpbeam.schemas.study.times import format_duration, rfc3339
from ldpbeam.transforms.reports.counts import COUNTS, OUT_OF_RANGE, count
from ldpbeam.transforms.windows.cut import window_bounds

#: An end that is not given lies beyond every event time.
FAR = 2**62


@dataclass(frozen=True)
class Span:
    """The event times [start, stop), in epoch milliseconds."""

    start: int = -FAR
    stop: int = FAR

    @property
    def bounded(self) -> bool:
        """Whether any event time lies outside."""
        return self.start > -FAR or self.stop < FAR

    def outside(self, times: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of some event times lie outside."""
        return np.asarray((times < self.start) | (times >= self.stop))

    def holds(self, window: tuple[int, int] | None) -> bool:
        """Whether a window lies inside; the one over everything always does."""
        return window is None or (self.start <= window[0] and window[1] <= self.stop)


EVERYTHING = Span()


def whole_windows(windows: WindowsModel, given: Span) -> Span:
    """The span of the windows that lie inside a given one.

    Raises:
        ValueError: if none does; the text names the nearest span of whole windows.
    """
    size, period = windows.size, windows.starts_every
    start = given.start if given.start == -FAR else _multiple_from(given.start, period)
    stop = given.stop if given.stop == FAR else (given.stop - size) // period * period + size
    if start + size <= stop:
        return Span(start, stop)
    first = given.start // period * period
    last = max(first, _multiple_from(given.stop - size, period))
    raise ValueError(
        f"no window of {format_duration(size)} lies inside; one starts every {format_duration(period)}, "
        f"counted from 1970-01-01T00:00:00Z; the nearest span of whole windows is {rfc3339(first)} to "
        f"{rfc3339(last + size)}"
    )


def _multiple_from(time: int, period: int) -> int:
    return -(-time // period) * period


def keep_windows(span: Span) -> beam.PTransform:
    """Windowed elements without those windows that do not lie inside a span."""
    return beam.Filter(_is_inside, span)


def _is_inside(_: Any, span: Span, bounds: BoundedWindow = beam.DoFn.WindowParam) -> bool:
    return span.holds(window_bounds(bounds))


class LeaveOutside(beam.PTransform):
    """Batches of a channel without the reports outside a span.

    Outputs: the main one of batches, and counts.
    """

    def __init__(self, span: Span) -> None:
        super().__init__()
        self.span = span

    def expand(self, reports: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Wire the stage."""
        sorted_out = reports | "LeaveOutside" >> beam.ParDo(_LeaveOutside(self.span)).with_outputs(
            COUNTS, main="inside"
        ).with_output_types(pa.RecordBatch)
        return sorted_out.inside, sorted_out[COUNTS]


class _LeaveOutside(beam.DoFn):
    def __init__(self, span: Span) -> None:
        self.span = span

    def process(self, batch: pa.RecordBatch) -> Iterable[Any]:
        outside = self.span.outside(batch.column("event_time").to_numpy())
        if not outside.any():
            yield batch
            return
        yield count(OUT_OF_RANGE, int(outside.sum()))
        if not outside.all():
            yield batch.filter(pa.array(~outside))
