"""A browser that reports the timing of a page with a noisy confidence, written from the description alone.

PerformanceNavigationTiming has a ``confidence`` whose ``value`` is high or low, and whose
``randomizedTriggerRate`` is the probability with which the value is a fair coin instead of the truth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

RATES = (0.5, 0.25)


def people(many: int, share_of_high: float, rng: Generator) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Whether each one's confidence is high, and how many milliseconds the page took."""
    high = rng.random(many) < share_of_high
    return high, np.where(high, rng.lognormal(6.5, 0.5, many), rng.lognormal(7.2, 0.6, many))


def records(high: NDArray[np.bool_], rng: Generator) -> dict[str, NDArray[Any]]:
    """What each browser says of its confidence, 0 for low and 1 for high, and its rate."""
    rates = rng.choice(RATES, len(high))
    coin = rng.random(len(high)) < 0.5
    said = np.where(rng.random(len(high)) < rates, coin, high)
    return {"payload": said.astype(np.int64), "randomizedTriggerRate": rates}
