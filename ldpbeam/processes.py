"""Work in several processes: results as they come, their warnings, and one way to end.

Processes are spawned, not forked, because Beam's threads and connections do not survive a fork. A process
imports this module and those of its work, so these import neither Beam nor file formats.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from ldpbeam.errors import UserError
from ldpbeam.interrupts import sigterm_is_ctrl_c

#: The number of tasks that each process has or gets ahead, so that it need not wait for the next.
AHEAD = 2
#: Seconds after which a process notices that its parent has ended.
PARENT_SECONDS = 0.5

_EXIT_CODES = re.compile(r"\{(.+)\}")
Task = TypeVar("Task")
Result = TypeVar("Result")
Shared = TypeVar("Shared")
#: In a working process: the shared argument of all tasks.
_shared: Any = None

#: A warning of another process: what it says, its class, and the file and the line that issued it.
Caught = tuple[str, type[Warning], str, int]


def cores() -> int:
    """The number of cores that this process may use; affinity and containers may limit it."""
    from loky import cpu_count

    return int(cpu_count())


def results_of(
    work: Callable[[Shared, Task], Result], shared: Shared, tasks: Iterable[Task], processes: int
) -> Generator[tuple[int, Result], None, None]:
    """(the place of a task, from 0; its result), in the order in which they are ready.

    The generator ends its processes when it is closed: use :func:`contextlib.closing`. While it is open,
    SIGTERM is Ctrl-C. However this process ends, the others end with it.

    Args:
        work: a function of a module. Warnings that it issues in another process are issued here, too.
        shared: its first argument, which is sent to each process once.
        tasks: its second arguments, which are read as they are needed.
        processes: the number of processes to start.

    Raises:
        UserError: if a process was killed.
    """
    # Imported here because only large runs need it.
    from loky import ProcessPoolExecutor
    from loky.process_executor import TerminatedWorkerError

    given = enumerate(tasks)
    running: dict[Future[tuple[Result, list[Caught]]], int] = {}
    issued: dict[Any, Any] = {}
    with sigterm_is_ctrl_c():
        executor = ProcessPoolExecutor(processes, initializer=_begin, initargs=(shared, os.getpid()))
        try:
            while True:
                with deaf_to_ctrl_c():
                    for number, task in itertools.islice(given, AHEAD * processes - len(running)):
                        running[executor.submit(_worked, work, task)] = number
                if not running:
                    return
                ready, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(ready, key=running.__getitem__):
                    number = running.pop(future)
                    result, caught = future.result()
                    for warning in caught:
                        warnings.warn_explicit(*warning, registry=issued)
                    yield number, result
        except TerminatedWorkerError as error:
            codes = _EXIT_CODES.search(str(error))
            how = f" ({codes[1]})" if codes else ""
            raise UserError(
                f"a worker process was killed{how}, as happens when memory runs out; run the same command "
                "again with more memory, or with fewer --processes"
            ) from None
        finally:
            executor.shutdown(kill_workers=True)


@contextlib.contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Let processes that start inside ignore Ctrl-C, so that it reaches this process alone."""
    # It starts with the first process otherwise, and unblocks SIGINT for it.
    resource_tracker.ensure_running()
    # Processes inherit the signal mask.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _begin(shared: object, parent: int) -> None:
    global _shared
    _shared = shared
    end_with(parent)


def end_with(parent: int) -> None:
    """End this process when its parent has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _worked(work: Callable[[Any, Task], Result], task: Task) -> tuple[Result, list[Caught]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = work(_shared, task)
    return result, [(str(w.message), w.category, w.filename, w.lineno) for w in caught]
