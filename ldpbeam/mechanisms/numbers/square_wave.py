"""SW, the square wave mechanism (Li et al., SIGMOD 2020, section 5)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Band, BandChannel, Channel
from ldpbeam.mechanisms.mechanism import NumericMechanism, Uniforms
from ldpbeam.mechanisms.numbers.grid import STEPS, Wave, places, wave, whole_draws
from ldpbeam.mechanisms.registry import register


@register
@dataclasses.dataclass(frozen=True)
class SquareWave(NumericMechanism):
    """A report y in [-b, 1+b] of x in [0, 1], with density p if |y - x| <= b, else q.

    With E = exp(epsilon), b = (epsilon E - E + 1) / (2E(E - 1 - epsilon)), p = E/(2bE + 1) and
    q = 1/(2bE + 1) (equations 5 and 6). The report is biased, E[y|x] = q/2 + qb + 2b(p-q)x; ``unbiased``
    corrects it.
    """

    name = "square_wave"
    summary = "SW: numbers near the value are likelier; best for distributions"
    stops_early = True

    @functools.cached_property
    def half_width(self) -> float:
        """The half width b of the wave, which falls from 1/2 (epsilon near 0) to 0 (large epsilon)."""
        epsilon = self.epsilon
        if epsilon < 0.1:
            # Near zero both differences lose all digits; their power series do not.
            terms = [epsilon ** (k - 2) / math.factorial(k) for k in range(2, 14)]
            above = sum((k + 1) * term for k, term in enumerate(terms))
            return above / (2.0 * math.exp(epsilon) * sum(terms))
        growth = math.exp(epsilon)
        return (epsilon * growth - growth + 1.0) / (2.0 * growth * (growth - 1.0 - epsilon))

    @functools.cached_property
    def densities(self) -> tuple[float, float]:
        """(p, q): the densities inside and outside the wave."""
        growth = math.exp(self.epsilon)
        outside = 1.0 / (2.0 * self.half_width * growth + 1.0)
        return growth * outside, outside

    @functools.cached_property
    def wave(self) -> Wave:
        """The wave from which reports are drawn."""
        return wave(self.epsilon, self._gain, 2.0 * self.half_width)

    @property
    def report_range(self) -> tuple[float, float]:
        """[-b, 1 + b]."""
        return -self.half_width, 1.0 + self.half_width

    @property
    def _gain(self) -> float:
        """The value 2b(p - q), with p - q = q (E - 1)."""
        return 2.0 * self.half_width * self.densities[1] * math.expm1(self.epsilon)

    @property
    def unbiased_map(self) -> tuple[float, float]:
        """The map x' = (y - q/2 - qb) / (2b(p - q))."""
        b, (_, q) = self.half_width, self.densities
        return 1.0 / self._gain, -(q / 2.0 + q * b) / self._gain

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """The coefficients of var(y|x) / (2b(p-q))^2 in powers of x."""
        b, (p, q), gain = self.half_width, self.densities, self._gain
        start = q / 2.0 + q * b
        constant = q * ((b + 1.0) ** 3 - b**3) / 3.0 + 2.0 * p * b**3 / 3.0 - start**2
        return constant / gain**2, -2.0 * start / gain, 1.0 / gain - 1.0

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,), on a grid of 2^-30."""
        x = places(values, STEPS)
        steps = self.wave.sample(x, whole_draws(uniforms, x.size))
        return (steps - self.wave.middle) * (1.0 / STEPS)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(cell | value bucket): a band of half width b around the value."""
        return BandChannel(value_buckets, self.cells(resolution), self.band)

    @property
    def band(self) -> Band:
        """The density of reports: a band of half width b around the value."""
        low, high = self.report_range
        inside, outside = self.densities
        return Band(
            low=low,
            high=high,
            slope=1.0,
            offset=0.0,
            half_width=self.half_width,
            inside=inside,
            outside=outside,
        )
