"""The priors that are tried for a number: smooth densities, densities with holes, ends, edges and spikes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ldpbeam.density.averaging import Family, Fit, average, by_evidence, tried, weigh
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.density.priors import Prior
from ldpbeam.density.spikes import with_spikes
from ldpbeam.domains import Floats

#: The deviations of each order, ascending. The first leaves only the polynomial; the last is so wide that the
#: largest samples show nothing narrower.
DEVIATIONS: dict[int, Floats] = {
    1: 2.0 ** np.arange(-3.0, 6.5, 1.0),
    2: 2.0 ** np.arange(0.0, 14.5, 1.5),
    3: 2.0 ** np.arange(2.0, 22.0, 2.0),
}


def _of(order: int, chance: float, **options: object) -> Family:
    return Family([Prior(order, float(deviation), **options) for deviation in DEVIATIONS[order]], chance)  # type: ignore[arg-type]


#: The log density is smooth, or goes like a power towards the ends; or the density itself is smooth.
SMOOTH = (_of(1, 2.0), _of(2, 8.0), _of(3, 4.0), _of(2, 4.0, scale="plain"), _of(2, 4.0, ends=True))
#: Spikes are searched on the likeliest of these smooth log densities.
BELOW_SPIKES = (Prior(2, 8.0), Prior(2, 64.0))
#: Where a density may begin, in parts of the range; it may end as far from the other end.
BEGINNINGS = np.array([2.0, 4.0, 6.0, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0]) / 256.0
#: The deviations of densities that begin or end inside of the range. The first finds where.
EDGE_DEVIATIONS = 2.0 ** np.array([3.0, 0.0, 6.0, 9.0])
#: The prior chance of all edges together is that of powers towards the ends of the range.
EDGE_CHANCE = 4.0 / (2 * len(BEGINNINGS))
#: The search stops this far below the best evidence: then the part of the range that is left out has people.
BEYOND = 6.0


def numbers(likelihood: Likelihood) -> tuple[Fit, ...]:
    """The priors of a number that are not hopeless, by their marginal likelihoods."""
    fits = [fit for family in SMOOTH for fit in tried(likelihood, family)]
    smooth = [fit for fit in fits if fit.prior in BELOW_SPIKES]
    if smooth:
        fits += with_spikes(likelihood, max(smooth, key=lambda fit: fit.log_weight))
    fits += _edges(likelihood)
    return by_evidence(fits)


def first_answer(likelihood: Likelihood) -> Floats:
    """A distribution near the average over all priors, from one family of them, shape (blocks,)."""
    return average(weigh(likelihood, [SMOOTH[1]]))


def _edges(likelihood: Likelihood) -> Iterator[Fit]:
    """Densities that begin inside of the range, and those that end there from the likeliest beginning on."""
    support = (0.0, 1.0)
    for end in (0, 1):
        best, likeliest = -np.inf, support
        for part in BEGINNINGS:
            asked = (float(part), support[1]) if end == 0 else (support[0], float(1.0 - part))
            (fit,) = _edge(likelihood, asked, EDGE_DEVIATIONS[:1])
            yield fit
            if fit.mode.log_evidence > best:
                best, likeliest = fit.mode.log_evidence, asked
            elif fit.mode.log_evidence < best - BEYOND:
                break
        yield from _edge(likelihood, likeliest, EDGE_DEVIATIONS[1:])
        support = likeliest


def _edge(likelihood: Likelihood, support: tuple[float, float], deviations: Floats) -> Iterator[Fit]:
    priors = [Prior(2, float(deviation), ends=True, support=support) for deviation in deviations]
    return tried(likelihood, Family(priors, EDGE_CHANCE))
