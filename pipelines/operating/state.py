"""The state of a running stream, as metrics and probes say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil

from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.pipelines.spool.run import Run, Seen
from ldpbeam.transforms.sources.feeds import elapsed
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.words import counted

#: A loop that makes no turn for this long, in milliseconds, is taken to be stuck.
STUCK = 10 * 60_000


@dataclass(frozen=True)
class Memory:
    """The resident memory in bytes of this process, and of the processes that it started."""

    command: int
    engine: int


@dataclass(frozen=True)
class State:
    """How far a run has come. What this process cannot know is None.

    Attributes:
        run: the name of the run.
        study: the name of its study.
        accounting: what became of the reports, by the last commit, as ``accounting.json`` has it.
        watermark: the event time up to which windows are closed, in epoch milliseconds.
        lag: how far the feed is behind its server.
        open_windows: how many windows accept reports.
        waiting_windows: how many panes have fired and are not solved.
        seen: sums since the process began.
        memory: the memory that the run uses on this machine.
    """

    run: str
    study: str
    accounting: dict[str, Any]
    watermark: int | None
    lag: Lag | None
    open_windows: int
    waiting_windows: int
    seen: Seen
    memory: Memory


class Watched:
    """A run that goes on, and how far it has come. Any thread may ask.

    Args:
        output: where it writes.
        run: the run.
    """

    def __init__(self, output: StreamOutput, run: Run) -> None:
        self._output, self._run = output, run

    def state(self) -> State:
        """How far the run has come now; nothing is read from a file, however many windows have closed."""
        return State(
            run=self._output.run,
            study=self._output.study.name,
            accounting=self._run.manifest.accounting,
            watermark=self._run.reached,
            lag=self._run.lag,
            open_windows=len(self._run.windows.windows),
            waiting_windows=self._run.unsolved,
            seen=self._run.seen,
            memory=memory(),
        )

    def stuck(self) -> str | None:
        """Why the run does not go on; None if it does."""
        still = elapsed() - self._run.turned_at
        return f"the loop has made no progress for {still // 1000} seconds" if still >= STUCK else None

    def unready(self) -> str | None:
        """Why the run does not read; None if it does."""
        if self._run.stopping:
            return "the run was asked to stop"
        return self.stuck() or self.waiting()

    def waiting(self) -> str | None:
        """How many panes wait to be solved, as a sentence; None for a few, which always do for a moment."""
        panes = self._run.unsolved
        return f"{counted(panes, 'pane waits', 'panes wait')} to be solved" if panes > FEW else None


#: So many panes wait to be solved without being said to.
FEW = 16


def memory() -> Memory:
    """The memory of this process, and of the processes that it started, such as the one that solves."""
    this = psutil.Process()
    return Memory(this.memory_info().rss, sum(map(_resident, this.children(recursive=True))))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it has ended meanwhile
        return 0
