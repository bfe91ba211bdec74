"""HM, the hybrid mechanism (Wang et al., ICDE 2019, section III-C)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel, MixtureChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import NumericMechanism, Uniforms
from ldpbeam.mechanisms.numbers.grid import DRAWS, STEPS, places, whole_draws
from ldpbeam.mechanisms.numbers.piecewise import Piecewise
from ldpbeam.mechanisms.numbers.stochastic_rounding import StochasticRounding
from ldpbeam.mechanisms.registry import register

#: Up to this epsilon, SR alone has the lower variance (equation 9; the exact root is 0.6093).
SR_ALONE = 0.61


@register
@dataclasses.dataclass(frozen=True)
class Hybrid(NumericMechanism):
    """PM's report with probability alpha = 1 - exp(-epsilon/2), else SR's; up to epsilon 0.61 always SR's.

    The report is unbiased for v = 2x - 1. Above epsilon 0.61 the variance is (s+3)/(3s(s-1)) + B^2/s for
    every v, with s = exp(epsilon/2) and SR's B. SR's reports lie inside PM's range. A report that SR's
    ``is_report`` accepts is counted as SR's, even if PM made it. This happens to one report in a million at
    epsilon 1; next to an end, to 3 in 10,000 at epsilon 10 and to 2 in 100 at 20.
    """

    name = "hybrid"
    summary = "HM: PM or SR by a coin, unbiased; best for means at any epsilon"

    @property
    def share(self) -> float:
        """The probability alpha of PM."""
        return -math.expm1(-self.epsilon / 2.0) if self.epsilon > SR_ALONE else 0.0

    @functools.cached_property
    def piecewise(self) -> Piecewise:
        """PM at the same epsilon."""
        return Piecewise(self.epsilon)

    @property
    def rounding(self) -> StochasticRounding:
        """SR at the same epsilon."""
        return StochasticRounding(self.epsilon)

    @property
    def report_range(self) -> tuple[float, float]:
        """PM's range; SR's up to epsilon 0.61."""
        return self.piecewise.report_range if self.share else self.rounding.report_range

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """The mixture of PM's and SR's polynomials: both are unbiased, so mixing adds no variance."""
        alpha = self.share
        c0, c1, c2 = (
            alpha * one + (1.0 - alpha) * other
            for one, other in zip(
                self.piecewise.variance_polynomial, self.rounding.variance_polynomial, strict=True
            )
        )
        return c0, c1, c2

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,): one draw chooses PM or SR, a second one the report."""
        x = places(values, STEPS)
        first, second = whole_draws(uniforms, x.size), whole_draws(uniforms, x.size)
        rounded = self.rounding.report_of(x, second)
        if not self.share:
            return rounded
        spread = self.piecewise.report_at(self.piecewise.wave.sample(x, second))
        return np.where(first < math.floor(self.share * DRAWS), spread, rounded)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads are possible reports of PM or SR."""
        return super().is_report(payloads) if self.share else self.rounding.is_report(payloads)

    def cells(self, resolution: int) -> int:
        """The number of PM's equal cells and SR's two reports; 2 up to epsilon 0.61."""
        return resolution + 2 if self.share else 2

    def grid(self, resolution: int) -> None:
        """None: beside PM's cells, SR's two reports have one cell each."""

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The cell of each payload: PM's cells first, then -B and +B."""
        atoms = self.rounding.bucketise(payloads, resolution)
        if not self.share:
            return atoms
        spread = self.piecewise.bucketise(payloads, resolution)
        return np.where(self.rounding.is_report(payloads), resolution + atoms, spread)

    def representatives(self, resolution: int) -> Floats:
        """The midpoints of PM's cells, then -B and +B."""
        atoms = self.rounding.representatives(resolution)
        if not self.share:
            return atoms
        return np.concatenate((self.piecewise.representatives(resolution), atoms))

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(cell | value bucket): PM's band with share alpha, and SR's two rows with share 1 - alpha."""
        rounding = self.rounding.channel(value_buckets, resolution)
        if not self.share:
            return rounding
        spread = self.piecewise.channel(value_buckets, resolution)
        return MixtureChannel([spread, rounding], [self.share, 1.0 - self.share])

    def at(self, values: Floats, resolution: int) -> Floats:
        """P(cell | value): the mixture of PM's and SR's."""
        rounding = self.rounding.at(values, resolution)
        if not self.share:
            return rounding
        spread = self.piecewise.band.at(values, resolution)
        return np.vstack((self.share * spread, (1.0 - self.share) * rounding))

    def corners(self, resolution: int) -> Floats:
        """PM's; SR's reports have none."""
        return self.piecewise.band.corners(resolution) if self.share else np.zeros(0)

    def output(self) -> str:
        """PM's range and SR's two reports, in words."""
        if not self.share:
            return self.rounding.output()
        return f"{self.piecewise.output()}, or {self.rounding.output()}"
