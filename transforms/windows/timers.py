"""The timers of windows in this process: which only a stop fires, and which windows wait for the engine.

A window waits if it has ended and its timers have not fired. An engine fires the timers of windows one after
another. Meanwhile the source still reads, so neither its rate nor its lag says that estimates are late.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Hashable

from apache_beam.utils.timestamp import Timestamp

from ldpbeam.transforms.engine_times import timestamp
from ldpbeam.transforms.state.journal import LOOKING_SECONDS, asked_to_stop, stopped_at
from ldpbeam.windows import Bounds
from ldpbeam.words import counted

#: A window waits if its timer has not fired for this many seconds after it was first seen to have ended.
PATIENCE_SECONDS = 5.0
#: By run: (attribute, window, which state of the window) whose timer is set, and when the window was first
#: seen to have ended.
_set: dict[str, dict[tuple[str, Bounds, Hashable], float | None]] = {}
_lock = threading.Lock()


class Stop:
    """The stop of a run with one reader, as the timers of its windows see it.

    Args:
        output: the run's output folder.
        run: the name of the run.
    """

    def __init__(self, output: str, run: str) -> None:
        self.output = output
        self.run = run
        self._looked = -math.inf
        self._watermark: Timestamp | None = None

    def is_before(self, timer: Timestamp) -> bool:
        """Whether the run has stopped, and a timer lies after the watermark that it had reached.

        Only the end of the source fires such a timer, so no report is on its way then. The answer may be no
        for a second after the stop, since files are looked for once a second.
        """
        if self._watermark is None and time.monotonic() - self._looked >= LOOKING_SECONDS:
            self._looked = time.monotonic()
            stopped = stopped_at(self.output, self.run) if asked_to_stop(self.output, self.run) else None
            self._watermark = None if stopped is None else timestamp(stopped)
        return self._watermark is not None and timer > self._watermark


def timer_is_set(stop: Stop | None, attribute: str, window: Bounds | None, state: Hashable) -> None:
    """Note that the timer of a state of a window is set for the window's end, if its run has a stop."""
    if stop is not None and window is not None:
        with _lock:
            _set.setdefault(stop.run, {}).setdefault((attribute, window, state), None)


def timer_fired(stop: Stop | None, attribute: str, window: Bounds | None, state: Hashable) -> None:
    """Note that it has fired."""
    if stop is not None and window is not None:
        with _lock:
            _set.get(stop.run, {}).pop((attribute, window, state), None)


def in_words(windows: int) -> str:
    """How many windows wait, as a sentence."""
    return f"{counted(windows, 'window waits', 'windows wait')} for the engine"


def waiting_windows(run: str, watermark: int | None) -> int:
    """How many windows of a run wait, each of one attribute, at a watermark in epoch milliseconds."""
    if watermark is None:
        return 0
    now, waiting = time.monotonic(), set()
    with _lock:
        timers = _set.get(run, {})
        for (attribute, window, state), since in timers.items():
            if window[1] > watermark:
                continue
            if since is None:
                timers[attribute, window, state] = now
            elif now - since >= PATIENCE_SECONDS:
                waiting.add((attribute, window))
    return len(waiting)
