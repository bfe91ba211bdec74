"""Which windows wait for an engine in this process: they have ended, and their timers have not fired.

An engine fires the timers of windows one after another. Meanwhile the source still reads, so neither its rate
nor its lag says that estimates are late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable

from ldpbeam.windows import Bounds
from ldpbeam.words import counted

#: A window waits if its timer has not fired for this many seconds after it was first seen to have ended.
PATIENCE_SECONDS = 5.0
#: By run: (attribute, window, which state of the window) whose timer is set, and when the window was first
#: seen to have ended.
_set: dict[str, dict[tuple[str, Bounds, Hashable], float | None]] = {}
_lock = threading.Lock()


def timer_is_set(run: str, attribute: str, window: Bounds, state: Hashable) -> None:
    """Note that the timer of a state of a window is set for the window's end."""
    with _lock:
        _set.setdefault(run, {}).setdefault((attribute, window, state), None)


def timer_fired(run: str, attribute: str, window: Bounds, state: Hashable) -> None:
    """Note that it has fired."""
    with _lock:
        _set.get(run, {}).pop((attribute, window, state), None)


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
