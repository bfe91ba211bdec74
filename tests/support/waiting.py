"""Waiting for what comes true, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 600.0  # seconds until something that should come is given up; never reached when all is well


def wait_until(
    look: Callable[[], Any],
    said: Callable[[], object] = lambda: "",
    patience: float = PATIENCE,
    every: float = 0.02,
) -> Any:
    """What a look gives, as soon as it is true.

    Args:
        look: it is asked again after each pause.
        said: what to say where it never comes true.
        patience: seconds until that.
        every: seconds of a pause.
    """
    end = time.monotonic() + patience
    while not (given := look()):
        assert time.monotonic() < end, f"it did not come true: {said()}"
        time.sleep(every)
    return given
