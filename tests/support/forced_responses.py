"""A table of ``matrix`` with any epsilon."""

from __future__ import annotations

import math
from typing import Any


def forced_responses(size: int, epsilon: float) -> dict[str, Any]:
    """The options of forced responses of 1, 2, 3, ... parts, so that the table is not symmetric.

    Where no table has the epsilon, they are those of 1.
    """
    if not 0.0 < epsilon < 100.0:
        epsilon = 1.0
    part = 1.0 / (math.expm1(epsilon) + size * (size + 1) / 2)
    return {"design": "forced_response", "p": [part * (1 + index) for index in range(size)]}
