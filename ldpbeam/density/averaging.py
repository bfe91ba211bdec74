"""The average of a density over several priors, weighted by their marginal likelihoods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ldpbeam.density.curves import Curves
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.density.modes import Mode, mode_of
from ldpbeam.density.priors import Prior
from ldpbeam.domains import Floats

#: The evidence rises with the deviation and then falls: the search stops this far below its maximum.
HOPELESS = 8.0
#: Priors with a smaller weight count in the average, and nowhere else.
LEAST_WEIGHT = 0.01


@dataclass(frozen=True)
class Family:
    """Priors that differ in their deviation.

    Attributes:
        priors: the priors, in ascending order of their deviations.
        chance: the prior probability of each, up to a factor.
    """

    priors: Sequence[Prior]
    chance: float = 1.0


@dataclass(frozen=True)
class Fit:
    """A prior with its posterior weight.

    Attributes:
        prior: the prior.
        curves: the prior's curves.
        mode: the posterior mode under the prior.
        chance: the prior's own probability before the reports, up to a factor.
        weight: the posterior weight, in [0, 1].
    """

    prior: Prior
    curves: Curves
    mode: Mode
    chance: float
    weight: float = 0.0

    @property
    def log_weight(self) -> float:
        """The logarithm of chance times marginal likelihood."""
        return self.mode.log_evidence + math.log(self.chance)


def tried(likelihood: Likelihood, family: Family) -> Iterator[Fit]:
    """The modes of a family's priors; the search for each starts at the mode of the one before.

    Args:
        likelihood: the likelihood of the reports.
        family: the priors.
    """
    z, best, before = np.zeros(0), -np.inf, np.zeros(0)
    for prior in family.priors:
        curves = prior.curves(likelihood.sizes)
        norms = curves.norms
        # The same curve in this prior's coefficients, of which there may be more.
        start = np.zeros(len(norms))
        start[: len(z)] = z * before / norms[: len(z)]
        mode = mode_of(likelihood, curves, start)
        yield Fit(prior, curves, mode, family.chance)
        if mode.log_evidence < best - HOPELESS:
            return
        best, before, z = max(best, mode.log_evidence), norms, mode.coefficients


def weigh(likelihood: Likelihood, families: Sequence[Family]) -> tuple[Fit, ...]:
    """All priors of the families, except hopeless ones, weighted by :func:`by_evidence`."""
    return by_evidence([fit for family in families for fit in tried(likelihood, family)])


def by_evidence(fits: Sequence[Fit]) -> tuple[Fit, ...]:
    """The same fits with weights in proportion to chance and marginal likelihood, with sum 1."""
    evidence = np.array([fit.log_weight for fit in fits])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    return tuple(replace(fit, weight=float(weight)) for fit, weight in zip(fits, weights, strict=True))


def noted(fits: Sequence[Fit]) -> list[Fit]:
    """The fits with a weight of at least LEAST_WEIGHT."""
    return [fit for fit in fits if fit.weight >= LEAST_WEIGHT]


def average(fits: Sequence[Fit]) -> Floats:
    """The weighted mean of the modes' distributions, shape (blocks,)."""
    return np.asarray(sum(fit.weight * fit.mode.shares for fit in fits))


def log_evidence(fits: Sequence[Fit]) -> float:
    """The log of the marginal likelihood of the reports, averaged over the priors by their chances."""
    evidence = np.array([fit.mode.log_evidence for fit in fits])
    chances = np.array([fit.chance for fit in fits])
    return float(evidence.max() + np.log(np.average(np.exp(evidence - evidence.max()), weights=chances)))
