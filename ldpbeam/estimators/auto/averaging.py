"""The average over priors of :mod:`~ldpbeam.estimators.auto.smoothness`, weighted by marginal likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam.domains import Floats
from ldpbeam.estimators.auto.curves import Scale
from ldpbeam.estimators.auto.laplace import Mode, mode_of
from ldpbeam.estimators.auto.likelihood import Likelihood
from ldpbeam.estimators.auto.smoothness import Smoothness

#: For each order, deviations in ascending order: from so strong a smoothing that only the polynomial is left
#: to so weak a one that the largest samples can tell nothing narrower.
DEVIATIONS: dict[int, Floats] = {
    0: 2.0 ** np.arange(-2.0, 0.5, 1.0),
    1: 2.0 ** np.arange(-3.0, 6.5, 1.0),
    2: 2.0 ** np.arange(0.0, 14.5, 1.5),
    3: 2.0 ** np.arange(2.0, 22.0, 2.0),
}
#: How likely each order is before there are reports, up to a factor; all its deviations are equally likely.
ORDERS: dict[int, float] = {0: 1.0, 1: 1.0, 2: 4.0, 3: 2.0}
#: How likely it is beforehand that the log density is smooth, or the density, up to a factor.
SCALES: dict[Scale, float] = {"log": 2.0, "plain": 1.0}
#: With growing deviation the evidence rises and then falls: no more is tried so far below its best.
HOPELESS = 12.0


@dataclass(frozen=True)
class Weighed:
    """A prior with its share of the posterior.

    Attributes:
        smoothness: the prior.
        mode: the mode of the posterior density under it.
        weight: the share of the posterior, in [0, 1].
    """

    smoothness: Smoothness
    mode: Mode
    weight: float


def weigh(likelihood: Likelihood) -> tuple[Weighed, ...]:
    """All priors that are not hopeless, by their marginal likelihoods; the weights sum to one.

    Independent heights are tried only if the roughest of the other priors is the most likely one, the random
    walk of the log density: they take more time than all others.
    """
    found = [own for scale in SCALES for order in (1, 2, 3) for own in _of_order(likelihood, order, scale)]
    likeliest = max(found, key=lambda own: own[1].log_evidence)[0]
    if likeliest.order == 1 and likeliest.scale == "log":
        found += _of_order(likelihood, 0, "log")
    likely = np.array([SCALES[prior.scale] * ORDERS[prior.order] for prior, _ in found])
    evidence = np.array([mode.log_evidence for _, mode in found]) + np.log(likely)
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    return tuple(Weighed(*own, float(weight)) for own, weight in zip(found, weights, strict=True))


def _of_order(likelihood: Likelihood, order: int, scale: Scale) -> Iterator[tuple[Smoothness, Mode]]:
    """The priors of an order and scale with their modes; each starts from the mode of the one before."""
    z, best, before = np.zeros(0), -np.inf, np.zeros(0)
    for deviation in DEVIATIONS[order]:
        smoothness = Smoothness(order, float(deviation), scale)
        basis = smoothness.basis(likelihood.sizes)
        norms = np.maximum(np.linalg.norm(basis.matrix, axis=0), np.finfo(np.float64).tiny)
        # The same curve, in the coefficients of this prior.
        z = z * (before / norms) if len(z) else np.zeros(len(norms))
        mode = mode_of(likelihood, basis, z)
        yield smoothness, mode
        if mode.log_evidence < best - HOPELESS:
            return
        best, before, z = max(best, mode.log_evidence), norms, mode.coefficients


def average(weighed: Sequence[Weighed]) -> Floats:
    """The mean of the modes' distributions by the priors' weights, shape (blocks,)."""
    return np.asarray(sum(own.weight * own.mode.shares for own in weighed))
