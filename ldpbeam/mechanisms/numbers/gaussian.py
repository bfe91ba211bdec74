"""The Gaussian mechanism (Dwork & Roth 2014, appendix A; Balle & Wang, ICML 2018)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from ldpbeam.channels import Channel, DenseChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import NumericMechanism, Tail, Uniforms
from ldpbeam.mechanisms.numbers.grid import (
    DRAWS,
    exponential,
    remainder,
    rounded_at_random,
    spread,
    whole_draws,
)
from ldpbeam.mechanisms.registry import register
from ldpbeam.options import Range

#: The sensitivity: a person's value can change by the width of [-1, 1].
SENSITIVITY = 2.0
#: A correct client's report is never further out than this many standard deviations: once in 10^349 reports.
FARTHEST = 40.0
#: The equal cells extend this many standard deviations beyond [-1, 1]. From epsilon 0.1 to 20, 1024 such
#: cells lose at most 8e-6 of the mutual information of report and value. With 3 they lose up to 2e-4, because
#: each end is one cell; with 8 they lose up to 2e-5, because the cells are coarser.
CELLS_REACH = 4.0

#: A mean, and a mean of squares, counts all reports alike that lie more than this many deviations beyond
#: [-1, 1]. From epsilon 0.1 to 20 this raises the variance of either by 2% to 6%, and makes the influence of
#: a report 20 times smaller than that of the largest possible one (decision 37).
MEAN_REACH, SQUARE_REACH = 1.2, 2.0

#: The noise's lattice has at least ``FINENESS`` steps per standard deviation. The deviation is larger than
#: sigma by the factor ``WIDER``, which compensates for the lattice. The noise extends ``REACH`` deviations
#: beyond the domain.
FINENESS, WIDER, REACH = 2**12, 1.000001, 9.0
#: Two draws combined have this many more bits than one.
MORE_BITS = 9

#: A sampler in doubles cannot guarantee a smaller delta: its noise lacks the tails of probability 1e-16.
LEAST_DELTA = 1e-15


@dataclass(frozen=True)
class NormalLattice:
    """Normal noise on the lattice of integers, where 0 .. ``steps`` are the domain.

    Attributes:
        steps: the number of steps of the domain.
        table: how many draws move a report by at most -``reach``, 1 - ``reach``, ... ``reach`` points.
        draws: the number of possible draws; a draw is from 0 to ``draws`` - 1.
    """

    steps: int
    table: Integers
    draws: int

    @property
    def reach(self) -> int:
        """The most points by which a report moves."""
        return len(self.table) // 2

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last point that every value can reach; reports beyond are clipped to them."""
        return self.steps - self.reach, self.reach

    def sample(self, values: Integers, draws: Integers) -> Integers:
        """The points of reports, shape (n,), given the values' points and one draw per value."""
        moves = np.searchsorted(self.table, draws, side="right")
        low, high = self.ends
        near = np.clip(values + moves - self.reach, low, high)
        # Draws beyond the table lead to points that do not depend on the value. They are counted from the
        # last draw, because where they begin depends on the last bits of a sum of doubles.
        elsewhere = low + remainder(self.draws - 1 - draws, high - low + 1)
        return np.where(draws < self.table[-1], near, elsewhere)


def normal_lattice(sigma: float, epsilon: float, draws: int, fineness: int = FINENESS) -> NormalLattice:
    """Noise of standard deviation sigma on [-1, 1], with at least ``fineness`` lattice steps per deviation.

    Each count is rounded down, by less than one draw. Every point gets at least
    exp(epsilon) / (exp(epsilon) - 1) of the draws left over. So rounding adds nothing to the probability that
    exceeds epsilon, for any pair of values, and every value can reach every point.
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
    """The least delta at which deviation sigma is (epsilon, delta)-private (Balle & Wang, theorem 5).

    It is Phi(a) - exp(epsilon) Phi(b) with a = 1/t - epsilon t/2, b = -1/t - epsilon t/2 and t = sigma at
    sensitivity 2. It is computed with logarithms, because both terms go to zero together.
    """
    half = SENSITIVITY / (2.0 * sigma)
    shift = epsilon * sigma / SENSITIVITY
    above, below = float(log_ndtr(half - shift)), float(log_ndtr(-half - shift))
    return math.exp(above) * -math.expm1(epsilon + below - above)


@register
@dataclass(frozen=True)
class Gaussian(NumericMechanism):
    """A report v + noise for v = 2x - 1, with normal noise of mean 0 and deviation sigma; (epsilon, delta).

    The report is unbiased for v, with variance sigma^2. The calibration ``analytic`` uses the smallest sigma
    that is (epsilon, delta)-private (Balle & Wang, algorithm 1). ``classical`` uses
    2 sqrt(2 ln(1.25/delta))/epsilon, which is proven up to epsilon 1 only.

    Attributes:
        delta: the delta of (epsilon, delta)-privacy, from 1e-15 to below 0.5.
        calibration: ``analytic`` or ``classical``.
    """

    name = "gaussian"
    summary = "Gaussian noise on the value: unbiased; (epsilon, delta), not epsilon alone"

    delta: Annotated[float, Range(least=LEAST_DELTA, below=0.5)] = 1e-6
    calibration: Literal["analytic", "classical"] = "analytic"

    def __post_init__(self) -> None:
        super().__post_init__()
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

        # This much noise suffices even at epsilon 0, where delta is below SENSITIVITY / (2 sigma).
        most = math.log(SENSITIVITY / (2.0 * self.delta))
        return math.exp(scipy.optimize.brentq(excess, math.log(1e-3), most, xtol=1e-14))

    @property
    def report_range(self) -> tuple[float, float]:
        """The range that holds every report of a correct client."""
        farthest = 1.0 + FARTHEST * self.sigma
        return -farthest, farthest

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """(sigma^2 / 4, 0, 0): the variance on [0, 1] is a quarter of that on [-1, 1]."""
        return self.sigma**2 / 4.0, 0.0, 0.0

    @property
    def tail(self) -> Tail:
        """The tail: a normal distribution's hazard increases, so the excess is shorter than exponential."""
        return Tail(
            mean_from=1.0 + MEAN_REACH * self.sigma,
            square_from=1.0 + SQUARE_REACH * self.sigma,
            end=self._edge,
            excess=(0.0, self.sigma / CELLS_REACH),
            slope=(1.0 + self._edge) / self.sigma**2,
        )

    def bounded(self, payloads: ArrayLike) -> Floats:
        """Reports clipped, and scaled such that their means for the values -1 and 1 differ by 2."""
        most = self.tail.mean_from
        ends = (np.array([-1.0, 1.0]) * most - 1.0) / self.sigma
        density = np.exp(-0.5 * ends**2) / math.sqrt(2.0 * math.pi)
        # The mean of a clipped normal report of the value 1.
        inside = ndtr(ends[1]) - ndtr(ends[0]) + self.sigma * (density[0] - density[1])
        gain = float(inside + most * (ndtr(-ends[1]) - ndtr(ends[0])))
        return np.clip(np.asarray(payloads, dtype=np.float64), -most, most) / gain

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,), on a grid of 2^-14 of a lattice step."""
        x = np.asarray(values, dtype=np.float64)
        first, second, third = (whole_draws(uniforms, x.size) for _ in range(3))
        lattice = self.lattice
        draws = (first << MORE_BITS) + (third & (2**MORE_BITS - 1))
        points = lattice.sample(rounded_at_random(x, lattice.steps, second), draws)
        return (spread(points, third) - 0.5) * (2.0 / lattice.steps) - 1.0

    @functools.cached_property
    def lattice(self) -> NormalLattice:
        """The lattice from which reports are drawn."""
        return normal_lattice(self.sigma, self.epsilon, DRAWS << MORE_BITS)

    @property
    def _edge(self) -> float:
        """The upper end of the equal cells; the lower end is its negative."""
        return 1.0 + CELLS_REACH * self.sigma

    def cells(self, resolution: int) -> int:
        """The number of cells: ``resolution`` equal cells and two end cells."""
        return resolution + 2

    def grid(self, resolution: int) -> tuple[float, float, int]:
        """Cell 0 is below the equal cells, and ``resolution + 1`` above them."""
        return -self._edge, 0.5 * resolution / self._edge, 1

    def representatives(self, resolution: int) -> Floats:
        """The midpoint of each equal cell; for an end cell, the mean report there of the nearest value."""
        width = 2.0 * self._edge / resolution
        inner = (np.arange(resolution) + 0.5) * width - self._edge
        density = math.exp(-0.5 * CELLS_REACH**2) / math.sqrt(2.0 * math.pi)
        end = 1.0 + self.sigma * density / float(ndtr(-CELLS_REACH))
        return np.concatenate(([-end], inner, [end]))

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(cell | value bucket): the normal distribution, averaged over each value bucket.

        The average is by Gauss-Legendre quadrature with five nodes on pieces of at most a quarter deviation,
        with an error of 1e-16. Differences of the antiderivative would have an error of 2e-7 at epsilon 1e-5,
        for cells of 1e-3.
        """
        inner = np.linspace(-self._edge, self._edge, resolution + 1)
        ends = np.concatenate(([-np.inf], inner, [np.inf]))[:, None]
        width = 2.0 / value_buckets
        pieces = math.ceil(4.0 * width / self.sigma)
        nodes, weights = np.polynomial.legendre.leggauss(5)
        places = (np.arange(pieces)[:, None] + 0.5 * (nodes + 1.0)) * (width / pieces)
        starts = np.arange(value_buckets) * width - 1.0
        matrix = np.zeros((resolution + 2, value_buckets))
        for offset, weight in zip(places.ravel(), np.tile(0.5 * weights / pieces, pieces), strict=True):
            standard = (ends - (starts + offset)) / self.sigma
            # Differences of the smaller tails: near 1, differences of distribution functions lose digits.
            right = standard[:-1] > 0.0
            tail = ndtr(-np.abs(standard))
            across = 1.0 - tail[1:] - tail[:-1]
            left = tail[1:] - tail[:-1]
            same_side = np.where(right, -left, left)
            matrix += weight * np.where(right | (standard[1:] <= 0.0), same_side, across)
        return DenseChannel(matrix)

    def at(self, values: Floats, resolution: int) -> Floats:
        """P(cell | value): differences of the normal distribution function."""
        edges = np.linspace(-self._edge, self._edge, resolution + 1)[:, None]
        return np.diff(ndtr((edges - (2.0 * values - 1.0)) / self.sigma), axis=0, prepend=0.0, append=1.0)

    def output(self) -> str:
        """The range of reports, in words."""
        return f"a number, within {self.report_range[1]:.6g} of 0"
