"""The choice between GRR and OLH by their variances."""

from __future__ import annotations

import math
from typing import Literal

AUTO: Literal["auto"] = "auto"


def better_oracle(size: int, epsilon: float) -> str:
    """``grr`` if size - 2 < 3 exp(epsilon), else ``olh`` (Wang et al., USENIX Security 2017)."""
    return "grr" if size - 2 < 3.0 * math.exp(epsilon) else "olh"
