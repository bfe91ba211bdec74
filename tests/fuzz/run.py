"""Runs of a target: children are started until the work is done, and what ended them is said and kept."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fuzz.child import MOST_BYTES, MOST_CPU, TOO_LARGE, Work, work
from fuzz.targets import Target

#: A child is replaced after so many inputs: what libraries keep for themselves is no fault of an input.
INPUTS_OF_A_CHILD = 5_000
#: A target is given up after so many inputs that ended their child.
MOST_DEATHS = 40


@dataclass(frozen=True)
class Failure:
    """An input that broke a rule.

    Attributes:
        target: the decoder's name.
        number: the input's, with the run's seed its recipe.
        kind: what happened, the same for equal faults.
        detail: a traceback, or the stack when the process ended.
        data: the input.
    """

    target: str
    number: int
    kind: str
    detail: str
    data: bytes

    def save(self, folder: Path) -> Path:
        """Keep the input in a file; gives its path."""
        path = folder / self.target / f"{hashlib.sha256(self.kind.encode()).hexdigest()[:8]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return path


@dataclass(frozen=True)
class Fuzzed:
    """What a target did: how many inputs it met, how many it took at least in part, its failures by kind."""

    target: str
    inputs: int
    taken: int
    failures: tuple[Failure, ...]


def fuzz(target: Target, seed: int, *, count: int | None = None, seconds: float | None = None) -> Fuzzed:
    """Decode many inputs of a target, a given number or as many as a time allows."""
    target.prepare()
    until = float("inf") if seconds is None else time.monotonic() + seconds
    left = sys.maxsize if count is None else count
    done, taken, deaths = 0, 0, 0
    found: dict[str, Failure] = {}
    while left > done and time.monotonic() < until and deaths < MOST_DEATHS:
        own = Work(target, seed, done, min(INPUTS_OF_A_CHILD, left - done), until)
        ended = _child(own, found)
        done, taken, deaths = ended.next, taken + ended.taken, deaths + ended.died
    return Fuzzed(target.name, done, taken, tuple(found.values()))


class _Ended(NamedTuple):
    """How a child ended: the next input's number, how many it took, and whether the last ended it."""

    next: int
    taken: int
    died: bool


def _child(own: Work, found: dict[str, Failure]) -> _Ended:
    """One child, whose failures join those found."""
    with (
        mmap.mmap(-1, 16) as progress,
        tempfile.TemporaryFile("w+") as lines,
        tempfile.TemporaryFile("w+") as log,
    ):
        progress[:8] = own.first.to_bytes(8, "little")
        pid = os.fork()
        if not pid:
            try:
                work(own, progress, lines, log)
            finally:
                os._exit(1)
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        reached, taken = (int.from_bytes(progress[at : at + 8], "little") for at in (0, 8))
        lines.seek(0)
        log.seek(0)
        for line in lines:
            record = json.loads(line)
            number = record["number"]
            found.setdefault(
                record["kind"],
                Failure(own.target.name, number, record["kind"], record["detail"], own.input(number)),
            )
        if status == 0:
            return _Ended(reached, taken, False)
        stack = log.read()
        kind = _kind(status, stack)
        found.setdefault(kind, Failure(own.target.name, reached, kind, stack[:4_000], own.input(reached)))
        return _Ended(reached + 1, taken, True)


def _kind(status: int, stack: str) -> str:
    """What ended a child, and where it was, as far as its stack says."""
    places = [
        line.split('"')[1] + ":" + line.rpartition(" ")[2] for line in stack.splitlines() if 'File "' in line
    ]
    where = next(
        (f" in {Path(p).name}" for p in places if "/tests/" not in p and "site-packages" not in p), ""
    )
    if status == TOO_LARGE:
        return f"more than {MOST_BYTES >> 20} MB"
    if status == -signal.SIGPROF:
        return f"more than {MOST_CPU} s of CPU{where}"
    if status == -signal.SIGALRM:
        return f"waits{where}"
    return (
        f"ended by {signal.Signals(-status).name}{where}"
        if status < 0
        else f"ended with code {status}{where}"
    )


def in_parallel(tasks: list[Callable[[], None]], processes: int) -> bool:
    """Run tasks in processes of their own, so many at a time; whether all ended well."""
    running: set[int] = set()
    well = True
    for task in [*tasks, *[None] * processes]:
        while running and (task is None or len(running) >= processes):
            pid, status = os.wait()
            running.discard(pid)
            well = well and status == 0
        if task is not None:
            pid = os.fork()
            if not pid:
                code = 1
                try:
                    task()
                    code = 0
                finally:
                    os._exit(code)
            running.add(pid)
    return well
