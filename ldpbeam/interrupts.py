"""Signals within two seconds are one request to stop.

``timeout -s INT`` signals a process and then its group; a terminal and a supervisor may both signal.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: A signal within this many seconds of the first is the same request.
SAME_REQUEST_SECONDS = 2.0


def once_per_request(act: Callable[[], object]) -> Callable[..., None]:
    """A handler of signals that calls ``act``, but not again within :data:`SAME_REQUEST_SECONDS`."""
    acted: float | None = None

    def handle(*_: object) -> None:
        nonlocal acted
        now = time.monotonic()
        if acted is None or now - acted >= SAME_REQUEST_SECONDS:
            acted = now
            act()

    return handle


def _interrupt() -> None:
    raise KeyboardInterrupt


#: A handler of signals that raises KeyboardInterrupt once per request, for SIGINT and SIGTERM together.
interrupt = once_per_request(_interrupt)


@contextmanager
def sigterm_is_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, so that everything is cleaned up; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Let Ctrl-C raise one KeyboardInterrupt per request, so that a second signal does not hit the clean-up.

    A handler that a program has set for itself stays.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
