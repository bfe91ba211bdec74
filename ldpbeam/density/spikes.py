"""Spikes of a density: buckets where many people have the same value, found one after another.

Each step adds the spike that is predicted to make the reports likeliest. In the answer, a spike is spread
over all buckets where the reports allow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import solve, solve_triangular

from ldpbeam.density.averaging import LEAST_WEIGHT, Family, Fit, average, tried
from ldpbeam.density.curves import normalised
from ldpbeam.density.likelihoods import LEAST, Likelihood
from ldpbeam.density.modes import mode_of
from ldpbeam.density.priors import MOST_POINTS, SPIKE, Prior, spiked
from ldpbeam.domains import Floats, Integers

#: The most spikes of a density.
MOST_SPIKES = 24
#: The prior odds of a density with spikes, relative to the smooth one, whatever the number of spikes.
CHANCE = 0.25
#: A spike is tried if the predicted gain of its best bucket, in log marginal likelihood, is at least this.
PROMISING = 1.5
#: For each spike, at most PLACES other buckets are tried, with predicted gains at most NEARLY below the best.
PLACES, NEARLY = 4, 3.0
#: Other buckets are not tried if the log weight with spikes is this far below that of the smooth density.
HARDLY = 2.0
#: With more spikes than this, each stays in its bucket: they are at round values, and their positions depend
#: on each other.
MOST_SPREAD = 3
#: The deviations that are tried once all spikes are found.
DEVIATIONS = (1.0, 8.0, 64.0)


def with_spikes(likelihood: Likelihood, smooth: Fit) -> Iterator[Fit]:
    """Densities with more and more spikes, while the reports get likelier; then variants of the last one.

    A variant has another deviation, or one spike in another bucket that is nearly as likely.

    Args:
        likelihood: the likelihood of the reports.
        smooth: the smooth density, with its mode.
    """
    places, blocks = _places(likelihood), len(likelihood.sizes)
    columns = spiked(places, blocks)

    def fitted(prior: Prior, start: Floats, chance: float) -> Fit:
        curves = prior.curves(likelihood.sizes)
        return Fit(prior, curves, mode_of(likelihood, curves, start), chance)

    best, others, chance = smooth, list[Integers](), CHANCE * smooth.chance
    while len(others) < MOST_SPIKES:
        promise, heights = _promises(likelihood, best, columns)
        promise[np.isin(places, np.array(best.prior.spikes) % blocks)] = -np.inf
        chosen = int(promise.argmax())
        if promise[chosen] < PROMISING:
            break
        spikes = (int(places[chosen]), *best.prior.spikes)
        # The candidate has the prior weight of all densities like it: spikes have no order, and for this
        # spike other buckets are nearly as likely.
        multiplicity = float(np.exp(promise - promise[chosen]).sum()) * (len(others) + 1) / len(places)
        start = np.append(min(heights[chosen], 1.0), best.mode.coefficients)
        candidate = fitted(replace(best.prior, spikes=spikes), start, chance * multiplicity)
        if others and candidate.log_weight < best.log_weight:
            break
        near = places[promise > promise[chosen] - NEARLY]
        others.append(near[np.unique(np.linspace(0, len(near) - 1, min(len(near), PLACES)).astype(int))])
        best, chance = candidate, candidate.chance
        yield best
    if best is smooth or best.log_weight < smooth.log_weight - HARDLY:
        return
    deviations = [deviation for deviation in DEVIATIONS if deviation != best.prior.deviation]
    yield from tried(
        likelihood, Family([replace(best.prior, deviation=deviation) for deviation in deviations], chance)
    )
    for spike, near in enumerate(reversed(others)):
        for bucket in near[~np.isin(near, best.prior.spikes)].tolist():
            spikes = (*best.prior.spikes[:spike], bucket, *best.prior.spikes[spike + 1 :])
            yield fitted(replace(best.prior, spikes=spikes), best.mode.coefficients, chance / len(near))


def _places(likelihood: Likelihood) -> Integers:
    """The blocks that may get a spike: those with a width, evenly thinned to MOST_POINTS."""
    wide = np.flatnonzero(likelihood.sizes)
    return wide[np.linspace(0, len(wide), min(len(wide), MOST_POINTS), endpoint=False, dtype=np.int64)]


def _promises(likelihood: Likelihood, fit: Fit, columns: Floats) -> tuple[Floats, Floats]:
    """(the predicted gain in log marginal likelihood, the coefficient) of a spike, for each column.

    Both are second-order approximations, without the prior of the spike's height, which would hide spikes
    where the smooth density has almost nobody.
    """
    slopes, left = slopes_of(likelihood, fit, SPIKE * columns)
    slopes = np.maximum(slopes, 0.0)
    return slopes**2 / (2.0 * left) - np.log1p(np.sqrt(left)), slopes / left


def slopes_of(likelihood: Likelihood, fit: Fit, columns: Floats) -> tuple[Floats, Floats]:
    """(the slopes of the log-likelihood by further coefficients, the information on each), at a mode.

    It is the information that remains if the coefficients of the mode are unknown, too.
    """
    shares, fitted = fit.mode.shares, fit.curves.matrix.shape[1]
    all_columns = np.hstack((fit.curves.matrix, columns))
    moves = shares[:, None] * (all_columns - shares @ all_columns)
    rises, information = likelihood.expanded(shares, moves)
    shared = solve_triangular(fit.mode.root, information[:fitted, fitted:], trans=1)
    left = np.maximum(np.diag(information)[fitted:] - (shared**2).sum(axis=0), 1e-12)
    return rises @ moves[:, fitted:], left


def spread(likelihood: Likelihood, fits: Sequence[Fit]) -> Floats:
    """The weighted mean of the modes' distributions, with each spike spread over its likely places.

    Args:
        likelihood: the likelihood of the reports.
        fits: the priors with their modes and weights. Spikes are not spread if the weight is below
            LEAST_WEIGHT, or if there are more than MOST_SPREAD of them.

    Returns:
        The distribution, shape (blocks,).
    """
    shares = average(fits)
    for fit in fits:
        if fit.weight >= LEAST_WEIGHT and len(fit.prior.spikes) <= MOST_SPREAD:
            shares += sum(
                fit.weight * _spread(likelihood, fit, spike) for spike in range(len(fit.prior.spikes))
            )
    return shares


def _spread(likelihood: Likelihood, fit: Fit, spike: int) -> Floats:
    """The change in a mode's distribution when one of its spikes is spread, shape (blocks,).

    All people of the spike move to each place in turn. The other coefficients adjust to second order, and the
    place is weighted by the posterior density of the result. A spike on a point at an end stays there.
    """
    mode, shares, blocks = fit.mode, fit.mode.shares, len(likelihood.sizes)
    block, height = fit.prior.spikes[spike] % blocks, SPIKE * mode.coefficients[spike]
    if not likelihood.sizes[block] or height <= 0.0:
        return np.zeros(blocks)
    places = _places(likelihood)
    at_places = spiked(places, blocks)
    people = -np.expm1(-height) * shares[block]
    at_block = people * (np.arange(blocks) == block)
    away = people * at_places - at_block[:, None]
    others, matrix = np.delete(mode.coefficients, spike), np.delete(fit.curves.matrix, spike, axis=1)
    kept = len(others)
    moves = shares[:, None] * (matrix - shares @ matrix)
    _, information = likelihood.expanded(shares, np.hstack((moves, away)))
    curvature = np.eye(kept) + information[:kept, :kept]
    coefficients = others[:, None] - solve(curvature, information[:kept, kept:], assume_a="pos")
    heights = np.log1p(people / np.maximum((shares - at_block)[places], LEAST))
    moved = normalised(np.log(fit.curves.reference)[:, None] + matrix @ coefficients + at_places * heights)
    logs = likelihood.values(moved) - 0.5 * ((coefficients**2).sum(axis=0) + (heights / SPIKE) ** 2)
    return moved @ normalised(logs) - shares
