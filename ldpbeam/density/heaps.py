"""Heaps: more people at round values than beside them, where a domain has a step and each block is a value.

A comb is a set of values, such as the multiples of ten, whose log heights all lie above the smooth curve by
one number. There may also be one height per value. Multiples count from zero, in steps. Of the many combs, we
try those with the highest predicted gain beside the likeliest smooth density.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ldpbeam.density.averaging import HOPELESS, Fit
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.density.modes import mode_of
from ldpbeam.density.priors import Heaps, Prior
from ldpbeam.density.spikes import slopes_of, with_spikes
from ldpbeam.domains import Floats

#: The periods of combs. A comb has at least LEAST_TEETH.
PERIODS, LEAST_TEETH = (*range(2, 13), 15, 20, 25, 30), 3
#: The chances of combs and of heights per value, relative to that of the smooth density. All other periods
#: are equally likely, and within one the remainder zero is as likely as all others together.
OF_TENS, OF_FIVES, OF_ONE_DIGIT, OF_ANY, OF_EACH = 0.2, 0.1, 0.4, 0.2, 0.03
#: The mean and the standard deviation of a comb's log height.
MEAN, DEVIATION = 1.0, 1.5
#: Tens and fives are always tried; so are at most MOST_TRIED other combs that are predicted to raise the log
#: marginal likelihood by ASKED. Heights per value are kept only if they raise it by as much.
MOST_TRIED, ASKED = 2, 0.5
#: The most combs of a density.
MOST_COMBS = 2
#: A comb stays open if the mean of its log evidence and log weight is at most OPEN below the best, so that
#: rare combs stay open, too. At most MOST_OPEN are drawn.
OPEN, MOST_OPEN = 2.5, 3
#: The name of heights per value.
EACH = "each value"
#: The standard deviations of log heights per value.
OF_VALUES = (0.1, 0.3, 1.0)
#: With more blocks than this, there are no heights per value.
MOST_VALUES = 512
#: The deviations of the smooth part that are tried once a comb is found.
DEVIATIONS = (1.0, 8.0, 64.0)


def combs(first: int, blocks: int) -> Iterator[tuple[Heaps, float]]:
    """(a comb, its chance), for all combs.

    Args:
        first: the first value, counted in steps from zero.
        blocks: the number of values.
    """
    values = first + np.arange(blocks)
    for period in PERIODS:
        for rest in range(period if blocks >= LEAST_TEETH * period else 0):
            chance = OF_ANY / len(PERIODS) * (0.5 if rest == 0 else 0.5 / (period - 1))
            if period == 10:
                chance = OF_TENS if rest == 0 else OF_ONE_DIGIT / 9.0
            elif period == 5 and rest == 0:
                chance = OF_FIVES
            teeth = tuple(np.flatnonzero(values % period == rest).tolist())
            name = f"multiples of {period} steps" + (f" plus {rest}" if rest else "")
            yield Heaps(name, (teeth,), MEAN, DEVIATION), chance


def of_each(blocks: int) -> list[Heaps]:
    """The priors of one height per value; none if there are many values."""
    single = tuple((block,) for block in range(blocks if blocks <= MOST_VALUES else 0))
    return [Heaps(EACH, single, 0.0, deviation) for deviation in OF_VALUES if single]


def with_heaps(likelihood: Likelihood, smooth: Sequence[Fit], spiked: Fit, first: int) -> Iterator[Fit]:
    """Densities with heaps.

    Args:
        likelihood: the likelihood of the reports; its blocks are values.
        smooth: the smooth densities without heaps; the likeliest log density comes first.
        spiked: the likeliest log density with spikes, or a smooth one.
        first: the first value, counted in steps from zero.
    """
    blocks, best = len(likelihood.sizes), smooth[0]
    candidates = list(combs(first, blocks))
    # A density with heaps has the chance of all smooth densities together.
    smooth_ones = sum(math.exp(min(fit.log_weight - best.log_weight, 0.0)) for fit in smooth)
    of_values = [_beside(likelihood, best, heaps, smooth_ones * OF_EACH) for heaps in of_each(blocks)]
    of_values = [fit for fit in of_values if fit.mode.log_evidence > best.mode.log_evidence + ASKED]
    yield from of_values
    for _ in range(MOST_COMBS):
        tried = _promising(likelihood, best, candidates)
        combed = [_beside(likelihood, best, comb, smooth_ones * chance) for comb, chance in tried]
        yield from combed
        before, best, smooth_ones = best, max((best, *combed), key=lambda fit: fit.log_weight), 1.0
        if best is before:
            break
        if before is smooth[0] and spiked.prior.spikes and spiked.log_weight > best.log_weight - HOPELESS:
            yield from (_beside(likelihood, spiked, comb, chance) for comb, chance in tried)
    if best is smooth[0] or any(fit.log_weight > best.log_weight for fit in of_values):
        return
    # Beside a comb the rest may be smoother, the teeth may be uneven, and other values may be spikes.
    smoother = [
        _fit(likelihood, replace(best.prior, order=2, deviation=deviation), best.chance)
        for deviation in DEVIATIONS
    ]
    best = max((best, *smoother), key=lambda fit: fit.log_weight)
    yield from smoother
    yield from (_beside(likelihood, best, heaps, OF_EACH) for heaps in of_each(blocks))
    yield from with_spikes(likelihood, best)


def _promising(
    likelihood: Likelihood, fit: Fit, candidates: Sequence[tuple[Heaps, float]]
) -> list[tuple[Heaps, float]]:
    """The candidates to try beside a density, with their chances."""
    left = [comb for comb in candidates if comb[0] not in fit.prior.heaps]
    if not left:
        return []
    columns = np.hstack([comb.columns(len(likelihood.sizes)) for comb, _ in left])
    slopes, information = slopes_of(likelihood, fit, columns)
    # The marginal likelihood of a normal height, where the log-likelihood is quadratic.
    precision = DEVIATION**-2
    gains = (slopes + MEAN * precision) ** 2 / (information + precision) - MEAN**2 * precision
    gains = 0.5 * (gains - np.log1p(information / precision))
    by_gain = np.argsort(-gains - np.log([chance for _, chance in left])).tolist()
    common = [comb for comb in left if comb[1] in (OF_TENS, OF_FIVES)]
    others = [left[i] for i in by_gain if gains[i] > ASKED and left[i] not in common]
    return [*common, *others[:MOST_TRIED]]


def _beside(likelihood: Likelihood, fit: Fit, heaps: Heaps, times: float) -> Fit:
    """The same prior with more heaps, and ``times`` its chance."""
    prior = replace(fit.prior, heaps=(heaps, *fit.prior.heaps))
    return _fit(likelihood, prior, times * fit.chance, fit.mode.coefficients[len(fit.prior.spikes) :])


def _fit(likelihood: Likelihood, prior: Prior, chance: float, smooth: Floats | None = None) -> Fit:
    """The fit of a prior; the search starts at some coefficients of its smooth part, or at zero."""
    curves = prior.curves(likelihood.sizes)
    start = np.zeros(curves.matrix.shape[1])
    if smooth is not None and len(smooth):
        start[-len(smooth) :] = smooth
    return Fit(prior, curves, mode_of(likelihood, curves, start), chance)


def open_combs(fits: Sequence[Fit]) -> list[list[Fit]]:
    """The fits of each set of combs that the reports do not exclude, the likeliest first.

    Only log densities without spikes are compared: those of the other scale, or with spikes, may be likelier
    than all that were tried with combs.
    """
    groups = dict[tuple[str, ...], list[Fit]]()
    for fit in fits:
        groups.setdefault(_combs_of(fit), []).append(fit)
    likely = dict[tuple[str, ...], float]()
    for names, combed in groups.items():
        compared = [fit for fit in combed if fit.prior.scale == "log" and not fit.prior.spikes]
        likely[names] = max(
            (0.5 * (fit.mode.log_evidence + fit.log_weight) for fit in compared), default=-np.inf
        )
    least = max(likely.values()) - OPEN
    chosen = sorted((names for names in groups if names and likely[names] > least), key=likely.__getitem__)
    return [groups[names] for names in chosen[: -MOST_OPEN - 1 : -1]]


def _combs_of(fit: Fit) -> tuple[str, ...]:
    """The names of the combs of a density."""
    return tuple(heaps.name for heaps in fit.prior.heaps if heaps.name != EACH)
