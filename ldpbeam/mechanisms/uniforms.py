"""Uniform draws from the operating system's secure source of randomness."""

from __future__ import annotations

import os

import numpy as np

from ldpbeam.domains import Floats


class SecureUniforms:
    """Uniform draws in [0, 1) of 53 bits from ``os.urandom``; real clients must use such a source."""

    def random(self, size: int) -> Floats:
        """An array of draws, shape (size,)."""
        bits = np.frombuffer(os.urandom(8 * size), dtype="<u8") >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53
