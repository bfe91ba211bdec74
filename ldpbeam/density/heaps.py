"""Heaps: more people at round values than beside them, where a domain has a step and each block is a value.

A comb is a set of values, such as the multiples of ten, whose log heights lie above the smooth curve by one
number. Values may also have a height of their own each. Multiples count from zero, in steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ldpbeam.density.averaging import Fit
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.density.modes import mode_of
from ldpbeam.density.priors import Heaps, Prior
from ldpbeam.density.spikes import with_spikes
from ldpbeam.domains import Floats

#: A comb has at least so many teeth.
LEAST_TEETH = 3
#: The chances of combs and of heights of each value, relative to that of the smooth density.
OF_TENS, OF_FIVES, OF_ONE_DIGIT, OF_DIGITS, OF_EACH = 0.3, 0.3, 0.3, 0.1, 0.1
#: The mean and the standard deviation of a comb's log height.
MEAN, DEVIATION = 0.6, 1.0
#: What heights of all values are called.
EACH = "each value"
#: The standard deviations of the log heights of all values, if each has its own.
OF_VALUES = (0.1, 0.3, 1.0)
#: With more blocks, these have no heights of their own.
MOST_VALUES = 256
#: Combs with a weight between these are hinted at by the reports, and not shown.
HINTED, SHOWN = 0.7, 0.95
#: The deviations of the smooth part that are tried with a comb that is found.
DEVIATIONS = (1.0, 8.0, 64.0)


def combs(first: int, blocks: int) -> Iterator[tuple[Heaps, float]]:
    """The combs, and how likely each is.

    Args:
        first: the number of the first value, in steps from zero.
        blocks: the number of values.
    """
    digits = (first + np.arange(blocks)) % 10

    def comb(name: str, *groups: int, mean: float = MEAN) -> Heaps:
        places = [np.flatnonzero(digits == digit).tolist() for digit in groups]
        return Heaps(name, tuple(map(tuple, places)), mean, DEVIATION)

    if blocks >= 5 * LEAST_TEETH:
        yield comb("multiples of 5 and 10 steps", 0, 5), OF_FIVES
    if blocks >= 10 * LEAST_TEETH:
        yield comb("multiples of 10 steps", 0), OF_TENS
        for digit in range(1, 10):
            yield comb(f"the last digit {digit}", digit), OF_ONE_DIGIT / 9.0
        yield comb("the last digit", *range(10), mean=0.0), OF_DIGITS


def of_each(blocks: int) -> list[Heaps]:
    """A height of its own for each value; none if there are many."""
    each = tuple((block,) for block in range(blocks if blocks <= MOST_VALUES else 0))
    return [Heaps(EACH, each, 0.0, deviation) for deviation in OF_VALUES if each]


def with_heaps(likelihood: Likelihood, smooth: Sequence[Fit], spiked: Fit, first: int) -> Iterator[Fit]:
    """Densities with heaps beside those without.

    Args:
        likelihood: of the reports; its blocks are values.
        smooth: the smooth densities without heaps, the likeliest log density of them first.
        spiked: the likeliest log density with spikes, or a smooth one.
        first: the number of the first value, in steps from zero.
    """
    blocks, found = len(likelihood.sizes), list[Fit]()
    # Heaps are as likely beside all smooth densities together as these are.
    many = sum(math.exp(min(fit.log_weight - smooth[0].log_weight, 0.0)) for fit in smooth)
    for base, times in {smooth[0].prior: (smooth[0], many), spiked.prior: (spiked, 1.0)}.values():
        chances = (*combs(first, blocks), *((own, OF_EACH) for own in of_each(blocks)))
        found += [_beside(likelihood, base, own, times * chance) for own, chance in chances]
    yield from found
    best = max(found, key=lambda fit: fit.log_weight)
    if best.prior.heaps[0].name == EACH or best.log_weight <= max(smooth[0].log_weight, spiked.log_weight):
        return
    for deviation in DEVIATIONS:
        yield _fit(likelihood, replace(best.prior, order=2, deviation=deviation), best.chance)
    yield from (_beside(likelihood, best, own, OF_EACH) for own in of_each(blocks))
    if not best.prior.spikes:
        yield from with_spikes(likelihood, best)


def _beside(likelihood: Likelihood, fit: Fit, heaps: Heaps, times: float) -> Fit:
    """The same prior with more heaps, whose chance is some times that of the prior."""
    prior = replace(fit.prior, heaps=(heaps, *fit.prior.heaps))
    return _fit(likelihood, prior, times * fit.chance, fit.mode.coefficients[len(fit.prior.spikes) :])


def _fit(likelihood: Likelihood, prior: Prior, chance: float, known: Floats | None = None) -> Fit:
    """The fit of a prior, from the coefficients of its smooth part, if they are known."""
    curves = prior.curves(likelihood.sizes)
    start = np.zeros(curves.matrix.shape[1])
    if known is not None and len(known):
        start[-len(known) :] = known
    return Fit(prior, curves, mode_of(likelihood, curves, start), chance)


def open_combs(fits: Sequence[Fit]) -> str:
    """The comb that reports hint at and do not show; empty if there is none."""
    weights = dict[str, float]()
    for fit in fits:
        for own in fit.prior.heaps:
            if own.name != EACH:
                weights[own.name] = weights.get(own.name, 0.0) + fit.weight
    likeliest = max(weights, key=lambda name: weights[name], default="")
    return likeliest if HINTED < sum(weights.values()) < SHOWN else ""
