"""The estimates of a window or a pane, computed in a worker: one transform for batch runs and streams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from ldpbeam.answers.published import Least, Size, Smallest, chosen, size_of, smallest
from ldpbeam.answers.solve import solve, sort_key
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.panes import Solved
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.emitted import count


@dataclass(eq=False)
class Solve(beam.PTransform):
    """(attribute, snapshots of one window or pane) to :class:`Solved`, and counts of what is not estimated.

    Beam's counter ``estimates`` counts the estimates, and its distribution ``solve_milliseconds`` records the
    time per window.

    Attributes:
        study: the study.
    """

    study: Study

    def expand(
        self, snapshots: beam.PCollection[tuple[str, list[Snapshot]]]
    ) -> tuple[beam.PCollection[Solved], beam.PCollection[tuple[str, int]]]:
        """Choose what is estimated, and solve every window by itself."""
        least: Any = {}
        # The largest windows are known only when all windows are there, in a bounded collection.
        if snapshots.is_bounded and self.study.windows is not None:
            smallest_of_each = (
                snapshots
                | "Sizes" >> beam.MapTuple(lambda name, window: (name, tuple(size_of(window))))
                | "LargestSizes" >> beam.combiners.Top.PerKey(self.study.publish.windows + 1)
                | "SmallestSize" >> beam.FlatMap(_smallest, self.study)
            )
            least = beam.pvalue.AsDict(smallest_of_each)
        solved = snapshots | "SolveWindows" >> beam.ParDo(SolveWindow(self.study), least).with_output_types(
            Solved
        ).with_outputs(COUNTS, main="solved")
        return solved.solved, solved[COUNTS]


def _smallest(element: tuple[str, list[tuple[int, int, int]]], study: Study) -> Iterator[tuple[str, Least]]:
    """(attribute, the smallest windows to estimate), if it has too many windows or groups."""
    name, sizes = element
    yield from smallest(study, {name: [Size(*fields) for fields in sizes]}).items()


class SolveWindow(beam.DoFn):
    """The DoFn of :class:`Solve`."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._estimates = Metrics.counter("ldpbeam", "estimates")
        self._milliseconds = Metrics.distribution("ldpbeam", "solve_milliseconds")

    def process(self, element: tuple[str, list[Snapshot]], least: Smallest | None = None) -> Iterator[Any]:
        """Compute every estimate of the snapshots that are estimated, and count the others."""
        _, snapshots = element
        started = time.monotonic()
        estimated, counts = chosen(self.study, snapshots, least or {})
        yield from (count(name, number) for name, number in counts.items())
        estimates = [record for snapshot in estimated for record in solve(self.study, snapshot)]
        estimates.sort(key=lambda record: sort_key(self.study, record))
        self._estimates.inc(len(estimates))
        self._milliseconds.update(int(1000 * (time.monotonic() - started)))
        yield Solved(snapshots, estimates)
