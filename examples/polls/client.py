"""A device that is polled: it says with one noisy bit whether what it saw is in a random half of a list."""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray


def answers(places: NDArray[np.int64], of: int, epsilon: float, rng: Generator) -> NDArray[np.int64]:
    """The answer of each device: 2 row + 1 for yes, 2 row for no.

    A row is a question that the device draws, and no secret: is the number of bits that the row and the place
    have in common even? The answer is true with probability E/(E + 1), E = exp(epsilon).

    Args:
        places: the place of what each device saw.
        of: how many places there are, a power of two.
        epsilon: the privacy budget of an answer.
        rng: draws the questions and the noise; the devices of a fleet take the system's secure source.
    """
    rows = rng.integers(of, size=len(places))
    even = np.bitwise_count(rows & places) % 2 == 0
    true = rng.random(len(places)) < exp(epsilon) / (exp(epsilon) + 1.0)
    return 2 * rows + (even == true)
