"""Priors of a distribution: Gaussian processes of its log density, or density, of some order and strength.

The curve is a polynomial of degree below ``order`` plus a combination of eigenvectors of the squared
``order``-th differences, so that a draw has normal ``order``-th differences, independent of each other: for
order 1 a random walk, for order 2 an integrated one, for order 3 one that is integrated twice. These are the
priors under which P-splines are posterior modes (Eilers and Marx, Statistical Science 1996). Where the
deviation goes to zero, the polynomial remains: for the log density that is an even, an exponential or a
normal density.

Order 0 is a sum of two: a curve of order 2 of a middling deviation, and independent normal heights of all
points. It is for people who give round numbers, for instance.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.auto.curves import Curves, Scale

#: The eigenvectors are found on at most this many points: on more, rounding errors hide the smoothest.
MOST_POINTS = 256
#: The most eigenvectors in use, the smoothest first.
MOST_TERMS = 64
#: The deviation of the curve of order 2 that order 0 adds independent heights to.
BELOW_SPIKES = 8.0
#: The standard deviation of each coefficient of the polynomial, of Legendre's polynomials on the range.
POLYNOMIAL_DEVIATION = 3.0


@dataclass(frozen=True)
class Smoothness:
    """A prior of curves.

    Attributes:
        order: which differences are independent: 1, 2 or 3; 0 for independent heights on a curve of order 2.
        deviation: the standard deviation of the (order - 1)-th derivative's change over the whole range; for
            order 0 that of each height.
        scale: whether the curve is the log density or the density.
    """

    order: int
    deviation: float
    scale: Scale = "log"

    def basis(self, sizes: Integers) -> Curves:
        """The curves, whose coefficients have standard normal priors.

        Args:
            sizes: the number of value buckets of each block, shape (blocks,).
        """
        polynomials, own = _terms(self.order or 2, tuple(sizes.tolist()))
        if self.order == 0:
            own = np.hstack((BELOW_SPIKES * own, self.deviation * _heights(len(sizes))))
        else:
            own = self.deviation * own
        matrix = np.hstack((POLYNOMIAL_DEVIATION * polynomials, own))
        return Curves(matrix, sizes, self.scale)


def _heights(blocks: int) -> Floats:
    """One for the blocks of each of at most :data:`MOST_POINTS` heights, shape (blocks, heights)."""
    points = min(blocks, MOST_POINTS)
    chosen: Floats = np.eye(points)[np.arange(blocks) * points // blocks]
    return chosen


@functools.lru_cache(maxsize=64)
def _terms(order: int, sizes: tuple[int, ...]) -> tuple[Floats, Floats]:
    """The polynomials, and the eigenvectors over the roots of their eigenvalues, at blocks' midpoints."""
    widths = np.array(sizes) / sum(sizes)
    places = np.cumsum(widths) - widths / 2.0
    polynomials: Floats = legendre.legvander(2.0 * places - 1.0, order - 1)[:, 1:].astype(np.float64)
    points = min(len(sizes), MOST_POINTS)
    if points <= order:
        return polynomials, np.zeros((len(sizes), 0))
    differences = np.diff(np.eye(points), order, axis=0) * float(points) ** (order - 0.5)
    values, vectors = np.linalg.eigh(differences.T @ differences)
    chosen = slice(order, order + MOST_TERMS)
    scaled = vectors[:, chosen] / np.sqrt(values[chosen])
    if points == len(sizes):
        return polynomials, scaled
    midpoints = (np.arange(points) + 0.5) / points
    columns = [np.interp(places, midpoints, column) for column in scaled.T]
    return polynomials, np.stack(columns, axis=1)
