"""The state of a running stream: from the files that it writes, its readers and its engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil
from apache_beam.runners.runner import PipelineState
from grpc import RpcError

from ldpbeam.beam.judge_panes import differing_here
from ldpbeam.beam.solve_windows import Solves, solved_here
from ldpbeam.folders.output import FIT_FOLDER, files_in
from ldpbeam.pipelines.graphs.stream import StreamJob
from ldpbeam.pipelines.runs.stream_runs import read_run_accounting
from ldpbeam.transforms.sources import reader
from ldpbeam.transforms.sources.feeds import elapsed
from ldpbeam.transforms.sources.lag import Lag
from ldpbeam.transforms.state.journal import asked_to_stop, named_windows
from ldpbeam.transforms.storage import read_json
from ldpbeam.transforms.windows.timers import in_words, waiting_windows

#: An engine that asks for no reports for this long, in milliseconds, is taken to be stuck.
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
        accounting: the content of the run's ``accounting.json``.
        watermark: the event time up to which windows are closed, in epoch milliseconds.
        lag: how far the readers are behind the server.
        open_windows: how many windows have acknowledged reports and accept more.
        waiting_windows: how many windows have ended and wait for the engine.
        tests: how many tests of fit there are.
        flagged: how many of them say that the reports are not what the study claims.
        solves: how long estimates took.
        differing: how many estimates of closed windows differed from those before, since the process started.
        memory: the memory that the run uses on this machine.
    """

    run: str
    study: str
    accounting: dict[str, Any]
    watermark: int | None
    lag: Lag | None
    open_windows: int | None
    waiting_windows: int | None
    tests: int
    flagged: int
    solves: Solves | None
    differing: int | None
    memory: Memory


class Watched:
    """A run that goes on, and how far it has come.

    Args:
        job: the run.
        here: whether its workers are in this process.
        result: the engine's handle of the run.
    """

    def __init__(self, job: StreamJob, here: bool, result: Any) -> None:
        self.job = job
        self.here = here
        self._result = result
        #: By path: when a file of tests was written and its size, and how many tests and flags it has. Files
        #: of closed windows do not change, and a stream of a year has thousands.
        self._fit: dict[str, tuple[tuple[float, int], tuple[int, int]]] = {}

    def state(self) -> State:
        """How far the run has come now.

        Raises:
            OSError: if a file of the run cannot be read.
            ValueError: if its content is damaged.
        """
        progress = reader.progress(self.job.run)
        tests, flagged = self._tests()
        return State(
            run=self.job.run,
            study=self.job.study.name,
            accounting=read_run_accounting(self.job),
            watermark=progress.watermark,
            lag=progress.lag,
            open_windows=None if progress.watermark is None else self._open_at(progress.watermark),
            waiting_windows=self._waiting() if self.here else None,
            tests=tests,
            flagged=flagged,
            solves=solved_here.get((self.job.output, self.job.run), Solves()) if self.here else None,
            differing=differing_here[self.job.output, self.job.run] if self.here else None,
            memory=memory(),
        )

    def stuck(self) -> str | None:
        """Why the run does not go on; None if it does."""
        try:
            engine = self._result.state
        except RpcError:
            return "the engine does not answer"
        if PipelineState.is_terminal(engine):
            return f"the engine has ended: {engine}"
        asked = reader.progress(self.job.run).asked
        if asked is None or elapsed() - asked < STUCK or self._asked_to_stop():
            return None
        return f"the engine has asked for no reports for {(elapsed() - asked) // 1000} seconds"

    def unready(self) -> str | None:
        """Why the run does not read; None if it does."""
        stuck = self.stuck()
        if stuck is not None:
            return stuck
        if self._asked_to_stop():
            return "the run was asked to stop"
        if self.here and reader.progress(self.job.run).asked is None:
            return "the engine has not begun to read"
        return self.waiting()

    def waiting(self) -> str | None:
        """How many windows wait for an engine in this process, as a sentence; None without any."""
        windows = self._waiting()
        return in_words(windows) if windows else None

    def _waiting(self) -> int:
        return waiting_windows(self.job.run, reader.progress(self.job.run).watermark)

    def _asked_to_stop(self) -> bool:
        return asked_to_stop(self.job.output, self.job.run)

    def _open_at(self, watermark: int) -> int:
        windows = self.job.study.windows
        assert windows is not None
        named = named_windows(self.job.output, self.job.run)
        return sum(window.end + windows.allowed_lateness > watermark for window in named)

    def _tests(self) -> tuple[int, int]:
        """How many tests of fit there are, and how many of them are flagged."""
        for entry in files_in(self.job.of_run(FIT_FOLDER), "*.json"):
            written = entry.last_updated_in_seconds or 0.0, entry.size_in_bytes
            if entry.path not in self._fit or self._fit[entry.path][0] != written:
                flags = [bool(test["flagged"]) for test in read_json(entry.path)["tests"]]
                self._fit[entry.path] = written, (len(flags), sum(flags))
        counts = [counts for _, counts in self._fit.values()]
        return sum(tests for tests, _ in counts), sum(flagged for _, flagged in counts)


def memory() -> Memory:
    """The memory of this process, and of the processes that it started, such as Prism."""
    this = psutil.Process()
    return Memory(this.memory_info().rss, sum(map(_resident, this.children(recursive=True))))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it has ended meanwhile
        return 0
