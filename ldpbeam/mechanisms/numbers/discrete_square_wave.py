"""Discrete SW, which perturbs the value's bin instead of the value (Li et al., SIGMOD 2020, section 5.4)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import BinnedChannel, Channel
from ldpbeam.domains import Domain, Floats, Integers, Numeric
from ldpbeam.mechanisms.mechanism import Mechanism, Uniforms
from ldpbeam.mechanisms.numbers.square_wave import SquareWave
from ldpbeam.mechanisms.registry import register


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
        product: Floats = self.outside * below[-1] + (self.inside - self.outside) * (
            below[last] - below[first]
        )
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        below = np.concatenate(([0.0], np.cumsum(np.ravel(x))))
        band = below[2 * self.half_width + 1 :] - below[: self.shape[1]]
        product: Floats = self.outside * below[-1] + (self.inside - self.outside) * band
        return product

    def dense(self) -> Floats:
        """The matrix, each entry computed from the distance between output and bin."""
        output, bin_ = np.indices(self.shape)
        near = np.abs(output - self.half_width - bin_) <= self.half_width
        return np.where(near, self.inside, self.outside)


@register
@dataclasses.dataclass(frozen=True)
class DiscreteSquareWave(Mechanism):
    """An output j in 0 .. d + 2b - 1 for bin k = floor(dx), with probability p if |j - b - k| <= b, else q.

    With E = exp(epsilon) and d bins, b = floor(d times SW's half width), p = E/((2b+1)E + d - 1) and q = p/E.
    Every client of a study must use the same number of bins. If b is 0 the mechanism is GRR; with fewer bins
    that happens at a smaller epsilon.

    Attributes:
        bins: d, the number of equal bins of the domain, 2 to 2^20; it must divide the buckets of the
            estimate.
    """

    name = "discrete_square_wave"
    summary = "discrete SW: a bin near the value's is likelier; short reports"
    domain_type = Numeric

    bins: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.bins) is not int or not 2 <= self.bins <= 2**20:
            raise ValueError(f"bins must be a whole number from 2 to 2^20, found {self.bins!r}")

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
        """The mechanism; it does not depend on the domain, because values are scaled to [0, 1]."""
        return cls(epsilon=epsilon, **options)

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """The dtype of an output's index."""
        return np.dtype(np.uint32)

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

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,); values outside are taken for its ends."""
        x = np.clip(np.asarray(values, dtype=np.float64), 0.0, 1.0)
        index = np.minimum(np.floor(self.bins * x).astype(np.int64), self.bins - 1)
        wave = 2 * self.half_width + 1
        near = uniforms.random(x.size) < wave * self.probabilities[0]
        draw = uniforms.random(x.size)
        inside = index + np.floor(wave * draw).astype(np.int64)
        outside = np.floor((self.bins - 1) * draw).astype(np.int64)
        outside += wave * (outside >= index)
        return np.where(near, inside, outside).astype(np.uint32)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads are integers from 0 to d + 2b - 1."""
        within = (payloads >= 0) & (payloads < self.outputs) & (payloads == np.floor(payloads))
        return np.asarray(within, dtype=np.bool_)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: one per output."""
        return self.outputs

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The output's index."""
        return payloads.astype(np.int64)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(output | value bucket): a band over bins, each bin's column repeated for its value buckets.

        Raises:
            ValueError: if the number of value buckets is not a multiple of the number of bins.
        """
        if value_buckets % self.bins:
            fewer = value_buckets - value_buckets % self.bins
            fitting = [str(n) for n in (fewer, fewer + self.bins) if n]
            raise ValueError(
                f"discrete_square_wave has {self.bins} bins, so buckets must be a multiple of {self.bins}, "
                f"found {value_buckets}; {' or '.join(fitting)} would do, or another number of bins"
            )
        band = DiscreteBandChannel(self.bins, self.half_width, *self.probabilities)
        return BinnedChannel(band, value_buckets)

    def output(self) -> str:
        """The range of the indexes, in words."""
        return f"the index of an output, 0 to {self.outputs - 1}"
