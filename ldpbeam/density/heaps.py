"""Heaps: more people at round values than beside them, where a domain has a step and each block is a value.

A comb is a set of values, such as the multiples of ten, whose log heights lie above the smooth curve by one
number. Values may also have a height of their own each. Multiples count from zero, in steps.
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
from ldpbeam.density.spikes import with_spikes
from ldpbeam.domains import Floats

#: A comb has at least so many teeth.
LEAST_TEETH = 3
#: The chances of combs and of heights of each value, relative to that of the smooth density.
OF_TENS, OF_FIVES, OF_ONE_DIGIT, OF_DIGITS, OF_EACH = 0.5, 0.25, 0.25, 0.05, 0.03
#: The mean and the standard deviation of a comb's log height.
MEAN, DEVIATION = 0.6, 1.0
#: Combs that are likely before there are reports. Others are left out unless they raise the log marginal
#: likelihood by ASKED: so many draws of what nobody asks for would make intervals wide.
TENS, FIVES = "multiples of 10 steps", "multiples of 5 and 10 steps"
COMMON, ASKED = (TENS, FIVES), 0.5
#: What heights of all values are called.
EACH = "each value"
#: The standard deviations of the log heights of all values, if each has its own.
OF_VALUES = (0.1, 0.3, 1.0)
#: With more blocks, these have no heights of their own.
MOST_VALUES = 256
#: Combs that move fewer people are not spoken of.
MOVED = 0.02
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
        yield comb(FIVES, 0, 5), OF_FIVES
    if blocks >= 10 * LEAST_TEETH:
        yield comb(TENS, 0), OF_TENS
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
    blocks = len(likelihood.sizes)
    heaps = (*combs(first, blocks), *((own, OF_EACH) for own in of_each(blocks)))
    # Heaps are as likely beside all smooth densities together as these are.
    many = sum(math.exp(min(fit.log_weight - smooth[0].log_weight, 0.0)) for fit in smooth)
    tried = [_beside(likelihood, smooth[0], own, many * chance) for own, chance in heaps]
    asked = smooth[0].mode.log_evidence + ASKED
    found = [fit for fit in tried if fit.prior.heaps[0].name in COMMON or fit.mode.log_evidence > asked]
    yield from found
    best = max(found, key=lambda fit: fit.log_weight, default=smooth[0])
    if spiked.prior != smooth[0].prior and spiked.log_weight > best.log_weight - HOPELESS:
        yield from (_beside(likelihood, spiked, own, chance) for own, chance in heaps)
    if best.log_weight <= smooth[0].log_weight or best.prior.heaps[0].name == EACH:
        return
    # With a comb that is found the rest may be smoother, its teeth uneven, and other values spikes.
    smoother = [
        _fit(likelihood, replace(best.prior, order=2, deviation=deviation), best.chance)
        for deviation in DEVIATIONS
    ]
    best = max((best, *smoother), key=lambda fit: fit.log_weight)
    yield from smoother
    yield from (_beside(likelihood, best, own, OF_EACH) for own in of_each(blocks))
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


def likeliest_comb(fits: Sequence[Fit]) -> tuple[str, float]:
    """The name of the likeliest comb, and the weight of all densities with heaps.

    They are "" and 0 if no comb moves MOVED of the people, or more, to other values.
    """
    combed = [fit for fit in fits if any(own.name != EACH for own in fit.prior.heaps)]
    others = [fit for fit in fits if not fit.prior.heaps]
    if not combed or not others:
        return "", 0.0
    likeliest, other = (max(own, key=lambda fit: fit.weight) for own in (combed, others))
    if 0.5 * np.abs(likeliest.mode.shares - other.mode.shares).sum() < MOVED:
        return "", 0.0
    name = next(own.name for own in likeliest.prior.heaps if own.name != EACH)
    return name, sum(fit.weight for fit in fits if fit.prior.heaps)
