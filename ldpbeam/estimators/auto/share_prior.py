"""The distribution of the shares themselves, learned from all categories: empirical Bayes.

The shares of the categories are taken as draws from one unknown distribution with mean 1/categories. It
starts as an average over families, weighted by how likely they make the reports: gamma distributions, from
long tails to nearly equal shares, and distributions of which most of the mass is at one small share or zero.
EM then moves it to the distribution that is most likely (Kiefer and Wolfowitz, Ann. Math. Stat. 1956), as if
``STRENGTH`` further categories had been seen distributed as in the families' average. Few categories, or
reports that say little, cannot move it far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc

from ldpbeam.domains import Floats
from ldpbeam.estimators.auto.share_likelihood import Likelihood

#: The shapes of the gamma distributions.
SHAPES = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 2.0, 4.0)
#: The places of the mass at one share, as a part of 1/categories, and the mass elsewhere (exponential), which
#: may also be that of one category.
PLACES, ELSEWHERE = (0.0, 0.2, 0.4, 0.6, 0.8), (0.01, 0.03, 0.1, 0.2, 0.4)
#: The mass that is spread over all shares, so that reports can refute every family.
ANYWHERE = 1e-6
#: As many categories count for the families' average.
STRENGTH = 16.0
#: EM stops when a step gains less than this of the log-likelihood, or after so many steps.
TOLERANCE, MOST_STEPS = 1e-3, 300
#: The tilt that makes means sum to one is found to this error of the sum, in at most so many steps.
TILTED, MOST_TILTS = 1e-9, 40
#: A sum that is farther from its mean, in standard deviations, is the fault of the prior distribution.
FARTHEST = 6.0
#: Shares have a grid of this many geometric steps, and points of their own where unbiased shares are, at
#: distances of at least this many standard deviations, at most so many.
LOW_POINTS, APART, MOST_POINTS = 64, 0.3, 300
#: Points of the curve that measures distances in standard deviations.
CURVE = 1025


@dataclass(frozen=True)
class Posterior:
    """What is known of each category's share, if categories have no order.

    Attributes:
        edges: the ends of cells of shares, ascending from 0, shape (cells + 1,).
        atoms: the share that represents each cell, shape (cells,).
        weights: the probability of each cell, for each group of categories, shape (groups, cells).
        log_evidence: the log of the reports' average likelihood under the families.
        steps: the number of EM's steps.
    """

    edges: Floats
    atoms: Floats
    weights: Floats
    log_evidence: float
    steps: int

    def means(self, total: float, sizes: Floats) -> Floats:
        """The posterior means if the shares have a sum, shape (groups,).

        Each posterior distribution is multiplied by exp(t f), for the one t that gives the sum. This is the
        saddle-point approximation of the posterior distribution given the sum. If the sum is more than
        ``FARTHEST`` standard deviations away, or no t is found, the means are scaled instead.

        Args:
            total: the sum.
            sizes: the number of categories of each group, shape (groups,).
        """
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)
        plain: Floats = self.weights @ self.atoms
        tilt, low, high = 0.0, -math.inf, math.inf
        for step in range(MOST_TILTS):
            tilted = logs + tilt * self.atoms
            tilted = np.exp(tilted - tilted.max(axis=1, keepdims=True))
            tilted /= tilted.sum(axis=1, keepdims=True)
            means: Floats = tilted @ self.atoms
            missing = total - float(sizes @ means)
            if abs(missing) < TILTED * total:
                return means
            slope = float(sizes @ (tilted @ self.atoms**2 - means**2))
            if slope <= 0.0 or (step == 0 and abs(missing) > FARTHEST * math.sqrt(slope)):
                break
            low, high = (tilt, high) if missing > 0.0 else (low, tilt)
            tilt += missing / slope
            if not low < tilt < high:
                # Newton's step left the interval: halve it, or double the step where it has no end.
                known = math.isfinite(low) and math.isfinite(high)
                tilt = 0.5 * (low + high) if known else 2.0 * (low if missing > 0.0 else high)
        return plain * (total / float(sizes @ plain))

    @property
    def reached(self) -> Floats:
        """The posterior probability that a share is below each edge, shape (groups, cells + 1)."""
        sums = np.zeros((len(self.weights), len(self.edges)))
        np.cumsum(self.weights, axis=1, out=sums[:, 1:])
        sums[:, -1] = 1.0
        return sums

    def summing_to(self, total: float, sizes: Floats) -> Floats:
        """The quantiles of the one level, for all groups, at which the shares have a sum; shape (groups,).

        If a sum is required, these shares have the least expected sum of absolute errors.

        Args:
            total: the sum.
            sizes: the number of categories of each group, shape (groups,).
        """
        reached = self.reached
        low, high = 0.0, 1.0
        for _ in range(40):
            level = 0.5 * (low + high)
            if sizes @ _quantiles(reached, self.edges, level) < total:
                low = level
            else:
                high = level
        return _quantiles(reached, self.edges, 0.5 * (low + high))


def _quantiles(reached: Floats, edges: Floats, level: float) -> Floats:
    """The posterior quantile of each group's share, shape (groups,); a cell's mass is spread evenly."""
    rows = np.arange(len(reached))
    cell = np.clip((reached <= level).sum(axis=1) - 1, 0, len(edges) - 2)
    before = reached[rows, cell]
    mass = np.maximum(reached[rows, cell + 1] - before, np.finfo(np.float64).tiny)
    within = np.clip((level - before) / mass, 0.0, 1.0)
    found: Floats = edges[cell] + (edges[cell + 1] - edges[cell]) * within
    return found


def posterior(likelihood: Likelihood) -> Posterior:
    """The posterior distributions of all shares; together they tell their prior distribution."""
    size = likelihood.categories
    atoms = grid(likelihood)
    # The first cell is zero itself.
    edges = np.concatenate(([0.0, 0.0], (atoms[2:] + atoms[1:-1]) / 2.0, [atoms[-1]]))
    table = likelihood.table(atoms)
    top = table.max(axis=1, keepdims=True)
    table = np.exp(table - top)
    sizes = likelihood.sizes
    families, chances = families_on(atoms, size)
    tiny = np.finfo(np.float64).tiny
    told = sizes @ np.log(np.maximum(table @ families.T, tiny))
    weights = chances * np.exp(told - told.max())
    log_evidence = float(told.max() + math.log(weights.sum()) + sizes @ top[:, 0])
    start = (weights / weights.sum()) @ families
    start = (1.0 - ANYWHERE) * start + ANYWHERE / len(atoms)
    found, steps = most_likely_prior(table, sizes, start)
    joint = table * found
    return Posterior(edges, atoms, joint / joint.sum(axis=1, keepdims=True), log_evidence, steps)


def most_likely_prior(table: Floats, sizes: Floats, start: Floats) -> tuple[Floats, int]:
    """(the prior probability of each atom, EM's steps).

    Args:
        table: the likelihood of each atom for each group, shape (groups, atoms).
        sizes: the number of categories of each group, shape (groups,).
        start: the prior probabilities that ``STRENGTH`` further categories have, shape (atoms,).
    """
    found, before = start, -math.inf
    held = np.flatnonzero(start)
    for step in range(MOST_STEPS):
        likely = table @ found
        reached = float(sizes @ np.log(likely) + STRENGTH * (start[held] @ np.log(found[held])))
        if step and reached - before < TOLERANCE:
            return found, step
        before = reached
        found = (found * ((sizes / likely) @ table) + STRENGTH * start) / (sizes.sum() + STRENGTH)
    return found, MOST_STEPS


def grid(likelihood: Likelihood) -> Floats:
    """The shares that a category may have: geometric from near zero on, and finer where categories are."""
    size, unbiased = likelihood.categories, likelihood.shares
    largest = min(max(float(unbiased.max()), 2.0 / size), 1.0)
    low = np.geomspace(1e-3 / size, largest, LOW_POINTS)
    seen = np.sort(unbiased[unbiased > 0.0].clip(max=1.0))
    # The distance between shares, in standard deviations of the noise at these shares.
    at = np.linspace(0.0, 1.0, CURVE)
    density = np.sqrt(likelihood.information(at))
    distance = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2.0 * np.diff(at))))
    places, step = np.interp(seen, at, distance), APART
    while True:
        _, kept = np.unique(np.floor(places / step), return_index=True)
        if len(kept) <= MOST_POINTS:
            break
        step *= 1.5
    special = np.array([*PLACES, 1.0]) / size
    return np.unique(np.concatenate((special, low, seen[kept])))


def families_on(atoms: Floats, size: int) -> tuple[Floats, Floats]:
    """(the families' probabilities of each atom, shape (families, atoms), and the chance of each family).

    All have the mean 1/size. Gamma distributions have half of the chance, those with mass at a share half.
    """
    ends = np.concatenate(([0.0], (atoms[1:] + atoms[:-1]) / 2.0, [np.inf]))
    gammas = [np.diff(gammainc(shape, shape * size * ends)) for shape in SHAPES]
    pointed = []
    for place in PLACES:
        point = place / size
        for mass in sorted({*ELSEWHERE, 1.0 / size}):
            mean = (1.0 / size - (1.0 - mass) * point) / mass
            if mass > max(ELSEWHERE) or mean > 1.0 + 1e-9:
                continue
            spread = mass * np.diff(-np.exp(-np.maximum(ends - point, 0.0) / (mean - point)))
            spread[int(np.abs(atoms - point).argmin())] += 1.0 - mass
            pointed.append(spread)
    chances = [0.5 / len(gammas)] * len(gammas) + [0.5 / max(len(pointed), 1)] * len(pointed)
    return np.array(gammas + pointed), np.array(chances) / sum(chances)
