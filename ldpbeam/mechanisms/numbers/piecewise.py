"""PM, the piecewise mechanism (Wang et al., ICDE 2019; multi-service paper, section 2.4)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Band, BandChannel, Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import NumericMechanism, Uniforms
from ldpbeam.mechanisms.numbers.grid import STEPS, Wave, places, wave, whole_draws
from ldpbeam.mechanisms.registry import register


@register
@dataclasses.dataclass(frozen=True)
class Piecewise(NumericMechanism):
    """A report y in [-C, C] of v = 2x - 1, which is likelier inside [l(v), r(v)] than outside.

    With s = exp(epsilon/2), C = (s+1)/(s-1), l(v) = (C+1)v/2 - (C-1)/2 and r(v) = l(v) + C - 1. The density
    is s(s-1)/(2(s+1)) inside, and that divided by exp(epsilon) outside. The report is unbiased for v, with
    variance v^2/(s-1) + (s+3)/(3(s-1)^2).
    """

    name = "piecewise"
    summary = "PM: unbiased numbers near the value; means and distributions"

    @property
    def bound(self) -> float:
        """The largest report, C."""
        return 1.0 / math.tanh(self.epsilon / 4.0)

    @functools.cached_property
    def wave(self) -> Wave:
        """The wave from which reports are drawn; it is 1/s as wide as the range outside of it."""
        narrower = math.exp(-self.epsilon / 2.0)
        return wave(self.epsilon, -math.expm1(-self.epsilon / 2.0), narrower)

    @property
    def report_range(self) -> tuple[float, float]:
        """[-C, C]."""
        return -self.bound, self.bound

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """The coefficients of a quarter of the variance on [-1, 1], in powers of x."""
        excess = math.expm1(self.epsilon / 2.0)
        constant = (excess + 4.0) / (3.0 * excess**2)
        return (1.0 / excess + constant) / 4.0, -1.0 / excess, 1.0 / excess

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,), on a grid of (C + 1) 2^-30."""
        x = places(values, STEPS)
        return self.report_at(self.wave.sample(x, whole_draws(uniforms, x.size)))

    def report_at(self, steps: Integers) -> Floats:
        """The reports at places of the wave, in [-C, C], shape (n,)."""
        reports = (steps - (self.wave.size - 1) / 2.0) * ((self.bound + 1.0) / STEPS)
        return np.asarray(reports, dtype=np.float64)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(cell | value bucket): a band of half width (C-1)/2 around (C+1)v/2."""
        return BandChannel(value_buckets, self.cells(resolution), self.band)

    @property
    def band(self) -> Band:
        """The density of reports: a band of half width (C-1)/2 around (C+1)v/2."""
        C = self.bound
        s = math.exp(self.epsilon / 2.0)
        inside = s * math.expm1(self.epsilon / 2.0) / (2.0 * (s + 1.0))
        return Band(
            low=-C,
            high=C,
            slope=C + 1.0,
            offset=-(C + 1.0) / 2.0,
            half_width=(C - 1.0) / 2.0,
            inside=inside,
            outside=inside * math.exp(-self.epsilon),
        )
