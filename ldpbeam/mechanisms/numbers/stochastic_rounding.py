"""SR, stochastic rounding (Duchi et al., JASA 2018; multi-service paper, section 2.3)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import SLACK, NumericMechanism, Uniforms
from ldpbeam.mechanisms.numbers.grid import DRAWS, STEPS, exponential, places, whole_draws
from ldpbeam.mechanisms.registry import register


@register
@dataclasses.dataclass(frozen=True)
class StochasticRounding(NumericMechanism):
    """A report +B or -B of v = 2x - 1, with B = (E+1)/(E-1) and E = exp(epsilon).

    P(+B) = 1/2 + v(E-1)/(2(E+1)) (equation 1). Unbiased for v, with variance B^2 - v^2. Two reports
    carry nothing about the distribution but its mean.
    """

    name = "stochastic_rounding"
    summary = "SR: one of two numbers, unbiased; best for means at small epsilon"

    @property
    def bound(self) -> float:
        """B, the larger of the two reports."""
        return 1.0 / math.tanh(self.epsilon / 2.0)

    @property
    def report_range(self) -> tuple[float, float]:
        """-B and B."""
        return -self.bound, self.bound

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """A quarter of B^2 - v^2, in powers of x."""
        return (self.bound**2 - 1.0) / 4.0, 1.0, -1.0

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """Reports of values in [0, 1]."""
        x = places(values, STEPS)
        return self.report_of(x, whole_draws(uniforms, x.size))

    def report_of(self, x: Integers, draws: Integers) -> Floats:
        """The reports of values' places, by a draw each."""
        return np.where(draws < self.draws_up(x), self.bound, -self.bound)

    def draws_up(self, x: Integers, steps: int = STEPS, draws: int = DRAWS) -> Integers:
        """How many draws of values' places lead to +B: from the fewest to all but as many."""
        fewest = math.ceil(draws / (exponential(self.epsilon) + 1))
        whole, rest = divmod(draws - 2 * fewest, steps)
        return fewest + x * whole + x * rest // steps

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads are +B or -B."""
        gap = np.abs(np.abs(payloads) - self.bound)
        return np.asarray(gap <= 2.0 * SLACK * self.bound, dtype=np.bool_)

    def cells(self, resolution: int) -> int:
        """Two, whatever the resolution."""
        return 2

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """0 for -B, 1 for +B."""
        return (payloads > 0).astype(np.int64)

    def representatives(self, resolution: int) -> Floats:
        """-B and +B."""
        return np.array([-self.bound, self.bound])

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """Linear in the value."""
        half = 0.5 / self.bound
        return LinearChannel(
            value_buckets,
            intercepts=np.array([0.5 + half, 0.5 - half]),
            slopes=np.array([-2.0 * half, 2.0 * half]),
        )

    def output(self) -> str:
        """The two reports."""
        return f"{-self.bound:.9g} or {self.bound:.9g}"


class LinearChannel(Channel):
    """A report of few values whose probabilities are linear in the value (SR).

    P(r | x) = intercepts[r] + slopes[r] x, exact for a bucket at its midpoint.
    """

    def __init__(self, value_buckets: int, intercepts: Floats, slopes: Floats) -> None:
        super().__init__(len(intercepts), value_buckets)
        self.intercepts = intercepts
        self.slopes = slopes
        self.midpoints = (np.arange(value_buckets) + 0.5) / value_buckets

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        product: Floats = self.intercepts * weights.sum() + self.slopes * (self.midpoints @ weights)
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        product: Floats = self.intercepts @ weights + (self.slopes @ weights) * self.midpoints
        return product

    def dense(self) -> Floats:
        """The outer sum of intercepts and slopes."""
        return self.intercepts[:, None] + np.outer(self.slopes, self.midpoints)
