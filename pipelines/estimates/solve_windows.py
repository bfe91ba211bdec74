"""The estimates of a window or a pane, computed in a worker: one transform for batch runs and streams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.metrics import Metrics

from ldpbeam.pipelines.estimates.solve import Solver, sort_key
from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study


@dataclass(frozen=True)
class Solved:
    """The snapshots of an attribute in one window, or in one pane of it, and all their estimates in order."""

    snapshots: list[Snapshot]
    estimates: list[SolvedEstimate]


class Solve(beam.PTransform):
    """(attribute, snapshots of one window or pane) to :class:`Solved`.

    Beam's counter ``estimates`` counts them, and the distribution ``solve_milliseconds`` has the time that
    each window took.
    """

    def __init__(self, study: Study) -> None:
        super().__init__()
        self.study = study

    def expand(self, snapshots: beam.PCollection) -> beam.PCollection:
        """Solve every window by itself."""
        return snapshots | "SolveWindows" >> beam.ParDo(SolveWindow(self.study)).with_output_types(Solved)


class SolveWindow(beam.DoFn):
    """The DoFn of :class:`Solve`."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._solver: Solver
        self._estimates = Metrics.counter("ldpbeam", "estimates")
        self._milliseconds = Metrics.distribution("ldpbeam", "solve_milliseconds")

    def setup(self) -> None:
        """Create the solver, which remembers the last estimates for early panes."""
        self._solver = Solver(self.study)

    def process(self, element: tuple[str, list[Snapshot]]) -> Iterator[Solved]:
        """Compute every estimate of every snapshot."""
        _, snapshots = element
        started = time.monotonic()
        found = [solved for snapshot in snapshots for solved in self._solver.solve(snapshot)]
        found.sort(key=lambda solved: sort_key(self.study, solved))
        self._estimates.inc(len(found))
        self._milliseconds.update(int(1000 * (time.monotonic() - started)))
        yield Solved(snapshots, found)
