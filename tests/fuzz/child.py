"""A child process that decodes inputs one after the other, and is ended by the one that breaks a limit."""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import resource
import signal
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fuzz.targets import Target

#: What decoding one input may add to the process: resident, and reserved.
MOST_BYTES, MOST_RESERVED = 512 * 2**20, 2**30
#: Seconds of CPU for one input; and of the clock, for one that waits for something.
MOST_CPU, MOST_WAIT = 10, 300
#: How a child ends that met an input which took too much memory.
TOO_LARGE = 77


@dataclass(frozen=True)
class Work:
    """Which inputs a child decodes.

    Attributes:
        target: the decoder.
        seed: of the whole run; input ``n`` is the same in every run with the same seed.
        first: the number of the first input.
        count: how many at most.
        until: when to stop, by the clock of ``time.monotonic``.
    """

    target: Target
    seed: int
    first: int
    count: int
    until: float = float("inf")

    def input(self, number: int) -> bytes:
        """An input's bytes."""
        return self.target.input(self.seed, number)


def work(own: Work, progress: mmap.mmap, failures: IO[str], log: IO[str]) -> None:
    """Decode inputs; ends this process.

    Args:
        own: which ones.
        progress: eight bytes of the number of the input that is being decoded, and eight of how many were
            taken, at least in part: they outlive the process.
        failures: takes a line of JSON for each input whose decoder raised.
        log: takes the stack of a process that is ended by a signal.
    """
    reserved = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (reserved + MOST_RESERVED,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(log, all_threads=False)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
        # In C code, too: the handler is the kernel's default, which ends the process.
        faulthandler.register(number, log, all_threads=False, chain=True)
    warnings.simplefilter("error", RuntimeWarning)
    floor, taken = _largest(), 0
    for number in range(own.first, own.first + own.count):
        if time.monotonic() > own.until:
            break
        progress[:8] = number.to_bytes(8, "little")
        data = own.input(number)
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU)
        signal.setitimer(signal.ITIMER_REAL, MOST_WAIT)
        try:
            taken += own.target.decode(data) > 0
        except Exception as error:
            record = {"number": number, **_described(error)}
            failures.write(json.dumps(record) + "\n")
            failures.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if _largest() - floor > MOST_BYTES:
            os._exit(TOO_LARGE)
        progress[:] = (number + 1).to_bytes(8, "little") + taken.to_bytes(8, "little")
    os._exit(0)


def _largest() -> int:
    """The largest resident size of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _described(error: Exception) -> dict[str, Any]:
    """An exception by its type and the innermost place of ours, by which equal faults are known."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if "/tests/fuzz/" not in frame.filename and "site-packages" not in frame.filename
    ]
    place = own[-1] if own else frames[-1]
    where = f"{Path(place.filename).name}:{place.name}"
    text = "".join(traceback.format_exception(error, limit=-12))
    return {"kind": f"{type(error).__name__} in {where}", "detail": text[-4_000:]}
