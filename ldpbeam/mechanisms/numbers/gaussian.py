"""The Gaussian mechanism (Dwork & Roth 2014, appendix A; Balle & Wang, ICML 2018)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from ldpbeam.channels import Channel, DenseChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import NumericMechanism, Uniforms
from ldpbeam.mechanisms.numbers.grid import (
    DRAWS,
    exponential,
    remainder,
    rounded_at_random,
    spread,
    whole_draws,
)
from ldpbeam.mechanisms.registry import register

#: The width of [-1, 1]: what one person's value can change.
SENSITIVITY = 2.0
#: A sound client's report lies further out than this many standard deviations never: once in 10^349 times.
FARTHEST = 40.0
#: Equal cells reach this many standard deviations beyond [-1, 1]. Of what a report says of the value (mutual
#: information), 1024 such cells keep all but 8e-6 from epsilon 0.1 to 20; with 3 all but 2e-4, as the ends
#: are lumped, and with 8 all but 2e-5, as the cells are coarser.
CELLS_REACH = 4.0

#: Noise is on a lattice of so many steps a deviation or more; the deviation is a millionth larger than
#: what is promised, which pays for the lattice; and it reaches so many deviations past the domain.
FINENESS, WIDER, REACH = 2**12, 1.000001, 9.0
#: Two draws together have so many bits more than one.
MORE_BITS = 9

#: A sampler in doubles keeps no smaller promise: its noise ends where 1e-16 of the normal's begins.
LEAST_DELTA = 1e-15

CALIBRATIONS = ("analytic", "classical")


@dataclass(frozen=True)
class NormalLattice:
    """Normal noise on a lattice: 0 .. ``steps`` are the domain, and whole numbers beyond it on either side.

    Attributes:
        steps: the steps of the domain.
        table: how many draws move a report by at most -``reach``, 1 - ``reach``, ... ``reach`` points.
        draws: how many a draw is one of.
    """

    steps: int
    table: Integers
    draws: int

    @property
    def reach(self) -> int:
        """How many points a report moves at most."""
        return len(self.table) // 2

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last point that every value can come to; reports beyond are moved there."""
        return self.steps - self.reach, self.reach

    def sample(self, values: Integers, draws: Integers) -> Integers:
        """The points of reports of values' points, by a draw each."""
        moves = np.searchsorted(self.table, draws, side="right")
        low, high = self.ends
        near = np.clip(values + moves - self.reach, low, high)
        # The draws that the table leaves over: the value has no part in them.
        left_over = draws - self.table[-1]
        points: Integers = np.where(left_over < 0, near, low + remainder(left_over, high - low + 1))
        return points


def normal_lattice(sigma: float, epsilon: float, draws: int, fineness: int = FINENESS) -> NormalLattice:
    """Noise of a standard deviation on [-1, 1], its lattice of ``fineness`` steps a deviation or more.

    A count is rounded down, by less than one draw. Every point has exp(epsilon) / (exp(epsilon) - 1) draws or
    more that are left over. So for no pair of values does the rounding add to what exceeds epsilon, and every
    value can come to every point.
    """
    steps = max(1, math.ceil(SENSITIVITY * fineness / sigma))
    deviation = sigma * WIDER * steps / SENSITIVITY
    reach = steps + math.ceil(REACH * deviation)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    growth = exponential(epsilon)
    left_over = math.ceil(growth / (growth - 1)) * (2 * reach - steps + 1)
    counts = np.floor(weights * ((draws - 2 * left_over) / weights.sum())).astype(np.int64)
    return NormalLattice(steps, np.cumsum(counts), draws)


def hockey_stick(sigma: float, epsilon: float) -> float:
    """The least delta at which noise of this deviation is (epsilon, delta)-private (Balle & Wang, theorem 5).

    Phi(a) - exp(epsilon) Phi(b) with a = 1/t - epsilon t/2, b = -1/t - epsilon t/2 and t = sigma at
    sensitivity 2; by logarithms, as both terms vanish together.
    """
    half = SENSITIVITY / (2.0 * sigma)
    shift = epsilon * sigma / SENSITIVITY
    above, below = float(log_ndtr(half - shift)), float(log_ndtr(-half - shift))
    return math.exp(above) * -math.expm1(epsilon + below - above)


@register
@dataclass(frozen=True)
class Gaussian(NumericMechanism):
    """A report v + noise of v = 2x - 1, the noise normal with mean 0 and deviation sigma; (epsilon, delta).

    Unbiased for v, with variance sigma^2. ``analytic`` takes the least sigma that is (epsilon, delta)-private
    (Balle & Wang, algorithm 1), ``classical`` 2 sqrt(2 ln(1.25/delta))/epsilon, which is proven up to
    epsilon 1 only.

    Attributes:
        delta: the chance that epsilon does not hold, from 1e-15 to below 0.5.
        calibration: ``analytic`` or ``classical``.
    """

    name = "gaussian"
    summary = "Gaussian noise on the value: unbiased; (epsilon, delta), not epsilon alone"

    delta: float = 1e-6
    calibration: str = "analytic"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.delta, float) and LEAST_DELTA <= self.delta < 0.5):
            raise ValueError(
                f"delta must be a number from {LEAST_DELTA:g} to below 0.5, found {self.delta!r}"
            )
        if self.calibration not in CALIBRATIONS:
            raise ValueError(f"calibration must be analytic or classical, found {self.calibration!r}")
        if self.calibration == "classical" and self.epsilon > 1.0:
            raise ValueError(
                f"the classical calibration is proven up to epsilon 1, found {self.epsilon}; "
                "use calibration: analytic"
            )

    @functools.cached_property
    def sigma(self) -> float:
        """The noise's standard deviation on [-1, 1]."""
        if self.calibration == "classical":
            return SENSITIVITY * math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon

        def excess(logarithm: float) -> float:
            return hockey_stick(math.exp(logarithm), self.epsilon) - self.delta

        # Even at epsilon 0 this much noise is enough: there delta is below SENSITIVITY / (2 sigma).
        most = math.log(SENSITIVITY / (2.0 * self.delta))
        return math.exp(brentq(excess, math.log(1e-3), most, xtol=1e-14))

    @property
    def report_range(self) -> tuple[float, float]:
        """The real line, cut where no sound client's report lies."""
        farthest = 1.0 + FARTHEST * self.sigma
        return -farthest, farthest

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """A quarter of sigma^2."""
        return self.sigma**2 / 4.0, 0.0, 0.0

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """Reports of values in [0, 1], on a grid of 2^-14 of a lattice's step."""
        x = np.asarray(values, dtype=np.float64)
        first, second, third = (whole_draws(uniforms, x.size) for _ in range(3))
        lattice = self.lattice
        draws = (first << MORE_BITS) + (third & (2**MORE_BITS - 1))
        points = lattice.sample(rounded_at_random(x, lattice.steps, second), draws)
        return (spread(points, third) - 0.5) * (2.0 / lattice.steps) - 1.0

    @functools.cached_property
    def lattice(self) -> NormalLattice:
        """How reports are drawn."""
        return normal_lattice(self.sigma, self.epsilon, DRAWS << MORE_BITS)

    @property
    def _edge(self) -> float:
        """The end of the equal cells."""
        return 1.0 + CELLS_REACH * self.sigma

    def cells(self, resolution: int) -> int:
        """The equal cells and two end cells."""
        return resolution + 2

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """0 and ``resolution + 1`` beyond the equal cells."""
        position = np.floor((payloads + self._edge) * (0.5 * resolution / self._edge)) + 1.0
        return np.clip(position, 0, resolution + 1).astype(np.int64)

    def representatives(self, resolution: int) -> Floats:
        """Midpoints; beyond an end the mean of what the end of the domain next to it sends there."""
        width = 2.0 * self._edge / resolution
        inner = (np.arange(resolution) + 0.5) * width - self._edge
        density = math.exp(-0.5 * CELLS_REACH**2) / math.sqrt(2.0 * math.pi)
        end = 1.0 + self.sigma * density / float(ndtr(-CELLS_REACH))
        return np.concatenate(([-end], inner, [end]))

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """The normal distribution function at the cells' ends, averaged over each value bucket.

        The average is by Gauss-Legendre, its five nodes on pieces of a quarter deviation at most, where its
        error is 1e-16. Differences of the antiderivative are off by 2e-7 at epsilon 1e-5, of cells of 1e-3.
        """
        inner = np.linspace(-self._edge, self._edge, resolution + 1)
        ends = np.concatenate(([-np.inf], inner, [np.inf]))[:, None]
        width = 2.0 / value_buckets
        pieces = math.ceil(4.0 * width / self.sigma)
        nodes, weights = np.polynomial.legendre.leggauss(5)
        places = (np.arange(pieces)[:, None] + 0.5 * (nodes + 1.0)) * (width / pieces)
        starts = np.arange(value_buckets) * width - 1.0
        matrix = np.zeros((resolution + 2, value_buckets))
        for place, weight in zip(places.ravel(), np.tile(0.5 * weights / pieces, pieces), strict=True):
            standard = (ends - (starts + place)) / self.sigma
            # Between the smaller tails: near one, a difference of distribution functions has no digits.
            right = standard[:-1] > 0.0
            tail = ndtr(-np.abs(standard))
            across = 1.0 - tail[1:] - tail[:-1]
            left = tail[1:] - tail[:-1]
            same_side = np.where(right, -left, left)
            matrix += weight * np.where(right | (standard[1:] <= 0.0), same_side, across)
        return DenseChannel(matrix)

    def output(self) -> str:
        """Any number."""
        return f"a number, within {self.report_range[1]:.6g} of 0"
