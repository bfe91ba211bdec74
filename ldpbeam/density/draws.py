"""Draws from the posterior of a density, over all priors of its average.

Laplace's approximation locates the posterior under a prior. Where there is hardly anybody, the posterior is
not normal, because the log density has no lower bound. So draws from the normal approximation are resampled
by importance, and then take a few steps of elliptical slice sampling around it (Murray, Adams and MacKay,
AISTATS 2010; around an approximation: Nishihara, Murray and Adams, J. Mach. Learn. Res. 15, 2014). These
steps have the posterior under the prior as their stationary distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dtrtrs

from ldpbeam.density.averaging import Fit, noted
from ldpbeam.density.curves import log_softplus, normalised
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.domains import Floats, Integers

#: The number of draws, and the number of steps of each.
DRAWS, STEPS = 240, 4
#: The number of draws under a prior is in proportion to this power of its weight. No prior is right for a
#: real population, and the second best may be nearer to it than the evidence says (decision 45).
TEMPER = 0.25
#: The most cuts of an ellipse; after these a draw stays where it is.
MOST_CUTS = 12


@dataclass
class _Places:
    """Positions of draws relative to the modes of their priors, shape (any, draws) each.

    Attributes:
        heights: the heights of the curves, by block.
        coefficients: the coefficients of each draw's prior, padded with zeros.
        rooted: the roots of the modes times the coefficients: in units of the normal approximations.
    """

    heights: Floats
    coefficients: Floats
    rooted: Floats

    def along(self, other: _Places, cos: Floats, sin: Floats) -> _Places:
        """The positions on the ellipses through these and others."""
        return _Places(
            self.heights * cos + other.heights * sin,
            self.coefficients * cos + other.coefficients * sin,
            self.rooted * cos + other.rooted * sin,
        )


class _Chains:
    """Chains of draws, each under one prior; those of one prior are neighbours."""

    def __init__(
        self, likelihood: Likelihood, fits: Sequence[Fit], kinds: Integers, rng: np.random.Generator
    ) -> None:
        self.likelihood, self.rng, self.count = likelihood, rng, len(kinds)
        used, starts = np.unique(kinds, return_index=True)
        stops = [*starts[1:].tolist(), self.count]
        self.groups = [
            (fits[kind], slice(start, stop))
            for kind, start, stop in zip(used.tolist(), starts.tolist(), stops, strict=True)
        ]
        shape = (len(likelihood.sizes), self.count)
        self.modes, self.bases = np.empty(shape), np.empty(shape)
        self.plain = np.zeros(self.count, dtype=bool)
        most = max(len(fit.mode.coefficients) for fit, _ in self.groups)
        self.centres = np.zeros((most, self.count))
        for fit, columns in self.groups:
            z = fit.mode.coefficients
            self.modes[:, columns] = (fit.curves.matrix @ z)[:, None]
            self.bases[:, columns] = np.log(fit.curves.reference)[:, None]
            self.plain[columns] = fit.curves.scale == "plain"
            self.centres[: len(z), columns] = z[:, None]

    def normal(self) -> _Places:
        """Draws from the normal approximations."""
        heights = np.empty_like(self.modes)
        coefficients, rooted = np.zeros_like(self.centres), np.zeros_like(self.centres)
        for fit, columns in self.groups:
            size = len(fit.mode.coefficients)
            noise = self.rng.standard_normal((size, columns.stop - columns.start))
            # SciPy's function has checks that take longer than so small a system.
            drawn = dtrtrs(fit.mode.root, noise)[0]
            heights[:, columns] = fit.curves.matrix @ drawn
            coefficients[:size, columns], rooted[:size, columns] = drawn, noise
        return _Places(heights, coefficients, rooted)

    def shares(self, heights: Floats, chosen: Integers | slice = slice(None)) -> Floats:
        """The distributions of some chains at heights relative to their modes, shape (blocks, chosen)."""
        logs = self.modes[:, chosen] + heights
        plain = self.plain[chosen]
        logs[:, plain] = log_softplus(logs[:, plain])
        logs += self.bases[:, chosen]
        return normalised(logs)

    def excess(self, one: _Places, other: _Places) -> Floats:
        """The log prior minus the log of the normal approximation, at ``one cos + other sin``.

        Up to a constant, it is the product of the result, shape (5, draws), with (cos, sin, cos^2, sin^2,
        2 cos sin).
        """
        a, b, u, v = one.coefficients, other.coefficients, one.rooted, other.rooted
        return np.stack(
            [
                -(self.centres * a).sum(axis=0),
                -(self.centres * b).sum(axis=0),
                0.5 * (u * u - a * a).sum(axis=0),
                0.5 * (v * v - b * b).sum(axis=0),
                0.5 * (u * v - a * b).sum(axis=0),
            ]
        )

    def chosen_again(self, places: _Places) -> tuple[_Places, Floats]:
        """Places chosen by the posterior's ratio to its approximation, and the log of that ratio."""
        logs = self.likelihood.values(self.shares(places.heights))
        logs += _along(self.excess(places, places), 1.0, 0.0)
        kept = np.empty(self.count, dtype=np.int64)
        for _, columns in self.groups:
            weights = np.cumsum(np.exp(logs[columns] - logs[columns].max()))
            steps = (np.arange(len(weights)) + 0.5) / len(weights)
            chosen = np.searchsorted(weights / weights[-1], steps).clip(0, len(weights) - 1)
            kept[columns] = columns.start + chosen
        again = (part[:, kept] for part in (places.heights, places.coefficients, places.rooted))
        return _Places(*again), logs[kept]

    def step(self, places: _Places, logs: Floats) -> tuple[_Places, Floats]:
        """One step of elliptical slice sampling of every chain."""
        other = self.normal()
        parts = self.excess(places, other)
        level = logs + np.log(self.rng.random(self.count))
        angle = 2.0 * np.pi * self.rng.random(self.count)
        low, high = angle - 2.0 * np.pi, angle.copy()
        cos, sin, reached = np.ones(self.count), np.zeros(self.count), logs.copy()
        left = np.arange(self.count)
        for _ in range(MOST_CUTS):
            some = left if len(left) < self.count else slice(None)
            c, s = np.cos(angle[left]), np.sin(angle[left])
            heights = places.heights[:, some] * c
            heights += other.heights[:, some] * s
            values = self.likelihood.values(self.shares(heights, some)) + _along(parts[:, some], c, s)
            above = values > level[left]
            done = left[above]
            cos[done], sin[done], reached[done] = c[above], s[above], values[above]
            left = left[~above]
            if not len(left):
                break
            below = angle[left] < 0.0
            low[left] = np.where(below, angle[left], low[left])
            high[left] = np.where(below, high[left], angle[left])
            angle[left] = low[left] + self.rng.random(len(left)) * (high[left] - low[left])
        return places.along(other, cos, sin), reached


def _along(parts: Floats, cos: Floats | float, sin: Floats | float) -> Floats:
    total: Floats = parts[0] * cos + parts[1] * sin + parts[2] * cos**2 + parts[3] * sin**2
    return np.asarray(total + 2.0 * parts[4] * cos * sin)


def draws(
    likelihood: Likelihood,
    fits: Sequence[Fit],
    rng: np.random.Generator,
    *,
    many: int = DRAWS,
) -> Floats:
    """Draws of the density, shape (blocks, many).

    Args:
        likelihood: the likelihood of the reports.
        fits: the priors with their modes and weights.
        rng: the source of the draws.
        many: the number of draws.
    """
    weights = np.array([fit.weight for fit in fits])
    # Priors that differ only in the buckets of their spikes count as one.
    priors = [replace(fit.prior, spikes=(0,) * len(fit.prior.spikes)) for fit in fits]
    together = np.array([weights[[candidate == prior for candidate in priors]].sum() for prior in priors])
    tempered = weights * np.maximum(together, 1e-300) ** (TEMPER - 1.0)
    heaps = [prior.heaps for prior in priors]
    for kind in dict.fromkeys(heaps) if any(heaps) else ():
        # Many combs are tried; without this, the many draws under unlikely ones would widen every share.
        with_kind = np.array([other == kind for other in heaps])
        tempered[with_kind] *= weights[with_kind].sum() / tempered[with_kind].sum()
    reached = np.cumsum(tempered)
    places = (np.arange(many) + 0.5) / many * reached[-1]
    chains = _Chains(likelihood, fits, np.searchsorted(reached, places).clip(0, len(fits) - 1), rng)
    state = chains.chosen_again(chains.normal())
    for _ in range(STEPS):
        state = chains.step(*state)
    return chains.shares(state[0].heights)


def of_people(
    likelihood: Likelihood,
    shares: Floats,
    centre: Floats,
    rng: np.random.Generator,
    *,
    total: float,
    people: float,
) -> Floats:
    """Draws of the shares of the people who reported, shape (blocks, n).

    Given a density, each person's value has a posterior distribution. The shares of the people are normal
    around the mean of these distributions, with the covariance that they imply; single shares may be
    negative. The mean is scaled to sum 1, which a likelihood to second order does not give exactly.

    Args:
        likelihood: the likelihood of the reports.
        shares: draws of the density, shape (blocks, n).
        centre: a density near the draws, at which the covariance is computed, shape (blocks,).
        rng: the source of the draws.
        total: the number of reports, or of users if each counts as one.
        people: the number of different people.
    """
    held = likelihood.expanded(centre, np.diag(centre))[1]
    covariance = (np.diag(held.sum(axis=1)) - held) / (total * people)
    root = np.linalg.cholesky(covariance + 1e-13 * np.eye(len(centre)))
    means = shares * likelihood.slopes(shares)
    return np.asarray(means / means.sum(axis=0) + root @ rng.standard_normal(shares.shape))


def freedom(fits: Sequence[Fit]) -> float:
    """The number of coefficients that the reports determine, averaged over priors."""
    counted = noted(fits)
    inverses = [dtrtrs(fit.mode.root, np.eye(len(fit.mode.root)))[0] for fit in counted]
    determined = [len(inverse) - float((inverse**2).sum()) for inverse in inverses]
    return float(np.average(determined, weights=[fit.weight for fit in counted]))
