"""The priors that are tried for numbers: smooth densities; then those with holes, ends, edges and spikes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ldpbeam.density.atoms import with_atoms
from ldpbeam.density.averaging import Family, Fit, average, by_evidence, tried, weigh
from ldpbeam.density.heaps import with_heaps
from ldpbeam.density.likelihoods import Likelihood
from ldpbeam.density.priors import Prior
from ldpbeam.density.spikes import with_spikes
from ldpbeam.domains import Floats

#: The deviations of each order, ascending. With the first, hardly more than the polynomial remains; the last
#: allows all detail that the largest samples can show.
DEVIATIONS: dict[int, Floats] = {
    1: 2.0 ** np.arange(-3.0, 6.5, 1.0),
    2: 2.0 ** np.arange(0.0, 14.5, 1.5),
    3: 2.0 ** np.arange(2.0, 22.0, 2.0),
}


def _of(order: int, chance: float, **options: object) -> Family:
    return Family([Prior(order, float(deviation), **options) for deviation in DEVIATIONS[order]], chance)  # type: ignore[arg-type]


#: The log density is smooth, or the density is, or the density goes like a power towards the ends.
SMOOTH = (_of(1, 2.0), _of(2, 8.0), _of(3, 4.0), _of(2, 4.0, scale="plain"), _of(2, 4.0, ends=True))
#: The search for spikes starts from the likeliest of these smooth log densities.
BELOW_SPIKES = (Prior(2, 8.0), Prior(2, 64.0))
#: Spikes are also tried beside atoms at the ends, if these raise the log weight by this.
CLEARLY = 2.0
#: The parts of the range below which a density may have nobody, or above which, from the other end.
BEGINNINGS = np.array([2.0, 4.0, 6.0, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0]) / 256.0
#: The deviations of densities that begin or end inside the range. The first is that of the search for where.
EDGE_DEVIATIONS = 2.0 ** np.array([3.0, 0.0, 6.0, 9.0])
#: The prior chance of all edges together is that of powers towards the ends of the range.
EDGE_CHANCE = 4.0 / (2 * len(BEGINNINGS))
#: The search stops this far below the best evidence: the part of the range that is left out has people.
BEYOND = 6.0
#: The midpoints between the likeliest place and its neighbours are tried while a neighbour is more than
#: FINEST of the range away, and a neighbour's log evidence is lower by AS_LIKELY.
AS_LIKELY, FINEST = 1.0, 1.0 / 512.0


def numbers(likelihood: Likelihood, first: int | None = None) -> tuple[Fit, ...]:
    """The priors of numbers that are not hopeless, weighted by their marginal likelihoods.

    Args:
        likelihood: the likelihood of the reports.
        first: the first value, counted in steps from zero, if blocks are the values of a domain with a step;
            else None.
    """
    fits = [fit for family in SMOOTH for fit in tried(likelihood, family)]
    logs = [fit for fit in fits if fit.prior.scale == "log" and not fit.prior.ends]
    smooth = [fit for fit in logs if fit.prior in BELOW_SPIKES] or logs
    likeliest, atoms = _best(smooth), list(with_atoms(likelihood, _best(logs), (*SMOOTH[1:3], SMOOTH[4])))
    spiked = list(with_spikes(likelihood, likeliest))
    fits += [*atoms, *spiked]
    if first is not None:
        base = _best([fit for fit in fits if fit.prior.scale == "log" and not fit.prior.spikes])
        without = [base, *(fit for fit in fits if not fit.prior.spikes and fit is not base)]
        fits += with_heaps(likelihood, without, _best([likeliest, *spiked]), first)
    if _best(atoms).log_weight > likeliest.log_weight + CLEARLY:
        fits += with_spikes(likelihood, _best(atoms))
    fits += _edges(likelihood, _best(fits).log_weight)
    return by_evidence(fits)


def _best(fits: Sequence[Fit]) -> Fit:
    return max(fits, key=lambda fit: fit.log_weight)


def first_answer(likelihood: Likelihood) -> Floats:
    """A distribution near the average over all priors, from one family alone, shape (blocks,)."""
    return average(weigh(likelihood, [SMOOTH[1]]))


def _edges(likelihood: Likelihood, without: float) -> Iterator[Fit]:
    """Densities that begin inside the range; then those with the likeliest beginning that end inside it.

    Args:
        likelihood: the likelihood of the reports.
        without: the log weight of the likeliest density without an edge.
    """
    support = (0.0, 1.0)
    for end in (0, 1):
        fits: dict[float, Fit] = {}
        for part in BEGINNINGS.tolist():
            fits[part] = fit = _edge(likelihood, _cut(support, end, part), EDGE_CHANCE)
            if fit.mode.log_evidence < fits[_likeliest(fits)].mode.log_evidence - BEYOND:
                break
        likeliest, chance = fits[_likeliest(fits)], EDGE_CHANCE
        while likeliest.log_weight > without and (between := _nearer(fits)):
            chance /= 2.0
            fits |= {part: _edge(likelihood, _cut(support, end, part), chance) for part in between}
            likeliest = fits[_likeliest(fits)]
        yield from fits.values()
        priors = [replace(likeliest.prior, deviation=float(deviation)) for deviation in EDGE_DEVIATIONS[1:]]
        yield from tried(likelihood, Family(priors, likeliest.chance))
        support, without = likeliest.prior.support, max(without, likeliest.log_weight)


def _nearer(fits: Mapping[float, Fit]) -> list[float]:
    """The midpoints between the likeliest part of the range and its neighbours among those tried.

    Empty if the neighbours are near, or as likely: then the reports do not show where the edge is.
    """
    likeliest = _likeliest(fits)
    below = max((part for part in fits if part < likeliest), default=0.0)
    above = min((part for part in fits if part > likeliest), default=likeliest)
    least = fits[likeliest].mode.log_evidence - AS_LIKELY
    if all(fits[part].mode.log_evidence > least for part in (below, above) if part in fits):
        return []
    return [(part + likeliest) / 2.0 for part in (below, above) if abs(part - likeliest) > FINEST]


def _likeliest(fits: Mapping[float, Fit]) -> float:
    """The part of the range without which the density makes the reports likeliest."""
    return max(fits, key=lambda part: fits[part].mode.log_evidence)


def _cut(support: tuple[float, float], end: int, part: float) -> tuple[float, float]:
    """The support without a part of the range at one end."""
    return (part, support[1]) if end == 0 else (support[0], 1.0 - part)


def _edge(likelihood: Likelihood, support: tuple[float, float], chance: float) -> Fit:
    prior = Prior(2, float(EDGE_DEVIATIONS[0]), ends=True, support=support)
    return next(tried(likelihood, Family([prior], chance)))
