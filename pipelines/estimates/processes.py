"""Computing many estimates on all cores, in processes.

Results do not depend on the number of processes: each estimate has the same bits, and they come in the order
of one process. A process is started anew rather than forked, because Beam's threads and connections do not
survive a fork.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

from ldpbeam.estimators import Estimate
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.estimates import child
from ldpbeam.pipelines.estimates.progress import SolvingProgress
from ldpbeam.pipelines.interrupts import interrupt
from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study, WantedEstimate

#: Seconds of computing that starting the processes is worth: about what each takes until it is ready.
START_SECONDS = 1.0
#: Seconds of computing that are sent to a process at once, so that a statistic's estimates stay together.
MESSAGE_SECONDS = 1.0
#: Each process is sent at least so many messages, so that all end at about the same time.
MESSAGES = 8
#: Messages that each process has or is sent ahead, so that it need not wait for the next.
AHEAD = 2

_EXIT_CODES = re.compile(r"\{(.+)\}")


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
        intervals = StatisticIntervals(study.attribute(snapshot.attribute), snapshot.statistic)
        for name, how in study.described(snapshot.attribute).estimates.items():
            yield Wanted(snapshot, name, how, intervals)


def compute_all(
    study: Study,
    snapshots: Iterable[Snapshot],
    total: Callable[[], int],
    progress: SolvingProgress,
    processes: int | None = None,
) -> list[SolvedEstimate]:
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
    wanted, found = wanted_of(study, snapshots), []
    started = time.monotonic()
    for asked in wanted:
        answer = child.compute(
            study.attribute(asked.snapshot.attribute),
            asked.snapshot.statistic,
            asked.how,
            progress.iterations(f"{asked.snapshot.attribute}.{asked.name}"),
            intervals=asked.intervals,
        )
        found.append(SolvedEstimate.of(asked.snapshot, asked.name, answer))
        progress.show(len(found))
        taken = time.monotonic() - started
        if processes == 1 or taken < START_SECONDS:
            continue
        left, each = total() - len(found), taken / len(found)
        if left > 1 and each * left >= START_SECONDS:
            processes = processes or cores()
            if processes > 1:
                progress.restart(len(found))
                together = min(int(MESSAGE_SECONDS / max(each, 1e-9)), left // (MESSAGES * processes))
                found += in_processes(study, wanted, min(processes, left), progress, max(1, together))
                break
    return found


def cores() -> int:
    """How many cores this process may use: its affinity and its container may allow fewer than there are."""
    from loky import cpu_count

    return int(cpu_count())


def in_processes(
    study: Study,
    wanted: Iterable[Wanted],
    processes: int,
    progress: SolvingProgress,
    together: int = 1,
) -> list[SolvedEstimate]:
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
    # Imported here because only large runs need it.
    from loky import ProcessPoolExecutor
    from loky.process_executor import TerminatedWorkerError

    done = progress.done
    issue = functools.partial(_issue, registry={})
    # The estimates of each message, empty until they have come.
    found: list[list[SolvedEstimate]] = []
    running: dict[Future[tuple[list[Estimate], list[child.Caught]]], tuple[int, list[Wanted]]] = {}
    executor = ProcessPoolExecutor(
        processes, initializer=child.begin, initargs=(dict(study.compiled), os.getpid())
    )

    def collect() -> None:
        ready, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(ready, key=lambda future: running[future][0]):
            place, asked = running.pop(future)
            answers, caught = future.result()
            issue(caught)
            found[place] = [
                SolvedEstimate.of(one.snapshot, one.name, answer)
                for one, answer in zip(asked, answers, strict=True)
            ]
        progress.show(done + sum(map(len, found)))

    # While processes run, SIGTERM is Ctrl-C: they end before this one.
    handles = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, interrupt) if handles else None
    try:
        for asked in _messages(wanted, together):
            while len(running) >= AHEAD * processes:
                collect()
            sent = [(one.snapshot.attribute, one.snapshot.statistic, one.how) for one in asked]
            with _interrupts_held():
                future = executor.submit(child.compute_here, sent)
            running[future] = len(found), asked
            found.append([])
        while running:
            collect()
    except TerminatedWorkerError as error:
        executor.shutdown(kill_workers=True)
        raise UserError(_killed(str(error))) from None
    except BaseException:
        executor.shutdown(kill_workers=True)
        raise
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    executor.shutdown()
    return list(itertools.chain.from_iterable(found))


def _messages(wanted: Iterable[Wanted], together: int) -> Iterator[list[Wanted]]:
    """The estimates in messages of ``together`` or more, which part no snapshot if that is 2 or more."""
    message: list[Wanted] = []
    for _, own in itertools.groupby(wanted, lambda asked: asked.intervals):
        for asked in own:
            message.append(asked)
            if together == 1:
                yield message
                message = []
        if len(message) >= together:
            yield message
            message = []
    if message:
        yield message


def _killed(said: str) -> str:
    codes = _EXIT_CODES.search(said)
    how = f" ({codes[1]})" if codes else ""
    return (
        f"a process that computed estimates was killed{how}, as happens when memory runs out; start the run "
        "again with more memory, or with fewer --processes"
    )


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C, which is for the parent alone, from processes that start in the block."""
    # A process inherits the mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _issue(caught: Iterable[child.Caught], registry: dict[Any, Any]) -> None:
    """Issue warnings of other processes in this one, whose filters decide what is shown."""
    for warning in caught:
        warnings.warn_explicit(
            warning.text, warning.category, warning.filename, warning.line, registry=registry
        )
