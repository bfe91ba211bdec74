"""Another process finishes panes, in the order in which they fired, while the loop reads on.

A process that crashes is started again. If it had several panes, the one that crashed it is unknown, so the
next process gets them one at a time; a pane that crashes :data:`DEATHS` processes alone is left out, and
named.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future

from ldpbeam.pipelines.spool.finish import Finished, Finishing, Pane, finish_all
from ldpbeam.processes import deaf_to_ctrl_c, end_with

LOG = logging.getLogger("ldpbeam.panes")
#: A pane that crashed this many processes alone is not tried again.
DEATHS = 3
#: At most this many panes are sent to the process at once.
AT_ONCE = 64
#: Seconds until a pane is tried again that a disk or a topic did not take.
AGAIN_SECONDS = 5.0
#: Seconds between two warnings of that.
QUIET_SECONDS = 60.0


class Solving:
    """The panes that are not finished, and the process that finishes them.

    Args:
        how: where panes are finished, and how.
    """

    def __init__(self, how: Finishing) -> None:
        from loky import ProcessPoolExecutor

        self._how = how
        self._pool = ProcessPoolExecutor
        self._executor: ProcessPoolExecutor | None = None
        self._waiting: deque[Pane] = deque()
        self._sent: list[Pane] = []
        self._future: Future[tuple[list[Finished], str]] | None = None
        #: How many processes ended at a pane alone, by its attribute, window and number.
        self._deaths: Counter[tuple[object, ...]] = Counter()
        self._alone = 0
        self._again_at = self._warned_at = 0.0
        self._start()

    def begin(self, pane: Pane) -> None:
        """Finish a pane after all that were begun before."""
        self._waiting.append(pane)
        self._send()

    def finished(self) -> Iterator[tuple[Pane, Finished | None]]:
        """The panes that are finished since the last call, in their order; None for one that is left out."""
        while self._future is not None and self._future.done():
            future, self._future = self._future, None
            sent, self._sent = self._sent, []
            if (error := future.exception()) is not None and not _is_death(error):
                raise error
            if error is not None:
                yield from self._after_death(sent)
            else:
                done, problem = future.result()
                self._alone = max(0, self._alone - len(done))
                yield from zip(sent, done, strict=False)
                self._waiting.extendleft(reversed(sent[len(done) :]))
                if problem:
                    self._fail(problem)
            self._send()
        if self._future is None:
            self._send()

    def _after_death(self, sent: list[Pane]) -> Iterator[tuple[Pane, None]]:
        self._start()
        if len(sent) > 1:
            self._alone = len(sent)
        else:
            number = sent[0][:4]
            self._deaths[number] += 1
            if self._deaths[number] >= DEATHS:
                LOG.warning("%s: solving it killed %d processes; its estimates are missing", sent[0], DEATHS)
                yield sent[0], None
                return
        self._waiting.extendleft(reversed(sent))

    def _fail(self, problem: str) -> None:
        now = time.monotonic()
        self._again_at = now + AGAIN_SECONDS
        if now - self._warned_at >= QUIET_SECONDS or not self._warned_at:
            self._warned_at = now
            LOG.warning("estimates wait: %s; the run tries again", problem)

    def _send(self) -> None:
        if self._future is not None or not self._waiting or time.monotonic() < self._again_at:
            return
        most = 1 if self._alone else AT_ONCE
        self._sent = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        assert self._executor is not None
        self._future = self._executor.submit(_finished_here, self._sent)

    def _start(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, kill_workers=True)
        self._executor = self._pool(1, initializer=_begin, initargs=(self._how, os.getpid()))
        # The process takes a second to start.
        with deaf_to_ctrl_c():
            self._executor.submit(_nothing)

    def close(self) -> None:
        """End the process, whatever it does."""
        assert self._executor is not None
        self._executor.shutdown(kill_workers=True)


def _is_death(error: BaseException) -> bool:
    from loky.process_executor import BrokenProcessPool

    return isinstance(error, BrokenProcessPool)


#: In the process: where panes are finished, and how.
_how: Finishing


def _begin(how: Finishing, parent: int) -> None:
    global _how
    _how = how
    # A signal to the group is for the loop, which ends this process.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def _nothing() -> None:
    """Start the process."""


def _finished_here(panes: list[Pane]) -> tuple[list[Finished], str]:
    return finish_all(_how, panes)
