"""The Laplace mechanism (Dwork et al., TCC 2006; multi-service paper, section 2.2)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import NumericMechanism, Tail, Uniforms
from ldpbeam.mechanisms.numbers.grid import (
    DRAWS,
    SPREAD_BITS,
    exponential,
    rounded_at_random,
    spread,
    whole_draws,
)
from ldpbeam.mechanisms.registry import register

#: A correct client sends a report further out than this many scales once in 10^19 reports.
FARTHEST = 44.0
#: The number of cells from end to end; the noise moves a report by whole cells.
CELLS = 2**16


def noise_table(epsilon: float, cells: int, draws: int) -> Integers:
    """How many draws of ``draws`` / 2 move a report by less than 1, 2, ... cells, shape (``cells``,).

    The count of each move is exp(-epsilon / ``cells``) times the count of the previous one, and never below
    exp(-epsilon) times the first. All other draws move the report past the end of the ``cells``; they are at
    least 1 / (exp(epsilon) - 1) times as many as the draws that do not.
    """
    ratio = epsilon / cells
    # A share of 2^-40 is kept back, because counts may be rounded up below.
    whole = draws / 2.0 * (1.0 - 2.0**-40) * -math.expm1(-ratio)
    counts = np.floor(whole * np.exp(-ratio * np.arange(cells))).astype(np.int64)
    counts = np.maximum(counts, math.ceil(int(counts[0]) / exponential(epsilon)))
    return np.cumsum(counts)


def noisy_cells(values: Integers, draws: Integers, table: Integers, total: int) -> Integers:
    """The cells of reports, shape (n,): 0 .. ``cells`` - 1 inside, other integers beyond the ends.

    Args:
        values: places between cells, from 0 to ``cells``, shape (n,).
        draws: one draw per value, shape (n,).
        table: a :func:`noise_table`.
        total: the number of possible draws; the upper half of them moves reports up.
    """
    up = draws >= total // 2
    moves = np.searchsorted(table, np.where(up, draws - total // 2, draws), side="right")
    return np.where(up, values + moves, values - 1 - moves)


@register
@dataclasses.dataclass(frozen=True)
class Laplace(NumericMechanism):
    """A report v + noise for v = 2x - 1, with Laplace noise of scale 2/epsilon.

    The report is unbiased for v, with variance 8/epsilon^2. The likelihood of v depends on a report only
    through the report clamped to [-1, 1], which is therefore sufficient. Its buckets are equal cells of
    [-1, 1] and two end cells. The multi-service paper truncates reports (section 4.2), or excludes Laplace
    from ULE; neither is needed.
    """

    name = "laplace"
    summary = "Laplace noise on the value: unbiased; the classical baseline"

    @property
    def scale(self) -> float:
        """The noise's scale on [-1, 1]."""
        return 2.0 / self.epsilon

    @property
    def report_range(self) -> tuple[float, float]:
        """The range that holds every report of a correct client."""
        farthest = 1.0 + FARTHEST * self.scale
        return -farthest, farthest

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """(2 / epsilon^2, 0, 0): the variance on [0, 1] is a quarter of that on [-1, 1]."""
        return 2.0 / self.epsilon**2, 0.0, 0.0

    @property
    def tail(self) -> Tail:
        """The tail beyond [-1, 1]: the excess is exponential whatever the value, so it says nothing."""
        return Tail(1.0, 1.0, 1.0, (self.scale, self.scale), 1.0 / self.scale)

    def bounded(self, payloads: ArrayLike) -> Floats:
        """Reports in [-1, 1] unchanged; those beyond become 1 + scale, with their sign.

        This is the mean of all reports with the same sufficient statistic, so it is unbiased too.
        """
        reports = np.asarray(payloads, dtype=np.float64)
        ends = np.sign(reports) * (1.0 + self.scale)
        return np.where(np.abs(reports) > 1.0, ends, reports)

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value in [0, 1], shape (n,), on a grid of 2^-29."""
        x = np.asarray(values, dtype=np.float64)
        first, second, third = (whole_draws(uniforms, x.size) for _ in range(3))
        cells = noisy_cells(rounded_at_random(x, CELLS, second), first, self.noise, DRAWS)
        inside = spread(np.clip(cells, 0, CELLS - 1), third) * (2.0 / CELLS) - 1.0
        # The distance beyond an end does not depend on the value. 1 - u is in (0, 1], so its logarithm is
        # finite: the distance is at most 53 ln 2 = 36.7 scales.
        parts = CELLS * 2.0**SPREAD_BITS
        beyond = np.floor(-np.log(1.0 - third / DRAWS) * (parts / self.epsilon)) + 0.5
        end = 1.0 + beyond * (2.0 / parts)
        return np.where(cells < 0, -end, np.where(cells >= CELLS, end, inside))

    @functools.cached_property
    def noise(self) -> Integers:
        """How many draws move a report by less than 1, 2, ... cells to either side, shape (``CELLS``,)."""
        return noise_table(self.epsilon, CELLS, DRAWS)

    def cells(self, resolution: int) -> int:
        """The number of cells: ``resolution`` equal cells of [-1, 1] and two end cells."""
        return resolution + 2

    def grid(self, resolution: int) -> tuple[float, float, int]:
        """Cell 0 is below -1, and ``resolution + 1`` above 1."""
        return -1.0, 0.5 * resolution, 1

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The cell of each payload; 1, which no correct client sends, falls into the last equal cell."""
        index = super().bucketise(payloads, resolution)
        index[payloads == 1.0] = resolution
        return index

    def representatives(self, resolution: int) -> Floats:
        """The midpoint of each equal cell; -(1 + scale) and 1 + scale for the end cells.

        The distance beyond an end is exponential with mean ``scale`` for every value.
        """
        inner = (np.arange(resolution) + 0.5) * (2.0 / resolution) - 1.0
        end = 1.0 + self.scale
        return np.concatenate(([-end], inner, [end]))

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(cell | value bucket), for values on [0, 1], where the scale is 1/epsilon."""
        return LaplaceChannel(value_buckets, resolution, 0.5 * self.scale)

    def at(self, values: Floats, resolution: int) -> Floats:
        """P(cell | value): differences of the Laplace distribution function."""
        edges = np.linspace(-1.0, 1.0, resolution + 1)[:, None]
        gap = (edges - (2.0 * values - 1.0)) / self.scale
        below = 0.5 * np.exp(-np.abs(gap))
        below = np.where(gap > 0.0, 1.0 - below, below)
        return np.diff(below, axis=0, prepend=0.0, append=1.0)

    def output(self) -> str:
        """The range of reports, in words."""
        return f"a number, within {self.report_range[1]:.6g} of 0"


class LaplaceChannel(Channel):
    """The channel of Laplace noise on [0, 1], with the report clamped to [0, 1].

    The clamped report is sufficient: beyond an end, the likelihood's shape in x does not change. The rows are
    (-inf, 0), ``inner`` equal cells of [0, 1], and (1, inf). A product uses two exponential recursions on the
    common refinement of cells and value buckets.
    """

    def __init__(self, value_buckets: int, inner: int, scale: float) -> None:
        super().__init__(inner + 2, value_buckets)
        self.scale = scale
        self.fine = int(np.lcm(value_buckets, inner))
        width = 1.0 / self.fine
        ratio = width / scale
        # A fine cell receives the mass far * exp(-(n - 1) ratio) from a fine cell n cells away.
        self.decay = np.exp(-ratio)
        self.far = 0.5 * np.expm1(-ratio) ** 2 / ratio
        self.same = 1.0 + np.expm1(-ratio) / ratio

    @functools.cached_property
    def below(self) -> Floats:
        """P(report < 0 | x uniform in a fine cell), shape (fine,); reversed, it is P(report > 1)."""
        ratio = 1.0 / (self.fine * self.scale)
        leave = 0.5 * -np.expm1(-ratio) / ratio
        return np.asarray(leave * np.exp(-np.arange(self.fine) * ratio))

    def _spread(self, mass: Floats) -> Floats:
        """The product of the symmetric kernel between fine cells and a vector of shape (fine,)."""
        # Imported here because it takes half a second, and few programs need it.
        from scipy.signal import lfilter

        right = lfilter([0.0, self.far], [1.0, -self.decay], mass)
        left = lfilter([0.0, self.far], [1.0, -self.decay], mass[::-1])[::-1]
        return np.asarray(self.same * mass + right + left)

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        per_bucket = self.fine // self.shape[1]
        mass = np.repeat(weights / per_bucket, per_bucket)
        inner = self._spread(mass).reshape(self.shape[0] - 2, -1).sum(axis=1)
        ends = self.below @ mass, self.below[::-1] @ mass
        return np.concatenate(([ends[0]], inner, [ends[1]]))

    def _rmatvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        per_cell = self.fine // (self.shape[0] - 2)
        fine = self._spread(np.repeat(weights[1:-1], per_cell))
        fine += weights[0] * self.below + weights[-1] * self.below[::-1]
        return np.asarray(fine.reshape(self.shape[1], -1).mean(axis=1))

    def dense(self) -> Floats:
        """The matrix, from differences of the second antiderivative of the Laplace density."""
        cells = np.linspace(0.0, 1.0, self.shape[0] - 1)
        edges = np.linspace(0.0, 1.0, self.shape[1] + 1)
        gap = cells[:, None] - edges[None, :]
        # The integral over x of the distribution function at y is an antiderivative in y - x. expm1 leaves
        # out a constant, which cancels in the differences but would cost digits at a large scale.
        second = np.maximum(gap, 0.0) + 0.5 * self.scale * np.expm1(-np.abs(gap) / self.scale)
        below = (second[:, :-1] - second[:, 1:]) * self.shape[1]
        return np.vstack([below[:1], np.diff(below, axis=0), 1.0 - below[-1:]])
