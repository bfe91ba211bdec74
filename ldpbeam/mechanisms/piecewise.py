"""PM, the piecewise mechanism (Wang et al., ICDE 2019; multi-service paper, section 2.4)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import BandChannel, Channel
from ldpbeam.mechanisms.mechanism import NumericMechanism, Uniforms
from ldpbeam.mechanisms.registry import register


@register
@dataclasses.dataclass(frozen=True)
class Piecewise(NumericMechanism):
    """A report y in [-C, C] of v = 2x - 1: likelier within [l(v), r(v)] than outside.

    With s = exp(epsilon/2): C = (s+1)/(s-1), l(v) = (C+1)v/2 - (C-1)/2, r(v) = l(v) + C - 1; the
    density is s(s-1)/(2(s+1)) inside and that over exp(epsilon) outside. Unbiased for v, with
    variance v^2/(s-1) + (s+3)/(3(s-1)^2).
    """

    name = "piecewise"
    summary = "PM: unbiased numbers near the value; means and distributions"

    @property
    def bound(self) -> float:
        """C, the largest report."""
        return 1.0 / math.tanh(self.epsilon / 4.0)

    @property
    def report_range(self) -> tuple[float, float]:
        """[-C, C]."""
        return -self.bound, self.bound

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """A quarter of the variance on [-1, 1], in powers of x."""
        excess = math.expm1(self.epsilon / 2.0)
        constant = (excess + 4.0) / (3.0 * excess**2)
        return (1.0 / excess + constant) / 4.0, -1.0 / excess, 1.0 / excess

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """Reports of values in [0, 1]."""
        v = 2.0 * np.asarray(values, dtype=np.float64) - 1.0
        C = self.bound
        left = (C + 1.0) / 2.0 * v - (C - 1.0) / 2.0
        s = math.exp(self.epsilon / 2.0)
        near = uniforms.random(v.size) < s / (s + 1.0)
        draw = uniforms.random(v.size)
        outside = -C + draw * (C + 1.0)
        outside = np.where(outside < left, outside, outside + (C - 1.0))
        return np.where(near, left + draw * (C - 1.0), outside)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """A band of half width (C-1)/2 around (C+1)v/2."""
        C = self.bound
        s = math.exp(self.epsilon / 2.0)
        inside = s * math.expm1(self.epsilon / 2.0) / (2.0 * (s + 1.0))
        return BandChannel(
            value_buckets,
            self.cells(resolution),
            low=-C,
            high=C,
            slope=C + 1.0,
            offset=-(C + 1.0) / 2.0,
            half_width=(C - 1.0) / 2.0,
            inside=inside,
            outside=inside * math.exp(-self.epsilon),
        )
