"""SR, stochastic rounding (Duchi et al., JASA 2018; multi-service paper, section 2.3)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel, DenseChannel
from ldpbeam.domains import Floats, Integers, bucket_midpoints
from ldpbeam.mechanisms.mechanism import SLACK, NumericMechanism, Uniforms
from ldpbeam.mechanisms.numbers.grid import DRAWS, STEPS, exponential, places, whole_draws
from ldpbeam.mechanisms.registry import register


@register
@dataclasses.dataclass(frozen=True)
class StochasticRounding(NumericMechanism):
    """A report +B or -B of v = 2x - 1, with B = (E+1)/(E-1) and E = exp(epsilon).

    P(+B) = 1/2 + v(E-1)/(2(E+1)) (equation 1). The report is unbiased for v, with variance B^2 - v^2. Such
    reports have no information about the distribution of values except its mean.
    """

    name = "stochastic_rounding"
    summary = "SR: one of two numbers, unbiased; best for means at small epsilon"

    @property
    def bound(self) -> float:
        """The larger of the two reports, B."""
        return 1.0 / math.tanh(self.epsilon / 2.0)

    @property
    def report_range(self) -> tuple[float, float]:
        """The two reports, -B and B."""
        return -self.bound, self.bound

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """The coefficients of (B^2 - v^2) / 4 in powers of x."""
        return (self.bound**2 - 1.0) / 4.0, 1.0, -1.0

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,)."""
        x = places(values, STEPS)
        return self.report_of(x, whole_draws(uniforms, x.size))

    def report_of(self, x: Integers, draws: Integers) -> Floats:
        """The reports, shape (n,), given the values' places and one draw per value."""
        return np.where(draws < self.draws_up(x), self.bound, -self.bound)

    def draws_up(self, x: Integers, steps: int = STEPS, draws: int = DRAWS) -> Integers:
        """How many draws lead to +B, for values' places from 0 to ``steps``, shape (n,).

        The number increases linearly from ceil(draws / (E + 1)) at 0 to ``draws`` minus that at ``steps``.
        """
        fewest = math.ceil(draws / (exponential(self.epsilon) + 1))
        whole, rest = divmod(draws - 2 * fewest, steps)
        return fewest + x * whole + x * rest // steps

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads are +B or -B, within a slack."""
        gap = np.abs(np.abs(payloads) - self.bound)
        return np.asarray(gap <= 2.0 * SLACK * self.bound, dtype=np.bool_)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: two at every resolution."""
        return 2

    def grid(self, resolution: int) -> None:
        """None: the two reports have a cell each."""

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The bucket of each payload: 0 for -B, 1 for +B."""
        return (payloads > 0).astype(np.int64)

    def representatives(self, resolution: int) -> Floats:
        """The two reports, -B and +B."""
        return np.array([-self.bound, self.bound])

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(report | value bucket), linear in the value: the average of a bucket is that of its midpoint."""
        return DenseChannel(self.at(bucket_midpoints(value_buckets), resolution))

    def at(self, values: Floats, resolution: int) -> Floats:
        """P(report | value), linear in the value."""
        up = 0.5 + (values - 0.5) / self.bound
        return np.vstack((1.0 - up, up))

    def corners(self, resolution: int) -> Floats:
        """No values: P(report | value) is linear everywhere."""
        return np.zeros(0)

    def output(self) -> str:
        """The two reports, in words."""
        return f"{-self.bound:.9g} or {self.bound:.9g}"
