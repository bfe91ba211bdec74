"""Discrete SW, which perturbs the value's bin instead of the value (Li et al., SIGMOD 2020, section 5.4)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import BinnedChannel, Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import UnbiasedMechanism, Uniforms, WholeReports
from ldpbeam.mechanisms.numbers.square_wave import SquareWave
from ldpbeam.mechanisms.registry import register
from ldpbeam.options import Range


class DiscreteBandChannel(Channel):
    """P(output j | bin k): ``inside`` if k <= j <= k + 2b, else ``outside``.

    A product is computed from differences of running sums, in time O(outputs + bins).
    """

    def __init__(self, bins: int, half_width: int, inside: float, outside: float) -> None:
        super().__init__(bins + 2 * half_width, bins)
        self.half_width = half_width
        self.inside = inside
        self.outside = outside

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        below = np.concatenate(([0.0], np.cumsum(weights)))
        last = np.minimum(np.arange(1, self.shape[0] + 1), self.shape[1])
        first = np.maximum(np.arange(self.shape[0]) - 2 * self.half_width, 0)
        return np.asarray(
            self.outside * below[-1] + (self.inside - self.outside) * (below[last] - below[first])
        )

    def _rmatvec(self, x: Floats) -> Floats:
        below = np.concatenate(([0.0], np.cumsum(np.ravel(x))))
        band = below[2 * self.half_width + 1 :] - below[: self.shape[1]]
        return np.asarray(self.outside * below[-1] + (self.inside - self.outside) * band)

    def dense(self) -> Floats:
        """The matrix, each entry computed from the distance between output and bin."""
        output, bin_ = np.indices(self.shape)
        near = np.abs(output - self.half_width - bin_) <= self.half_width
        return np.where(near, self.inside, self.outside)


@register
@dataclasses.dataclass(frozen=True)
class DiscreteSquareWave(WholeReports, UnbiasedMechanism):
    """An output j in 0 .. d + 2b - 1 for bin k = floor(dx), with probability p if |j - b - k| <= b, else q.

    With E = exp(epsilon) and d bins, b = floor(d times SW's half width), p = E/((2b+1)E + d - 1) and q = p/E.
    Every client of a study must use the same number of bins. If b is 0 the mechanism is GRR; with fewer bins
    that happens at a smaller epsilon.

    The mean output is affine in the bin: E[j] - c = g d (x - 1/2), where c = (d + 2b - 1)/2 is the middle
    output, x the *midpoint of the bin* and g = (2b + 1)(p - q). So 1/2 + (j - c)/(g d) is unbiased for this
    midpoint, which is at most 1/(2d) from the value. Its variance is V + (1/g - 1)(x - 1/2)^2 with
    V (g d)^2 = q D(D^2 - 1)/12 + (p - q) b(b + 1)(2b + 1)/3 and D = d + 2b.

    Attributes:
        bins: d, the number of equal bins of the domain, 2 to 2^20; it must divide the buckets of the
            estimate.
    """

    name = "discrete_square_wave"
    summary = "discrete SW: a bin near the value's is likelier; short reports"
    stops_early = True
    bins: Annotated[int, Range(least=2, most=2**20)] = 64

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters, and a mark that outputs are summed, which statistics of earlier versions lack."""
        return {**super().parameters, "sums": "outputs"}

    @property
    def granularity(self) -> int:
        """The number of bins."""
        return self.bins

    @functools.cached_property
    def half_width(self) -> int:
        """The half width b of the wave, in bins."""
        return math.floor(self.bins * SquareWave(self.epsilon).half_width)

    @property
    def outputs(self) -> int:
        """The number of outputs, d + 2b."""
        return self.bins + 2 * self.half_width

    @property
    def probabilities(self) -> tuple[float, float]:
        """(p, q): the probabilities of each output near the bin, and of each other output."""
        growth = math.exp(self.epsilon)
        other = 1.0 / ((2 * self.half_width + 1) * growth + self.bins - 1.0)
        return growth * other, other

    @property
    def _gain(self) -> float:
        """The value g = (2b + 1)(p - q), with p - q = q (E - 1)."""
        return (2 * self.half_width + 1) * self.probabilities[1] * math.expm1(self.epsilon)

    @property
    def unbiased_map(self) -> tuple[float, float]:
        """The map x' = 1/2 + (j - c)/(g d), for the midpoint x of the value's bin."""
        slope = 1.0 / (self._gain * self.bins)
        return slope, 0.5 - slope * (self.outputs - 1) / 2.0

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """The coefficients of V + (1/g - 1)(x - 1/2)^2 in powers of x, the midpoint of a bin."""
        b, (_, other), wide = self.half_width, self.probabilities, 1.0 / self._gain - 1.0
        even = other * self.outputs * (self.outputs**2 - 1) / 12.0
        band = other * math.expm1(self.epsilon) * b * (b + 1) * (2 * b + 1) / 3.0
        return (even + band) / (self._gain * self.bins) ** 2 + wide / 4.0, -wide, wide

    @property
    def fixed_point_step(self) -> float:
        """Outputs are whole numbers, so their sums are exact."""
        return 1.0

    def fixed_point(self, payloads: NDArray[Any]) -> Integers:
        """The outputs."""
        return payloads.astype(np.int64)

    def representatives(self, resolution: int) -> Floats:
        """Each output, shape (outputs,)."""
        return np.arange(self.outputs, dtype=np.float64)

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,); values outside are moved to the nearest end."""
        x = np.clip(np.asarray(values, dtype=np.float64), 0.0, 1.0)
        index = np.minimum(np.floor(self.bins * x).astype(np.int64), self.bins - 1)
        wave = 2 * self.half_width + 1
        near = uniforms.random(x.size) < wave * self.probabilities[0]
        draw = uniforms.random(x.size)
        inside = index + np.floor(wave * draw).astype(np.int64)
        outside = np.floor((self.bins - 1) * draw).astype(np.int64)
        outside += wave * (outside >= index)
        return np.where(near, inside, outside).astype(np.uint32)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: one per output."""
        return self.outputs

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(output | value bucket): a band over bins, each bin's column repeated for its value buckets.

        Raises:
            ValueError: if the number of value buckets is not a multiple of the number of bins.
        """
        band = DiscreteBandChannel(self.bins, self.half_width, *self.probabilities)
        return BinnedChannel(band, value_buckets)

    def output(self) -> str:
        """The range of the indexes, in words."""
        return f"the index of an output, 0 to {self.outputs - 1}"
