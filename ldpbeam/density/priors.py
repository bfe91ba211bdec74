"""Priors of a distribution: Gaussian processes of the log of its ratio to a reference, or of the ratio.

The curve is a polynomial of degree below ``order`` plus a combination of eigenvectors of the squared
``order``-th differences, so that the ``order``-th differences of a draw are independent and normal. For order
1 it is a random walk, for order 2 an integrated one, for order 3 one that is integrated twice. These are the
priors under which P-splines are posterior modes (Eilers and Marx, Statistical Science 1996). As the deviation
goes to zero, only the polynomial remains: for the log density this is an even, an exponential or a normal
density.

A prior with ``ends`` is for densities that rise or fall like powers towards the ends of their support, as
beta densities and 1/x do. The polynomial then also has the logarithms of the distances to both ends, and the
curve is smooth on the scale of Beta(1/2, 1/2), which is fine near the ends. For that density, blocks' shares
are exact, and so is the mean position of people in the last block. If the support is a part of the range, the
density jumps where it begins.

Spikes are blocks whose heights differ from the smooth curve, because many people have the same value.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike

from ldpbeam.density.curves import Curves, Scale
from ldpbeam.domains import Floats, Integers

#: Eigenvectors are computed on at most this many points: on more, rounding errors hide the smoothest ones.
MOST_POINTS = 256
#: The number of eigenvectors in use: the smoothest ones.
MOST_TERMS = 64
#: The standard deviation of a spike's height above the smooth curve.
SPIKE = 3.0
#: A term that moves the log density by less is left out: it would change the log-likelihood of a million
#: reports by less than 0.01.
SMALLEST = 1e-4
#: The reference of a point that is a spike, relative to that of a block: a point has no width.
POINT = 6.0
#: The part of the reference that remains for a block outside the support, and for a point that is no spike.
OUTSIDE = 1e-9
#: If the density goes like a power towards an end, these parts of the last block are at the end itself, and
#: spread evenly: they have the mean position of 1/sqrt(distance).
OF_POWER = np.array([1.0, 2.0]) / 3.0


@dataclass(frozen=True)
class Heaps:
    """Groups of blocks; the log heights of a group all lie above the smooth curve by the same number.

    Attributes:
        name: the name of the groups, in words.
        groups: the blocks of each group.
        mean: the prior mean of a group's number.
        deviation: the prior standard deviation of a group's number.
    """

    name: str
    groups: tuple[tuple[int, ...], ...]
    mean: float
    deviation: float

    def columns(self, blocks: int) -> Floats:
        """One for the blocks of each group, zero for the others, shape (blocks, groups)."""
        columns = np.zeros((blocks, len(self.groups)))
        for column, group in zip(columns.T, self.groups, strict=True):
            column[list(group)] = 1.0
        return columns


@dataclass(frozen=True)
class Prior:
    """A prior of curves.

    Attributes:
        order: the order of the differences that are independent: 1, 2 or 3.
        deviation: the standard deviation of the (order - 1)-th derivative's change over the whole range.
        scale: whether the curve is the log of the ratio to the reference, or the ratio.
        polynomial: the standard deviation of each coefficient of the polynomial, in Legendre's polynomials.
        ends: whether the density may go like a power towards each end of its support; the exponents are
            standard normal.
        support: with ``ends``, the part of the range [0, 1] in which there are people.
        spikes: the block of each spike, -1 for the last block. A point that is no spike has nobody.
        heaps: groups of blocks with more people, or fewer, than the smooth curve.
    """

    order: int
    deviation: float
    scale: Scale = "log"
    polynomial: float = 3.0
    ends: bool = False
    support: tuple[float, float] = (0.0, 1.0)
    spikes: tuple[int, ...] = ()
    heaps: tuple[Heaps, ...] = ()

    def curves(self, sizes: ArrayLike) -> Curves:
        """The curves, whose coefficients have standard normal priors.

        Args:
            sizes: the width of each block, up to a factor, shape (blocks,); 0 for a point.
        """
        return _curves(self, np.asarray(sizes, dtype=np.float64).tobytes())


@functools.lru_cache(maxsize=128)
def _curves(prior: Prior, sizes: bytes) -> Curves:
    """The curves of a prior; all windows of a channel use the same ones."""
    widths = np.frombuffer(sizes)
    points = widths == 0.0
    points[list(prior.spikes)] = False
    base = np.where(points, OUTSIDE, np.where(widths > 0.0, widths, POINT * widths.mean()))
    for end, beside in ((0, 1), (-1, -2)):
        if prior.ends and points[end]:
            base[[end, beside]] = base[beside] * OF_POWER
    polynomials, terms, tallest, powers, inside = _terms(
        prior.order, sizes, prior.support if prior.ends else None
    )
    # The terms are sorted: all further ones are smaller.
    terms = prior.deviation * terms[:, : np.count_nonzero(prior.deviation * tallest > SMALLEST)]
    spikes = SPIKE * spiked(np.array(prior.spikes, dtype=np.int64), len(widths))
    heaps = [(groups.columns(len(widths)), groups) for groups in prior.heaps]
    matrix = np.hstack(
        (
            spikes,
            *(groups.deviation * columns for columns, groups in heaps),
            prior.polynomial * polynomials,
            powers,
            terms,
        )
    )
    logs = sum((groups.mean * columns.sum(axis=1) for columns, groups in heaps), np.zeros(len(widths)))
    return Curves(matrix, base * inside * np.exp(logs), prior.scale)


def spiked(places: Integers, blocks: int) -> Floats:
    """One for the block of each spike, zero for the others, shape (blocks, spikes)."""
    return np.asarray(np.arange(blocks)[:, None] == places % blocks, dtype=np.float64)


@functools.lru_cache(maxsize=128)
def _terms(
    order: int, widths: bytes, support: tuple[float, float] | None
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """(polynomials, eigenvectors over the roots of their eigenvalues, their largest heights, powers, parts).

    The heights have the shape (eigenvectors,). The parts are those of blocks inside the support, shape
    (blocks,). The other arrays have values at blocks' midpoints, shape (blocks, any). Without a support there
    are no powers.
    """
    sizes = np.frombuffer(widths)
    edges = np.concatenate(([0.0], np.cumsum(sizes))) / math.fsum(sizes)
    middles = (edges[1:] + edges[:-1]) / 2.0
    if support is None:
        places, powers, inside = middles, np.zeros((len(sizes), 0)), np.ones(len(sizes))
    else:
        low, high = support
        # At this distance, 1/sqrt(distance) has its mean over the block.
        roots = np.sqrt(np.maximum([edges - low, high - edges], 0.0))
        distances = (0.5 * (roots[:, 1:] + roots[:, :-1])) ** 2
        logs = np.log(np.maximum(distances, 0.25 / np.count_nonzero(sizes)).T)
        powers = logs - logs.mean(axis=0)
        places = np.arcsin(np.sqrt(np.clip((middles - low) / (high - low), 0.0, 1.0))) * 2.0 / math.pi
        overlap, parts = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), np.diff(edges)
        parts = np.divide(overlap, parts, out=(overlap >= 0.0).astype(float), where=parts > 0.0)
        inside = np.maximum(parts, OUTSIDE)
    polynomials: Floats = legendre.legvander(2.0 * places - 1.0, order - 1)[:, 1:].astype(np.float64)
    points = min(len(sizes), MOST_POINTS)
    if points <= order:
        return polynomials, np.zeros((len(sizes), 0)), np.zeros(0), powers, inside
    terms = _eigenvectors(order, points)
    if support is not None or points < len(sizes):
        midpoints = (np.arange(points) + 0.5) / points
        terms = np.stack([np.interp(places, midpoints, column) for column in terms.T], axis=1)
    return polynomials, terms, np.abs(terms).max(axis=0), powers, inside


@functools.lru_cache(maxsize=16)
def _eigenvectors(order: int, points: int) -> Floats:
    """The eigenvectors of the squared differences over the roots of their eigenvalues, (points, terms)."""
    differences = np.diff(np.eye(points), order, axis=0) * float(points) ** (order - 0.5)
    values, vectors = np.linalg.eigh(differences.T @ differences)
    chosen = slice(order, order + MOST_TERMS)
    return np.asarray(vectors[:, chosen] / np.sqrt(values[chosen]))
