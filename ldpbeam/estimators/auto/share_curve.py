"""The shares as a smooth curve along the order of the categories, if they have one.

The log of the curve has a prior of order 2 (:mod:`ldpbeam.density.priors`). The curves of several deviations
are averaged, each weighted by its evidence.
"""

from __future__ import annotations

import math

import numpy as np

from ldpbeam.density.averaging import Family, average, log_evidence, weigh
from ldpbeam.density.priors import Prior
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.auto.share_likelihood import Likelihood

#: The deviations of the slope's change, from nearly a straight line on.
DEVIATIONS = np.geomspace(1e-2, 10.0**1.5, 12)
#: The standard deviations of half the log-ratio of the last to the first share of a straight line.
SLOPES = (0.35, 2.0)


class _OfCategories:
    """The likelihood of all shares together, as that of a density."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.sizes: Integers = np.ones(likelihood.categories, dtype=np.int64)
        self._likelihood = likelihood

    def values(self, shares: Floats) -> Floats:
        return np.array([self._likelihood.log_likelihood(column).sum() for column in shares.T])

    def slopes(self, shares: Floats) -> Floats:
        return np.stack([self._likelihood.slope(column) for column in shares.T], axis=1)

    def expanded(self, shares: Floats, moves: Floats) -> tuple[Floats, Floats]:
        information = self._likelihood.information(shares)
        return self._likelihood.slope(shares), moves.T @ (information[:, None] * moves)


def curve(likelihood: Likelihood) -> tuple[Floats, float]:
    """(the averaged curve, shape (categories,) with sum 1; the log of the reports' average likelihood).

    The likelihood has no groups of categories.
    """
    families = [
        Family([Prior(2, float(deviation), polynomial=slope) for deviation in DEVIATIONS]) for slope in SLOPES
    ]
    fits = weigh(_OfCategories(likelihood), families)
    # Priors that were not tried have no evidence.
    tried = len(fits) / (len(DEVIATIONS) * len(SLOPES))
    return average(fits), log_evidence(fits) + math.log(tried)
