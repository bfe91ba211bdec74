"""The distribution of the shares themselves, learned from all categories: empirical Bayes.

We model the shares of the categories as draws from one unknown distribution with mean 1/categories. It starts
as an average over three families, weighted by how likely they make the reports and a sum of one: gamma
distributions, from long tails to nearly equal shares; distributions with most of their mass at zero or at one
small share; and a few large shares among equal ones, which have what the large ones leave. EM then moves it
to the most likely distribution (Kiefer and Wolfowitz, Ann. Math. Stat. 1956), as if ``STRENGTH`` further
categories had been observed with the average distribution of the families. Few categories, or reports that
say little, cannot move it far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc

from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.auto.share_likelihood import Likelihood

#: The shapes of the gamma distributions.
SHAPES = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 2.0, 4.0)
#: The share at which a distribution has most of its mass, as a part of 1/categories, and the mass elsewhere,
#: which is exponential and may also be that of one category.
PLACES, ELSEWHERE = (0.0, 0.2, 0.4, 0.6, 0.8), (0.01, 0.03, 0.1, 0.2, 0.4)
#: The search for a common share starts at each of STARTS, in parts of 1/categories, and ends when it moves by
#: less than MOVED, or after MOST_MOVES steps. Atoms beside a common share differ from it by the part NEXT.
STARTS, MOVED, MOST_MOVES, NEXT = (0.3, 0.95), 1e-7, 30, 1e-3
#: The least variance of the sum of all shares, given the reports.
LEAST_VARIANCE = 1e-6
#: The mass that is spread over all shares, so that reports can refute every family.
ANYWHERE = 1e-6
#: The families' average weighs as much as this many categories.
STRENGTH = 16.0
#: EM stops when a step gains less than this of the log-likelihood, or after this many steps.
TOLERANCE, MOST_STEPS = 1e-3, 300
#: The tilt is found when the means sum to one up to this error; the search takes at most this many steps.
TILTED, MOST_TILTS = 1e-9, 40
#: If the sum is more standard deviations than this away from one, the prior distribution is wrong.
FARTHEST = 6.0
#: The grid of shares has LOW_POINTS geometric steps, and at most MOST_POINTS more where the unbiased shares
#: are, at least APART standard deviations apart.
LOW_POINTS, APART, MOST_POINTS = 64, 0.3, 300
#: Around each of the FEW_LARGEST largest shares there are FINE points within REACH standard deviations, if
#: zero is at least twice as far away.
FEW_LARGEST, FINE, REACH = 12, 33, 4.0
#: The points of the curve that measures distances in standard deviations.
CURVE = 1025


@dataclass(frozen=True)
class Posterior:
    """The posterior distribution of each category's share, if categories have no order.

    Attributes:
        edges: the ends of cells of shares, ascending from 0, shape (cells + 1,).
        atoms: the share that represents each cell, shape (cells,).
        weights: the probability of each cell, for each group of categories, shape (groups, cells).
        sizes: the number of categories of each group, shape (groups,).
        log_evidence: the log of the reports' average likelihood under the families.
        steps: the number of EM's steps.
    """

    edges: Floats
    atoms: Floats
    weights: Floats
    sizes: Integers
    log_evidence: float
    steps: int

    def means(self) -> Floats:
        """The posterior means given that the shares sum to one, shape (groups,).

        Each posterior distribution is multiplied by exp(t f), with one t for all, so that the means sum to
        one. This is the saddle-point approximation of the posterior given the sum. If the sum is more than
        ``FARTHEST`` standard deviations away, or no t is found, the means are scaled instead.
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
            missing = 1.0 - float(self.sizes @ means)
            if abs(missing) < TILTED:
                return means
            slope = float(self.sizes @ (tilted @ self.atoms**2 - means**2))
            if slope <= 0.0 or (step == 0 and abs(missing) > FARTHEST * math.sqrt(slope)):
                break
            low, high = (tilt, high) if missing > 0.0 else (low, tilt)
            tilt += missing / slope
            if not low < tilt < high:
                # Newton's step left the interval: halve it, or double the step where it has no end.
                bracketed = math.isfinite(low) and math.isfinite(high)
                tilt = 0.5 * (low + high) if bracketed else 2.0 * (low if missing > 0.0 else high)
        return plain * (1.0 / float(self.sizes @ plain))

    def quantiles(self) -> Floats:
        """The posterior quantiles at the one level at which they sum to one, shape (groups,).

        Of all shares with this sum, they have the least expected sum of absolute errors.
        """
        # The posterior probability that a share is below each edge.
        reached = np.zeros((len(self.weights), len(self.edges)))
        np.cumsum(self.weights, axis=1, out=reached[:, 1:])
        reached[:, -1] = 1.0
        low, high = 0.0, 1.0
        for _ in range(40):
            level = 0.5 * (low + high)
            if self.sizes @ _quantiles(reached, self.edges, level) < 1.0:
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
    return np.asarray(edges[cell] + (edges[cell + 1] - edges[cell]) * within)


def posterior(likelihood: Likelihood) -> Posterior:
    """The posterior distributions of all shares, from which their prior distribution is estimated."""
    size, sizes = len(likelihood.members), likelihood.sizes
    atoms = grid(likelihood)
    common = common_shares(likelihood, atoms)
    atoms = np.unique([*atoms, *(share * part for share in common for part in (1.0 - NEXT, 1.0, 1.0 + NEXT))])
    # The first cell is zero itself.
    edges = np.append(0.0, ends_of(atoms[1:], atoms[-1]))
    table, top = relative(likelihood.log_likelihoods(atoms))
    families, chances = families_on(atoms, size, common)
    likely = np.maximum(table @ families.T, np.finfo(np.float64).tiny)
    means = table @ (families * atoms).T / likely
    variances = table @ (families * atoms**2).T / likely - means**2
    missing = 1.0 - sizes @ means
    log_likelihoods = sizes @ np.log(likely) - 0.5 * missing**2 / np.maximum(
        sizes @ variances, LEAST_VARIANCE
    )
    weights = chances * np.exp(log_likelihoods - log_likelihoods.max())
    log_evidence = float(log_likelihoods.max() + math.log(weights.sum()) + sizes @ top[:, 0])
    likeliest, steps = most_likely_prior(table, sizes, averaged(families, weights))
    joint = table * likeliest
    return Posterior(edges, atoms, joint / joint.sum(axis=1, keepdims=True), sizes, log_evidence, steps)


def common_shares(likelihood: Likelihood, atoms: Floats) -> list[float]:
    """The common share of most categories, if a few have more, such that posterior means sum to one.

    A priori, a category has more with probability 1/categories, by an exponential distribution
    (:func:`families_on`). The reports may allow several common shares: for example, all shares are equal, or
    one is much larger.

    Args:
        likelihood: the likelihood of the reports.
        atoms: the shares that a category may have, ascending, shape (atoms,).
    """
    size, sizes = len(likelihood.members), likelihood.sizes
    (table, top), tiny = relative(likelihood.log_likelihoods(atoms)), np.finfo(np.float64).tiny
    common = [1.0 / size]
    for start in STARTS:
        share = start / size
        for _ in range(MOST_MOVES):
            more = table * _above(atoms, share, 1.0 / size, size)
            as_common = np.exp(likelihood.log_likelihoods(np.array([share])) - top)[:, 0] * (1.0 - 1.0 / size)
            likely = np.maximum(more.sum(axis=1) + as_common, tiny)
            left = 1.0 - float(sizes @ (more @ atoms / likely))
            wanted = min(max(left / max(float(sizes @ (as_common / likely)), tiny), 0.0), 1.0 / size)
            moved, share = abs(wanted - share), 0.5 * (wanted + share)
            if moved < MOVED / size:
                break
        if all(abs(share - other) > NEXT / size for other in common):
            common.append(share)
    return common


def relative(logs: Floats) -> tuple[Floats, Floats]:
    """(likelihoods divided by the row's largest, shape (groups, atoms); the logs of these, (groups, 1))."""
    top = logs.max(axis=1, keepdims=True)
    return np.exp(logs - top), top


def ends_of(atoms: Floats, last: float) -> Floats:
    """The ends of the cells that the atoms represent; the first is zero, shape (atoms + 1,)."""
    return np.concatenate(([0.0], (atoms[1:] + atoms[:-1]) / 2.0, [last]))


def _above(atoms: Floats, point: float, mass: float, size: int) -> Floats:
    """A mass above a point, exponential, such that with the rest at the point the mean is 1/size."""
    ends = ends_of(atoms, np.inf)
    mean = min((1.0 / size - (1.0 - mass) * point) / mass, 1.0)
    scale = max(mean - point, np.finfo(np.float64).tiny)
    return mass * np.diff(-np.exp(-np.maximum(ends - point, 0.0) / scale))


def averaged(families: Floats, weights: Floats) -> Floats:
    """The average of families by weights, shape (atoms,), with a part of ``ANYWHERE`` over all atoms."""
    average: Floats = (weights / weights.sum()) @ families
    return (1.0 - ANYWHERE) * average + ANYWHERE / len(average)


def most_likely_prior(table: Floats, sizes: Integers, start: Floats) -> tuple[Floats, int]:
    """(the prior probability of each atom, EM's steps).

    Args:
        table: the likelihood of each atom for each group, shape (groups, atoms).
        sizes: the number of categories of each group, shape (groups,).
        start: the prior probabilities at the start, with the weight of ``STRENGTH`` categories, shape
            (atoms,).
    """
    prior, before = start, -math.inf
    held = np.flatnonzero(start)
    for step in range(MOST_STEPS):
        likely = table @ prior
        reached = float(sizes @ np.log(likely) + STRENGTH * (start[held] @ np.log(prior[held])))
        if step and reached - before < TOLERANCE:
            return prior, step
        before = reached
        prior = (prior * ((sizes / likely) @ table) + STRENGTH * start) / (sizes.sum() + STRENGTH)
    return prior, MOST_STEPS


def grid(likelihood: Likelihood) -> Floats:
    """The shares that a category may have: geometric from near zero, and finer where the categories are.

    A cell wider than the noise would spread the mass of a large share over shares that the reports refute.
    """
    size, unbiased = len(likelihood.members), likelihood.shares
    largest = min(max(float(unbiased.max()), 2.0 / size), 1.0)
    low = np.geomspace(1e-3 / size, largest, LOW_POINTS)
    special = np.array([*PLACES, 1.0]) / size
    large = np.sort(unbiased.clip(0.0, 1.0))[-FEW_LARGEST:, None]
    reach = REACH / np.sqrt(likelihood.information(large))
    around = (large + reach * np.linspace(-1.0, 1.0, FINE))[large[:, 0] > 2.0 * reach[:, 0]]
    fine = thinned(np.append(unbiased, around), likelihood.information)
    return np.unique(np.concatenate((special, low, fine)))


def thinned(shares: Floats, information: Callable[[Floats], Floats]) -> Floats:
    """Some of the shares above zero, ascending: one in each step of APART or more, at most MOST_POINTS.

    Args:
        shares: the shares, shape (n,).
        information: a function of shares in [0, 1]: the information of the reports.
    """
    seen = np.sort(shares[shares > 0.0].clip(max=1.0))
    # The distance between shares, in standard deviations of the noise at these shares.
    at = np.linspace(0.0, 1.0, CURVE)
    density = np.sqrt(information(at))
    distance = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2.0 * np.diff(at))))
    places, step = np.interp(seen, at, distance), APART
    while True:
        _, kept = np.unique(np.floor(places / step), return_index=True)
        if len(kept) <= MOST_POINTS:
            return seen[kept]
        step *= 1.5


def families_on(atoms: Floats, size: int, common: Sequence[float]) -> tuple[Floats, Floats]:
    """(each family's probabilities of the atoms, shape (families, atoms); the chance of each family).

    All have the mean 1/size. Families with a common share have half of the chance together; gamma
    distributions, and those with mass at one share, a quarter each.

    Args:
        atoms: the shares that a category may have, ascending, shape (atoms,).
        size: the number of categories.
        common: the possible common shares of most categories, which are among ``atoms``.
    """
    ends = ends_of(atoms, np.inf)
    gammas = [np.diff(gammainc(shape, shape * size * ends)) for shape in SHAPES]
    pointed = []
    for multiple in PLACES:
        point = multiple / size
        for mass in sorted({*ELSEWHERE, 1.0 / size}):
            mean = (1.0 / size - (1.0 - mass) * point) / mass
            if mass <= max(ELSEWHERE) and mean <= 1.0 + 1e-9:
                pointed.append(_with_point(atoms, point, mass, size))
    # If all shares are equal, no category has more.
    shared = [_with_point(atoms, share, 1.0 / size if share < 1.0 / size else 0.0, size) for share in common]
    kinds = (len(gammas), 0.25), (len(pointed), 0.25), (len(shared), 0.5)
    chances = np.concatenate([np.full(number, chance / max(number, 1)) for number, chance in kinds])
    return np.array(gammas + pointed + shared), chances / chances.sum()


def _with_point(atoms: Floats, point: float, mass: float, size: int) -> Floats:
    """A prior distribution with some mass above a point and the rest at the point, shape (atoms,)."""
    spread = _above(atoms, point, mass, size) if mass else np.zeros(len(atoms))
    spread[int(np.abs(atoms - point).argmin())] += 1.0 - mass
    return spread
