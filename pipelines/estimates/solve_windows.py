"""The estimates of a window or a pane, computed in a worker: one transform for batch runs and streams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from ldpbeam.pipelines.estimates.published import Size, Smallest, chosen, size_of, smallest
from ldpbeam.pipelines.estimates.solve import Solver, sort_key
from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.transforms.sources.journal import asked_to_stop

#: Seconds after a run was asked to stop in which it still solves; later panes have statistics alone.
STOPPING_SECONDS = 5.0
#: When this process first saw that a run was asked to stop, by output folder and run.
_asked: dict[tuple[str, str], float] = {}


@dataclass(frozen=True)
class Solved:
    """The snapshots of an attribute in one window, or in one pane of it, and their estimates in order.

    Windows and groups that are not to be estimated have snapshots and no estimates.
    """

    snapshots: list[Snapshot]
    estimates: list[SolvedEstimate]


class Solve(beam.PTransform):
    """(attribute, snapshots of one window or pane) to :class:`Solved`, and counts of what is not estimated.

    Beam's counter ``estimates`` counts them, and the distribution ``solve_milliseconds`` has the time that
    each window took.

    Args:
        study: the study.
        stopped_by: the output folder and the name of a stream's run, which may be asked to stop; None for a
            run that is not.
    """

    def __init__(self, study: Study, stopped_by: tuple[str, str] | None = None) -> None:
        super().__init__()
        self.study = study
        self.stopped_by = stopped_by

    def expand(self, snapshots: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Choose what is estimated, and solve every window by itself."""
        least: Any = {}
        # Only of a bounded collection is it known which windows are the largest.
        if snapshots.is_bounded and self.study.windows is not None:
            least = beam.pvalue.AsDict(snapshots | "Largest" >> _Smallest(self.study))
        solved = snapshots | "SolveWindows" >> beam.ParDo(
            SolveWindow(self.study, self.stopped_by), least
        ).with_output_types(Solved).with_outputs(COUNTS, main="solved")
        return solved.solved, solved[COUNTS]


class _Smallest(beam.PTransform):
    """(attribute, the smallest window that is estimated) for each attribute with too many windows."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self.study = study

    def expand(self, snapshots: beam.PCollection) -> beam.PCollection:
        return (
            snapshots
            | "Sizes" >> beam.MapTuple(lambda name, own: (name, tuple(size_of(own))))
            | "LargestSizes" >> beam.combiners.Top.PerKey(self.study.publish.windows + 1)
            # (attribute, list of (reports, start))
            | "SmallestSize" >> beam.FlatMap(_smallest, self.study)
        )


def _smallest(
    element: tuple[str, list[tuple[int, int]]], study: Study
) -> Iterator[tuple[str, tuple[int, int]]]:
    name, sizes = element
    yield from smallest(study, {name: [Size(*own) for own in sizes]}).items()


class SolveWindow(beam.DoFn):
    """The DoFn of :class:`Solve`."""

    def __init__(self, study: Study, stopped_by: tuple[str, str] | None = None) -> None:
        self.study = study
        self.stopped_by = stopped_by
        self._solver: Solver
        self._estimates = Metrics.counter("ldpbeam", "estimates")
        self._milliseconds = Metrics.distribution("ldpbeam", "solve_milliseconds")

    def setup(self) -> None:
        """Create the solver, which remembers the last estimates for early panes."""
        self._solver = Solver(self.study)

    def process(self, element: tuple[str, list[Snapshot]], least: Smallest | None = None) -> Iterator[Any]:
        """Compute every estimate of the snapshots that are estimated, and count the others."""
        _, snapshots = element
        started = time.monotonic()
        estimated, counts = chosen(self.study, snapshots, least or {}, ended=self._has_no_time())
        for name, number in counts.items():
            yield count(name, number)
        found = [solved for snapshot in estimated for solved in self._solver.solve(snapshot)]
        found.sort(key=lambda solved: sort_key(self.study, solved))
        self._estimates.inc(len(found))
        self._milliseconds.update(int(1000 * (time.monotonic() - started)))
        yield Solved(snapshots, found)

    def _has_no_time(self) -> bool:
        """Whether the run was asked to stop :data:`STOPPING_SECONDS` ago or earlier."""
        if self.stopped_by is None:
            return False
        if self.stopped_by not in _asked:
            if not asked_to_stop(*self.stopped_by):
                return False
            _asked[self.stopped_by] = time.monotonic()
        return time.monotonic() - _asked[self.stopped_by] >= STOPPING_SECONDS
