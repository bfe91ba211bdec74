"""Computing many estimates on all cores, in processes.

Results do not depend on the number of processes: each estimate has the same bits, and they come in the order
of one process.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

from rich.console import Console
from rich.status import Status

from ldpbeam.estimators import Progress
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.pipelines.estimates import child
from ldpbeam.pipelines.processes import cores, results_of
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Statistic
from ldpbeam.study import Study, WantedEstimate

#: Seconds of computing that starting the processes is worth: about what each takes until it is ready.
START_SECONDS = 1.0
#: Seconds of computing that are sent to a process at once, so that a statistic's estimates stay together.
MESSAGE_SECONDS = 1.0
#: Each process is sent at least this many messages, so that all end at about the same time.
MESSAGES = 8


class Wanted(NamedTuple):
    """An estimate that the study asks for, and the snapshot that it is computed from.

    The estimates of a snapshot share its intervals.
    """

    snapshot: Snapshot
    name: str
    how: WantedEstimate
    intervals: StatisticIntervals


def wanted_of(study: Study, snapshots: Iterable[Snapshot]) -> Iterator[Wanted]:
    """Every estimate that the study asks for, in the order of the snapshots and of the study.

    The snapshots are those that :mod:`ldpbeam.pipelines.estimates.published` chose.
    """
    for snapshot in snapshots:
        attribute = study.attribute(snapshot.attribute)
        intervals = StatisticIntervals(attribute, snapshot.statistic, snapshot.windows)
        for name, how in study.described(snapshot.attribute).estimates.items():
            yield Wanted(snapshot, name, how, intervals)


def compute_all(
    study: Study,
    snapshots: Iterable[Snapshot],
    total: Callable[[], int],
    progress: SolvingProgress,
    processes: int | None = None,
) -> list[EstimateRecord]:
    """Every estimate of the snapshots, in the order of :func:`wanted_of`.

    The first estimates are computed here. Processes are started when this has taken ``START_SECONDS``, if the
    rest would, at this rate, take as long again. A small run starts none.

    Args:
        study: the study.
        snapshots: the snapshots; they are read as they are needed.
        total: counts the estimates; called only after ``START_SECONDS``.
        progress: shows what is done.
        processes: the largest number of processes; None for one per core that this process may use. With 1
            none is started.

    Raises:
        UserError: if a process was killed.
    """
    wanted, estimates = wanted_of(study, snapshots), []
    started = time.monotonic()
    for asked in wanted:
        answer = child.compute(
            study.attribute(asked.snapshot.attribute),
            asked.snapshot.statistic,
            asked.how,
            progress.iterations(f"{asked.snapshot.attribute}.{asked.name}"),
            intervals=asked.intervals,
            windows=asked.snapshot.windows,
        )
        estimates.append(estimate_record(study, asked.snapshot, asked.name, answer))
        progress.show(len(estimates))
        taken = time.monotonic() - started
        if processes == 1 or taken < START_SECONDS:
            continue
        left, each = total() - len(estimates), taken / len(estimates)
        if left > 1 and each * left >= START_SECONDS:
            processes = processes or cores()
            if processes > 1:
                progress.restart(len(estimates))
                together = min(int(MESSAGE_SECONDS / max(each, 1e-9)), left // (MESSAGES * processes))
                estimates += in_processes(study, wanted, min(processes, left), progress, max(1, together))
                break
    return estimates


def in_processes(
    study: Study,
    wanted: Iterable[Wanted],
    processes: int,
    progress: SolvingProgress,
    together: int = 1,
) -> list[EstimateRecord]:
    """The estimates in the order of ``wanted``, computed by processes.

    Args:
        study: the study.
        wanted: what to compute; it is read as it is needed.
        processes: how many processes are started.
        progress: shows what is done.
        together: the least number of estimates that are sent to a process in one message. With 2 or more the
            estimates of a snapshot stay together.

    Raises:
        UserError: if a process was killed.
    """
    done = progress.done
    waiting: dict[int, list[Wanted]] = {}
    # The estimates of each message, empty until they have come.
    estimates: list[list[EstimateRecord]] = []

    def sent() -> Iterator[Sequence[tuple[str, Statistic, int, WantedEstimate]]]:
        for message in _messages(wanted, together):
            waiting[len(estimates)] = message
            estimates.append([])
            yield [
                (one.snapshot.attribute, one.snapshot.statistic, one.snapshot.windows, one.how)
                for one in message
            ]

    begin = functools.partial(child.begin, dict(study.compiled))
    with closing(results_of(child.compute_here, sent(), processes, begin)) as computed:
        for number, answers in computed:
            estimates[number] = [
                estimate_record(study, asked.snapshot, asked.name, answer)
                for asked, answer in zip(waiting.pop(number), answers, strict=True)
            ]
            progress.show(done + sum(map(len, estimates)))
    return list(itertools.chain.from_iterable(estimates))


def _messages(wanted: Iterable[Wanted], together: int) -> Iterator[list[Wanted]]:
    """The estimates in messages of ``together`` or more, which part no snapshot if that is 2 or more."""
    message: list[Wanted] = []
    for _, of_snapshot in itertools.groupby(wanted, lambda asked: asked.intervals):
        for asked in of_snapshot:
            message.append(asked)
            if together == 1:
                yield message
                message = []
        if len(message) >= together:
            yield message
            message = []
    if message:
        yield message


#: Every how many iterations of an estimator the line is renewed.
_ITERATIONS = 50


class SolvingProgress:
    """Shows how many estimates are done and about how long the rest takes; nothing without a status.

    Args:
        status: the line on the terminal; None where there is none.
        total: counts the estimates of the run.
    """

    def __init__(self, status: Status | None = None, total: Callable[[], int] = lambda: 0) -> None:
        self.done = 0
        self._status, self._total = status, total
        self._since = 0, time.monotonic()
        self._line = "estimating"

    def restart(self, done: int) -> None:
        """Measure the rate from now on, because other processes begin to compute."""
        self._since = done, time.monotonic()

    def show(self, done: int) -> None:
        """Show that this many estimates are done."""
        self.done = done
        if self._status is not None:
            since, start = self._since
            rate = (done - since) / max(time.monotonic() - start, 1e-9)
            self._line = progress_line(done, self._total(), rate)
            self._status.update(self._line)

    def iterations(self, name: str) -> Progress | None:
        """A function that an estimator calls after each iteration; None without a status."""
        status = self._status
        if status is None:
            return None

        def progress(iteration: int, likelihood: float) -> None:
            if iteration % _ITERATIONS == 0:
                status.update(
                    f"{self._line}; {name}: iteration {iteration}, log-likelihood {likelihood:,.1f}"
                )

        return progress


@contextmanager
def solving_progress(console: Console, total: Callable[[], int]) -> Iterator[SolvingProgress]:
    """Progress on a console; it shows nothing if the console is no terminal.

    Args:
        console: where the line is shown.
        total: counts the estimates of the run; called only for a terminal.
    """
    if not console.is_terminal:
        yield SolvingProgress()
        return
    with console.status("estimating") as status:
        yield SolvingProgress(status, total)


def progress_line(done: int, total: int, rate: float) -> str:
    """As in "solved 1,200 of 7,200 estimates, about 40 s left".

    Args:
        done: how many are done.
        total: how many there are.
        rate: estimates per second; 0 if it is not known.
    """
    line = f"solved {done:,} of {total:,} estimates"
    return f"{line}, about {_rounded((total - done) / rate)} left" if rate > 0 and done < total else line


def _rounded(seconds: float) -> str:
    """A duration with one or two digits that are worth reading."""
    if seconds < 60:
        return f"{max(1, math.ceil(seconds)):.0f} s" if seconds < 10 else f"{math.ceil(seconds / 5) * 5} s"
    if seconds < 3600:
        return f"{math.ceil(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
