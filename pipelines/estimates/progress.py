"""How far the computing of estimates is, in one line on a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from ldpbeam.estimators import Progress

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
