"""The posterior of a smooth density, given counts of reports and their likelihoods.

The logarithm of the density is a cubic spline, whose second differences have independent normal priors of one
standard deviation, the roughness. Each roughness is weighted by its marginal likelihood. The bands of such a
posterior hold a smooth truth at about their level in the average over buckets, because the prior's variance
stands for the squared bias of smoothing (Wahba, J. R. Statist. Soc. B 45, 1983; Nychka, J. Am. Statist.
Assoc. 83, 1988; Marra and Wood, Scand. J. Statist. 39, 2012).

Draws come from Laplace's normal approximations, and are chosen again by the posterior's ratio to these.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import BSpline

from ldpbeam.domains import Floats, Integers
from ldpbeam.intervals.evidence import Evidence

#: The spline has at most this many coefficients.
MOST_COEFFICIENTS = 32
#: The prior standard deviation of the log density's difference between the two ends, as a straight line.
SLOPE = 10.0
#: The roughnesses that are tried, from nearly log-linear to rough. Each has the prior weight of the power
#: ``FAVOUR`` of it, so that reports which say little leave wide intervals.
ROUGHNESS = np.exp(np.linspace(np.log(0.01), np.log(0.3), 13))
FAVOUR = 0.5
#: At most so many Newton steps. None changes the ratio of two shares by more than this, as a logarithm.
MOST_STEPS, LONGEST = 15, 3.0
#: In the first steps the roughness is chosen anew; then it is kept, so that the steps converge.
FREE = 6
#: The fit has converged if a step changes no ratio of two shares by more than this, as a logarithm.
SETTLED = 1e-2
#: The number of draws; half of them mirror the others.
DRAWS = 500


@dataclass(frozen=True)
class Posterior:
    """Draws from the posterior of the density, by value bucket.

    Attributes:
        shares: the density's shares, shape (draws, value buckets).
        slopes: the likelihood's derivative by each share at each draw, shape (draws, value buckets).
        mode: the likeliest shares, shape (value buckets,).
        freedom: how many of the spline's coefficients the reports determine.
        effective: how many independent draws these are worth.
    """

    shares: Floats
    slopes: Floats
    mode: Floats
    freedom: float
    effective: float


@functools.lru_cache(maxsize=8)
def _basis(buckets: int) -> Floats:
    """The logarithms of density that the spline's coefficients add, shape (buckets, coefficients).

    The first is a straight line from -1/2 to 1/2. Each other one has a single second difference of one.
    """
    many = min(MOST_COEFFICIENTS, buckets)
    splines = np.eye(buckets)
    if many < buckets:
        inner = many - 3
        middles = (np.arange(buckets) + 0.5) / buckets
        splines = BSpline.design_matrix(middles, np.arange(-3, inner + 4) / inner, 3).toarray()
    bends = splines @ np.linalg.pinv(np.diff(np.eye(many), 2, axis=0))
    return np.column_stack((splines @ np.linspace(-0.5, 0.5, many), bends))


def _normal(logs: Floats) -> Floats:
    """Shares from their logarithms, up to a constant, along the last axis."""
    raised = np.exp(logs - logs.max(axis=-1, keepdims=True))
    shares: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return shares


def posterior(evidence: Evidence, buckets: int, rng: np.random.Generator) -> Posterior:
    """The posterior of the shares of ``buckets`` equal value buckets, three or more.

    Args:
        evidence: the counts and their likelihoods.
        buckets: the number of value buckets.
        rng: the source of the draws.
    """
    columns = _basis(buckets)
    theta, chosen = np.zeros(columns.shape[1]), len(ROUGHNESS) // 2
    for iteration in range(MOST_STEPS):
        found = Normals(evidence, columns, theta)
        if iteration < FREE:
            chosen = int(found.scores.argmax())
        step = found.means[chosen] - theta
        change = float(np.ptp(columns @ step))
        theta = theta + step * min(1.0, LONGEST / max(change, LONGEST))
        if change < SETTLED:
            break
    drawn, kinds, logs = found.draws(rng)
    shares, mode = _normal(drawn @ columns.T), _normal(columns @ theta)
    likelihoods, slopes = evidence.around(mode, shares)
    rough = ROUGHNESS[kinds]
    logs = likelihoods - logs - 0.5 * (drawn[:, 0] / SLOPE) ** 2
    logs -= 0.5 * (drawn[:, 1:] ** 2).sum(axis=1) / rough**2
    logs += (FAVOUR - (drawn.shape[1] - 1)) * np.log(rough)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    places = (np.arange(DRAWS) + 0.5) / DRAWS
    kept = np.searchsorted(np.cumsum(weights), places).clip(0, DRAWS - 1)
    freedom = 1.0 + float((found.values / found.precisions[chosen]).sum())
    return Posterior(shares[kept], slopes[kept], mode, freedom, 1.0 / float((weights**2).sum()))


class Normals:
    """Normal approximations of the posterior of the coefficients, one for each roughness.

    The information of the bends, given the straight line, is diagonal in one basis for all.
    """

    def __init__(self, evidence: Evidence, columns: Floats, theta: Floats) -> None:
        shares = _normal(columns @ theta)
        change = shares[:, None] * (columns - shares @ columns)
        information = evidence.information(shares, change)
        target = change.T @ evidence.slopes(shares) + information @ theta
        self.first = float(information[0, 0]) + 1.0 / SLOPE**2
        self.lean = information[0, 1:] / self.first
        values, self.vectors = np.linalg.eigh(
            information[1:, 1:] - self.first * np.outer(self.lean, self.lean)
        )
        self.values = np.maximum(values, 0.0)
        along = self.vectors.T @ (target[1:] - self.lean * target[0])
        #: The precision of each of the diagonal's numbers by roughness.
        self.precisions = self.values + 1.0 / ROUGHNESS[:, None] ** 2
        bends = (along / self.precisions) @ self.vectors.T
        self.means = np.column_stack((target[0] / self.first - bends @ self.lean, bends))
        #: The logarithm of each roughness's weight: its marginal likelihood and its prior.
        self.scores = 0.5 * (along**2 / self.precisions).sum(axis=1) + FAVOUR * np.log(ROUGHNESS)
        self.scores -= 0.5 * np.log(self.precisions * ROUGHNESS[:, None] ** 2).sum(axis=1)

    def draws(self, rng: np.random.Generator) -> tuple[Floats, Integers, Floats]:
        """(draws, the roughness of each, the logarithm of the density that each was drawn with)."""
        weights = np.exp(self.scores - self.scores.max())
        weights /= weights.sum()
        half = DRAWS // 2
        noise = rng.standard_normal((half, self.means.shape[1]))
        noise = np.concatenate((noise, -noise))
        places = np.tile((np.arange(half) + 0.5) / half, 2)
        kinds = np.searchsorted(np.cumsum(weights), places).clip(0, len(weights) - 1)
        bends = (noise[:, 1:] / np.sqrt(self.precisions[kinds])) @ self.vectors.T
        lines = noise[:, 0] / np.sqrt(self.first) - bends @ self.lean
        drawn: Floats = self.means[kinds] + np.column_stack((lines, bends))
        logs: Floats = -0.5 * (noise**2).sum(axis=1) + 0.5 * np.log(self.precisions[kinds]).sum(axis=1)
        return drawn, kinds, logs + np.log(weights[kinds])
