"""Intervals of a number's distribution: its shares, quantiles, ranges and variance."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.special import gammaincc, ndtri

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.certainty import Ends, Intervals, by_condition
from ldpbeam.density.atoms import HIGH, LOW
from ldpbeam.density.averaging import average, by_evidence
from ldpbeam.density.draws import DRAWS, draws, freedom, of_people
from ldpbeam.density.heaps import MOST_VALUES, open_combs
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators.auto.counted import fine_buckets
from ldpbeam.estimators.auto.joined import is_joined
from ldpbeam.estimators.auto.numbers import by_bucket, fit
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.answer import UNBIASED_SUMS, WantedIntervals, each_level
from ldpbeam.intervals.blurred import blurred_shares
from ldpbeam.intervals.flags import UNEXPLAINED
from ldpbeam.intervals.if_smooth import if_smooth
from ldpbeam.intervals.liars import NO_BOUND
from ldpbeam.intervals.means import has_sums, mean_interval
from ldpbeam.intervals.spread import variance_interval
from ldpbeam.intervals.strict import NOT_NAMED, STRICT, cdf_places, named_numbers, strict_intervals
from ldpbeam.mechanisms import NumericMechanism
from ldpbeam.over_time.joined_windows import JoinedCells
from ldpbeam.over_time.variance_by_user import added_noise

#: How the intervals are computed, in words.
SMOOTH = "posterior of a smooth density, widened"
#: The same if there are too few draws for the level.
ALL_DRAWS = "all draws from the posterior of a smooth density, widened"
#: What is added if the density has no height per value.
MANY_VALUES = f"; of over {MOST_VALUES} values, one differs from its neighbours only as a spike or a heap"
#: Why there are no intervals.
COMPOSITE = "none: each report is counted in several cells, so the counts have no likelihood of whole reports"
TOO_LARGE = "none: the reports are of too many kinds for a matrix"
#: If the p-value of the fit is below this, none of the densities explains the reports.
UNLIKELY = 1e-3
#: A report bucket with a lower expected count is left out of the test of fit.
FEW = 5.0
#: A spike has more than this many times the share of its neighbours, and of a bucket of an even distribution.
SPIKE = 4.0
#: The number of draws of densities with atoms at both ends.
OF_ATOMS = 80
#: The draws of an open comb may lie outside an interval this many times as often as other draws.
FEWER = 2.0
#: At least BEYOND draws lie outside each end of an interval, unless this takes more than MOST_DRAWS in all.
BEYOND, MOST_DRAWS = 6, 2_400


@dataclass(frozen=True)
class People:
    """The posterior of the people who reported.

    Attributes:
        shares: draws of the shares of equal parts of the range, shape (draws, parts); single ones may be
            negative.
        combs: the same for each comb that the reports do not exclude, shape (combs, draws, parts).
        buckets: draws of the shares of value buckets, shape (draws, value buckets).
        at_ends: the same if each end of the range has an atom, shape (draws, value buckets); None if no such
            density was tried.
        centre: the mean distribution over equal parts of value buckets, shape (fine parts,).
        flag: why the model may be wrong; empty if nothing suggests it.
    """

    shares: Floats
    combs: Floats
    buckets: Floats
    at_ends: Floats | None
    centre: Floats
    flag: str


def people_of(question: Question, level: float) -> People | None:
    """Draws of the shares of the people who reported; None if the reports have no usable likelihood.

    A histogram that counts each report in several cells has no likelihood of whole reports. If windows are
    joined by user, the draws spread more widely, by the dependence between each user's reports.
    """
    fitted = None if any(mechanism.composite for mechanism in question.mechanisms) else fit(question)
    if fitted is None:
        return None
    rng = np.random.default_rng(zlib.crc32(np.concatenate(question.histograms).tobytes()))
    likelihood, centre = fitted.likelihood, average(fitted.fits)
    wanted = min(max(DRAWS, round(2.0 * BEYOND / (1.0 - level))), MOST_DRAWS)
    density = draws(likelihood, fitted.fits, rng, many=wanted)
    with_atoms = [fit for fit in fitted.fits if {LOW, HIGH} <= set(fit.prior.spikes)]
    if with_atoms:
        density = np.hstack((density, draws(likelihood, by_evidence(with_atoms), rng, many=OF_ATOMS)))
    at_ends, combed = density.shape[1] - wanted, open_combs(fitted.fits)
    with_combs = [draws(likelihood, by_evidence(own), rng, many=wanted // 3) for own in combed]
    density = np.hstack((density, *with_combs))
    shares = of_people(likelihood, density, centre, rng, total=fitted.total, people=fitted.people).T
    attribute, joined = question.attribute, question.statistic.joined
    if not is_joined(question) and joined is None:
        # The likelihood treats two reports of one user as those of two people.
        each = dict.fromkeys(question.versions, 1.0 / question.reports)
        uneven = question.repeats * float(question.unevenness(each))
        if uneven * question.reports > 1e-9:
            root, normal = np.sqrt(centre), rng.standard_normal(shares.shape)
            shares = shares + np.sqrt(uneven) * (normal * root - (normal @ root)[:, None] * centre)
    fine = fine_buckets(attribute)
    if isinstance(joined, JoinedCells):
        (index,) = question.versions
        channel = attribute.channel(index, fine)
        probabilities = channel.dense() @ by_bucket(density.T, likelihood, fine).T
        factor = question.noise_factor(index)
        shares = shares + added_noise(joined, probabilities, density.T, factor, rng)
    parts, determined = by_bucket(centre, likelihood, fine), freedom(fitted.fits)
    at_ends_alone = centre[[0, -1]] * (likelihood.sizes[0] == 0)
    explained = is_joined(question) or misfit(question, parts, at_ends_alone, determined) >= UNLIKELY
    buckets = by_bucket(shares, likelihood, attribute.value_buckets)
    equal, atoms = np.ptp(likelihood.sizes) == 0, buckets[wanted : wanted + at_ends]
    shares = shares if equal else by_bucket(shares, likelihood, fine)
    combs = shares[wanted + at_ends :].reshape(len(combed), wanted // 3, shares.shape[1])
    return People(
        shares[:wanted],
        combs,
        buckets[:wanted],
        atoms if len(atoms) else None,
        parts,
        "" if explained else UNEXPLAINED,
    )


def misfit(question: Question, distribution: Floats, at_ends: Floats, determined: float) -> float:
    """The p-value of a distribution's fit to the histograms.

    Args:
        question: the question that the reports answer.
        distribution: the shares of equal parts of the range, shape (parts,).
        at_ends: the shares, included in these, at the two ends of the range themselves, shape (2,).
        determined: how many numbers of the distribution were estimated from the reports.
    """
    tested, chi_square, within = 0, 0.0, distribution.copy()
    within[[0, -1]] -= at_ends
    for index in question.versions:
        factor = question.noise_factor(index)
        channel = question.attribute.channel(index, len(distribution))
        probabilities = channel.matvec(within) + question.attribute.at_ends(index) @ at_ends
        expected = probabilities * question.reports_of(index) / factor
        enough = expected >= FEW
        apart = question.statistic.histograms[index][enough] / factor - expected[enough]
        chi_square += float((apart**2 / expected[enough]).sum())
        tested += int(enough.sum()) - 1
    return float(gammaincc(0.5 * max(1.0, tested - determined), 0.5 * chi_square))


def explain_numbers(attribute: Attribute) -> str:
    """Which quantities of a numeric attribute have intervals, and how the intervals are computed."""
    versions = attribute.versions
    scaled = cast(Numeric, attribute.domain).scale is not None
    biased = [v.label for v in versions if scaled or not isinstance(v.mechanism, NumericMechanism)]
    composite = [version.label for version in versions if version.mechanism.composite]
    if len(biased) == len(versions):
        kinds = f"the mean and the variance (if people are spread smoothly: {SMOOTH})"
    else:
        also = f"; with {', '.join(biased)}, if people are spread smoothly: {SMOOTH}" if biased else ""
        kinds = f"the mean and the variance ({UNBIASED_SUMS}{also})"
    kinds = (
        f"{kinds}; of quantiles, ranges and the distribution function ({STRICT}); and if people are spread "
        f"smoothly, of these and of value buckets ({SMOOTH})"
    )
    if composite:
        kinds += f"; none with {', '.join(composite)}, where each report is counted in several cells"
    return kinds


def of_distribution(question: Question, wanted: WantedIntervals) -> Intervals:
    """The intervals of a number's distribution, and of its mean and variance."""
    domain, level = cast(Numeric, question.attribute.domain), wanted.level
    of_mean = replace(wanted, level=each_level(level, named_numbers(wanted, domain), wanted.named_only))
    of_sums = mean_interval(question, of_mean) if has_sums(question) else Intervals(level)
    of_sums = replace(of_sums, level=level)
    people = people_of(question, level)
    if people is None:
        composite = any(mechanism.composite for mechanism in question.mechanisms)
        return replace(
            of_sums, methods=of_sums.methods | {"if_smooth": COMPOSITE if composite else TOO_LARGE}
        )
    certain, shares = strict_intervals(question, wanted), people.shares
    x = domain.middles(shares.shape[1])
    means = shares @ x
    variances = shares @ x**2 - means**2
    model, middle = ends(np.column_stack((means, variances)), level)
    if domain.scale is not None:
        # A value can be anywhere in its bucket, and buckets may be wide.
        edges = (domain.edges(shares.shape[1]) - domain.low) / domain.width
        (low, _), (_, high) = ends(np.column_stack((shares @ edges[:-1], shares @ edges[1:])), level)[0]
        model[0] = low, high
    of_mean, of_variance = if_smooth(model, middle)
    of_shares = share_ends(people.buckets, level, wanted.simultaneous)
    buckets = np.clip(if_smooth(*of_shares, certain.of("distribution")), 0.0, 1.0)
    if people.at_ends is not None:
        # An atom that the reports do not show is unlikely, but not impossible.
        most = share_ends(people.at_ends, level, wanted.simultaneous)[0][:, 1]
        buckets[[0, -1], 1] = np.maximum(buckets[[0, -1], 1], most[[0, -1]])
    smooth = {
        "mean": domain.at(np.clip(of_mean, 0.0, 1.0)),
        "variance": np.clip(of_variance, 0.0, 0.25) * domain.width**2,
        "distribution": buckets,
    }
    if (bounds := certain.of("mean")) is not None:
        smooth["mean"] = np.clip(smooth["mean"], *bounds[0])
    at, _, parts = cdf_places(domain)
    below = _with_combs(lambda drawn: _below(drawn, parts), people, level)
    smooth["cdf"] = np.clip(if_smooth(*below, certain.of("cdf")), 0.0, 1.0)
    if wanted.quantiles:
        smooth["quantiles"] = _quantiles(people, wanted, domain, certain.of("quantiles"))
    if wanted.ranges:
        inside = _with_combs(
            lambda drawn: np.column_stack(
                [metrics.share_in(domain, drawn, low, high) for low, high in wanted.ranges]
            ),
            people,
            level,
        )
        smooth["ranges"] = np.clip(if_smooth(*inside, certain.of("ranges")), 0.0, 1.0)
    sums = dict(of_sums.ends.get("certain", {}))
    if "mean" in sums:
        del smooth["mean"]
        if is_joined(question):
            # A user's reports together say more than their sums.
            smooth["mean"] = if_smooth(domain.at(model[:1]), domain.at(middle[:1]), sums["mean"].columns)
        unknown = wanted.liars or wanted.named_only
        variance = None if unknown else variance_interval(question, people.centre, level)
        if variance is not None:
            del smooth["variance"]
            sums["variance"] = Ends.of(variance)
    how = SMOOTH if 0.5 * (1.0 - level) * MOST_DRAWS >= 1.0 else ALL_DRAWS
    how += MANY_VALUES if domain.count > MOST_VALUES else ""
    methods = dict.fromkeys(sums, UNBIASED_SUMS) | certain.methods | {"if_smooth": how}
    held = of_sums.ends | certain.ends | by_condition(if_smooth=smooth)
    held["certain"] = sums | certain.ends.get("certain", {})
    flags = of_sums.flags or ({"if_smooth": people.flag} if people.flag else {})
    if wanted.liars or wanted.named_only:
        methods["variance"] = NO_BOUND if wanted.liars else NOT_NAMED
    blurred = {} if wanted.liars else blurred_shares(question)
    return replace(of_sums, ends=held, at=at.tolist(), blurred=blurred, methods=methods, flags=flags)


def _quantiles(people: People, wanted: WantedIntervals, domain: Numeric, certain: Floats | None) -> Floats:
    """The ends of quantiles if people are spread smoothly, in the domain's unit, shape (quantiles, 2)."""
    shares = people.shares.mean(axis=0)
    unit, bounds = np.linspace(0.0, 1.0, len(shares) + 1), certain
    model = _with_combs(lambda drawn: metrics.quantiles(drawn, unit, wanted.quantiles), people, wanted.level)
    if domain.step is None:
        bounds = None if certain is None else domain.to_unit(certain)
        values = domain.from_unit(whole_buckets(np.clip(if_smooth(*model, bounds), 0.0, 1.0), shares))
    else:
        start, width = domain.low - 0.5 * domain.step, domain.step * domain.count
        if certain is not None:
            # A part of the range stands for its value.
            bounds = (certain + 0.5 * domain.step * np.array([-1.0, 1.0]) - start) / width
        places = start + width * np.clip(if_smooth(*model, bounds), 0.0, 1.0)
        values = metrics.value_below(places, start, domain.step)
    return values if certain is None else np.clip(values, certain[:, :1], certain[:, 1:])


def _with_combs(numbers: Callable[[Floats], Floats], people: People, level: float) -> tuple[Floats, Floats]:
    """The ends of numbers computed from the draws, shape (numbers, 2), and their middles.

    The intervals also contain most draws under each open comb: a range that ends beside a tooth of a comb may
    be wrong by a whole tooth, however small the comb's weight.
    """
    held, middle = ends(numbers(people.shares), level)
    intervals = [held, *(ends(numbers(drawn), level - (1.0 - level) * FEWER)[0] for drawn in people.combs)]
    lows, highs = np.moveaxis(np.array(intervals), -1, 0)
    return np.column_stack((np.min(lows, axis=0), np.max(highs, axis=0))), middle


def _below(shares: Floats, parts: Floats) -> Floats:
    """The share of people below each place of [0, 1], shape (draws, places)."""
    below = np.cumsum(np.column_stack((np.zeros(len(shares)), shares)), axis=1)
    buckets = shares.shape[1] * parts
    whole = np.minimum(buckets.astype(int), shares.shape[1] - 1)
    return np.asarray(below[:, whole] + (buckets - whole) * shares[:, whole])


def ends(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """The two ends of each column's draws, shape (columns, 2), and their middle, shape (columns,)."""
    tails = [0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level]
    # One more draw would lie between these ends with probability ``level``.
    low, middle, high = np.quantile(draws, tails, axis=0, method="weibull")
    return np.column_stack((low, high)), middle


def whole_buckets(quantiles: Floats, shares: Floats) -> Floats:
    """Ends of quantiles on [0, 1], shape (quantiles, 2), moved to include whole end buckets and spikes.

    A quantile may be anywhere in these: at an end of the range, the density may have a pole.

    Args:
        quantiles: the ends.
        shares: the mean shares of equal buckets, shape (buckets,).
    """
    beside = 0.5 * (np.append(shares[1:], 0.0) + np.append(0.0, shares[:-1]))
    whole = shares > SPIKE * np.maximum(beside, 1.0 / len(shares))
    whole[[0, -1]] = True
    places = len(shares) * quantiles
    buckets = np.clip(places.astype(int), 0, len(shares) - 1)
    return np.asarray(np.where(whole[buckets], buckets + [0, 1], places) / len(shares))


def share_ends(draws: Floats, level: float, simultaneous: bool) -> tuple[Floats, Floats]:
    """The ends of each share, shape (shares, 2), and its middle, within [0, 1].

    Simultaneous ends are equally many standard deviations from the means, so many that the part ``level`` of
    the draws lies between all of them.
    """
    bounds, middle = ends(draws, level)
    if simultaneous:
        mean, error = draws.mean(axis=0), draws.std(axis=0) + 1e-300
        farthest = (np.abs(draws - mean) / error).max(axis=1)
        reach = float(np.quantile(farthest, level, method="weibull"))
        reach = max(reach, float(ndtri(0.5 + 0.5 * level)))
        bounds = np.column_stack((mean - reach * error, mean + reach * error))
    return np.clip(bounds, 0.0, 1.0), np.clip(middle, 0.0, 1.0)
