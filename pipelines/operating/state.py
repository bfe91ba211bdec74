"""A running stream as the probes see it, and its memory."""

from __future__ import annotations

import psutil

from ldpbeam.pipelines.spool.place import StreamOutput
from ldpbeam.pipelines.spool.run import Run
from ldpbeam.transforms.sources.feeds import elapsed
from ldpbeam.words import counted

#: A loop that makes no turn for this long, in milliseconds, is taken to be stuck.
STUCK = 10 * 60_000


class Watched:
    """A run that goes on, and how far it has come. Any thread may ask.

    Args:
        output: where it writes.
        run: the run.
    """

    def __init__(self, output: StreamOutput, run: Run) -> None:
        self.output, self.run = output, run

    def stuck(self) -> str | None:
        """Why the run does not go on; None if it does."""
        still = elapsed() - self.run.turned_at
        return f"the loop has made no progress for {still // 1000} seconds" if still >= STUCK else None

    def unready(self) -> str | None:
        """Why the run does not read; None if it does."""
        if self.run.stopping:
            return "the run was asked to stop"
        return self.stuck() or self.waiting()

    def waiting(self) -> str | None:
        """How many panes wait to be solved, as a sentence; None for up to FEW, which is usual."""
        panes = self.run.unsolved
        return f"{counted(panes, 'pane waits', 'panes wait')} to be solved" if panes > FEW else None


#: Up to this many panes may wait to be solved before it is reported.
FEW = 16


def memory() -> tuple[int, int]:
    """The resident memory in bytes of this process, and of those it started, such as the one that solves."""
    this = psutil.Process()
    return this.memory_info().rss, sum(map(_resident, this.children(recursive=True)))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it has ended meanwhile
        return 0
