"""A browser that reports a click on one of n recommended items, written from its public description alone.

With p = E/(E + n - 1), E = exp(epsilon), the item is sent as it is; otherwise one that is drawn from all n.
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Items = NDArray[np.int64]


def clicks(many: int, items: int, rng: Generator) -> Items:
    """The item that each person clicks on: shares are in proportion to 1, 1/2, 1/3, ..., in any order."""
    popularity = 1.0 / rng.permutation(np.arange(1, items + 1))
    return rng.choice(items, many, p=popularity / popularity.sum())


def sent(clicked: Items, items: int, epsilon: float, rng: Generator) -> Items:
    """The item that each browser reports."""
    keep = exp(epsilon) / (exp(epsilon) + items - 1)
    return np.where(rng.random(len(clicked)) < keep, clicked, rng.integers(0, items, len(clicked)))
