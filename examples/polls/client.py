"""A device that is polled: it answers whether it saw a fragment with one noisy bit, and says nothing else."""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray


def answers(saw: NDArray[np.bool_], epsilon: float, rng: Generator) -> NDArray[np.int64]:
    """The bit of each device, 1 for yes: the true one with probability E/(E + 1), E = exp(epsilon)."""
    true = rng.random(len(saw)) < exp(epsilon) / (exp(epsilon) + 1.0)
    return np.where(true, saw, ~saw).astype(np.int64)
