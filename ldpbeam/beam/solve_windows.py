"""The estimates of a window or a pane, computed in a worker: one transform for batch runs and streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics

from ldpbeam.answers.published import Size, Smallest, chosen, size_of, smallest
from ldpbeam.answers.solve import Solver, sort_key
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.panes import Solved
from ldpbeam.transforms.reports.counts import COUNTS, of_window
from ldpbeam.transforms.reports.emitted import count
from ldpbeam.transforms.state.journal import asked_at

#: Seconds after a run was asked to stop in which it still solves; later panes have statistics alone.
STOPPING_SECONDS = 5.0
#: When a run was asked to stop, on this process's monotonic clock, by output folder and run.
_asked: dict[tuple[str, str], float] = {}


class Solves(NamedTuple):
    """The panes that were solved: how many, the seconds of all together, and those of the longest."""

    panes: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def and_one(self, seconds: float) -> Solves:
        """With one more pane."""
        return Solves(self.panes + 1, self.seconds + seconds, max(self.longest, seconds))


#: What workers in this process solved, by output folder and run. Prism reports no distribution until it ends.
solved_here: dict[tuple[str, str], Solves] = {}
_solving = threading.Lock()


@dataclass(eq=False)
class Solve(beam.PTransform):
    """(attribute, snapshots of one window or pane) to :class:`Solved`, and counts of what is not estimated.

    Beam's counter ``estimates`` counts them, and the distribution ``solve_milliseconds`` has the time that
    each window took.

    Attributes:
        study: the study.
        stopped_by: the output folder and the name of a stream's run, which may be asked to stop; None for a
            run that is not.
        traced: whether counts have their windows as origins.
    """

    study: Study
    stopped_by: tuple[str, str] | None = None
    traced: bool = False

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
        solved = snapshots | "SolveWindows" >> beam.ParDo(
            SolveWindow(self.study, self.stopped_by, traced=self.traced), least
        ).with_output_types(Solved).with_outputs(COUNTS, main="solved")
        return solved.solved, solved[COUNTS]


def _smallest(
    element: tuple[str, list[tuple[int, int]]], study: Study
) -> Iterator[tuple[str, tuple[int, int]]]:
    """(attribute, the smallest window that is estimated), if the attribute has too many windows."""
    name, sizes = element
    yield from smallest(study, {name: [Size(*fields) for fields in sizes]}).items()


class SolveWindow(beam.DoFn):
    """The DoFn of :class:`Solve`."""

    def __init__(
        self, study: Study, stopped_by: tuple[str, str] | None = None, *, traced: bool = False
    ) -> None:
        self.study = study
        self.stopped_by = stopped_by
        self.traced = traced
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
        origin = of_window(snapshots[0].window) if self.traced else ""
        for name, number in counts.items():
            yield count(name, number, origin)
        estimates = [record for snapshot in estimated for record in self._solver.solve(snapshot)]
        estimates.sort(key=lambda record: sort_key(self.study, record))
        self._estimates.inc(len(estimates))
        seconds = time.monotonic() - started
        self._milliseconds.update(int(1000 * seconds))
        if self.stopped_by is not None:
            with _solving:
                solved_here[self.stopped_by] = solved_here.get(self.stopped_by, Solves()).and_one(seconds)
        yield Solved(snapshots, estimates)

    def _has_no_time(self) -> bool:
        """Whether the run was asked to stop :data:`STOPPING_SECONDS` ago or earlier."""
        if self.stopped_by is None:
            return False
        if self.stopped_by not in _asked:
            requested_at = asked_at(*self.stopped_by)
            if requested_at is None:
                return False
            # The first pane may come long after the request.
            _asked[self.stopped_by] = time.monotonic() - max(0.0, time.time() - requested_at)
        return time.monotonic() - _asked[self.stopped_by] >= STOPPING_SECONDS
