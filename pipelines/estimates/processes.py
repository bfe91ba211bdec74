"""Computing many estimates on all cores, in processes.

Results do not depend on the number of processes: each estimate has the same bits, and they come in the order
of one process.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from ldpbeam.answers import child
from ldpbeam.domains import Domain
from ldpbeam.estimators import Progress
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.printing import Show
from ldpbeam.processes import cores, results_of
from ldpbeam.schemas.outputs.estimates import estimate_record
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.statistics import Statistic
from ldpbeam.study import Study, WantedEstimate

#: Processes are started only if they save this many seconds of computing: each takes about as many to start.
START_SECONDS = 1.0
#: Seconds of computing that are sent to a process at once, so that a statistic's estimates stay together.
MESSAGE_SECONDS = 1.0
#: Each process is sent at least this many messages, so that all end at about the same time.
MESSAGES = 8
#: Every how many iterations of an estimator the progress is shown.
ITERATIONS = 50


def _nothing(done: int | None, of: int | None = None, now: str | None = None) -> None:
    """Show nothing."""


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

    The snapshots are those that :mod:`ldpbeam.answers.published` chose.
    """
    for snapshot in snapshots:
        attribute = study.attribute(snapshot.attribute).with_domain(snapshot.candidates)
        intervals = StatisticIntervals(attribute, snapshot.statistic, snapshot.windows)
        for name, how in study.described(snapshot.attribute).estimates.items():
            yield Wanted(snapshot, name, how, intervals)


def compute_all(
    study: Study,
    snapshots: Iterable[Snapshot],
    total: Callable[[], int],
    processes: int | None = None,
    show: Show = _nothing,
) -> list[EstimateRecord]:
    """Every estimate of the snapshots, in the order of :func:`wanted_of`.

    The first estimates are computed here. Processes are started when this has taken ``START_SECONDS``, if the
    rest would, at this rate, take as long again. A small run starts none.

    Args:
        study: the study.
        snapshots: the snapshots; they are read as they are needed.
        total: counts the estimates; called only after ``START_SECONDS``.
        processes: the largest number of processes; None for one per core that this process may use. With 1
            none is started.
        show: shows how many are done, and how far a long one is.

    Raises:
        UserError: if a process was killed.
    """
    wanted, estimates = wanted_of(study, snapshots), []
    started = time.process_time()
    for asked in wanted:
        answer = child.compute(
            asked.intervals, asked.how, _shown(show, f"{asked.snapshot.attribute}.{asked.name}")
        )
        estimates.append(estimate_record(study, asked.snapshot, asked.name, answer))
        show(len(estimates))
        taken = time.process_time() - started
        if processes == 1 or taken < START_SECONDS:
            continue
        left, each = total() - len(estimates), taken / len(estimates)
        if left > 1 and each * left >= START_SECONDS:
            processes = processes or cores()
            if processes > 1:
                together = min(int(MESSAGE_SECONDS / max(each, 1e-9)), left // (MESSAGES * processes))
                return in_processes(study, wanted, min(processes, left), max(1, together), estimates, show)
    return estimates


def in_processes(
    study: Study,
    wanted: Iterable[Wanted],
    processes: int,
    together: int = 1,
    before: Sequence[EstimateRecord] = (),
    show: Show = _nothing,
) -> list[EstimateRecord]:
    """The estimates in the order of ``wanted``, computed by processes, after those that were computed before.

    Args:
        study: the study.
        wanted: what to compute; it is read as it is needed.
        processes: how many processes are started.
        together: the least number of estimates that are sent to a process in one message. With 2 or more the
            estimates of a snapshot stay together.
        before: estimates that were computed before.
        show: shows how many are done.

    Raises:
        UserError: if a process was killed.
    """
    waiting: dict[int, list[Wanted]] = {}
    # The estimates that were computed before, and those of each message, empty until they have come.
    estimates: list[list[EstimateRecord]] = [[*before]]

    def sent() -> Iterator[Sequence[tuple[str, Domain | None, Statistic, int, WantedEstimate]]]:
        for message in _messages(wanted, together):
            waiting[len(estimates) - 1] = message
            estimates.append([])
            yield [
                (
                    one.snapshot.attribute,
                    one.snapshot.candidates,
                    one.snapshot.statistic,
                    one.snapshot.windows,
                    one.how,
                )
                for one in message
            ]

    with closing(results_of(child.compute_here, dict(study.compiled), sent(), processes)) as computed:
        for number, answers in computed:
            estimates[number + 1] = [
                estimate_record(study, asked.snapshot, asked.name, answer)
                for asked, answer in zip(waiting.pop(number), answers, strict=True)
            ]
            show(sum(map(len, estimates)))
    return list(itertools.chain.from_iterable(estimates))


def _shown(show: Show, name: str) -> Progress:
    """A function that an estimator calls after each iteration."""

    def progress(iteration: int, likelihood: float) -> None:
        if iteration % ITERATIONS == 0:
            show(None, now=f"{name}: iteration {iteration}, log-likelihood {likelihood:,.1f}")

    return progress


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
