"""A program that lasts, and waiting for what processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SLEEP = "import time; time.sleep(120)"


def wait_for(look: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not look():
        assert time.monotonic() < end
        time.sleep(0.05)
