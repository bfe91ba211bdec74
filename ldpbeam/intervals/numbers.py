"""Intervals of a number's distribution: its shares, quantiles, ranges and variance."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, Numeric, bucket_midpoints
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.answer import Parts, WantedIntervals
from ldpbeam.intervals.evidence import evidence_of
from ldpbeam.intervals.means import false_reports, has_sums, mean_interval
from ldpbeam.intervals.smooth import posterior
from ldpbeam.intervals.spread import variance_interval
from ldpbeam.mechanisms import NumericMechanism

#: How the intervals are computed, in words.
UNBIASED_SUMS = "unbiased reports and their variance, within the domain"
SMOOTH = "posterior of a smooth density"
#: With more value buckets than this, neighbours are put together.
MOST_BUCKETS = 512
#: Below this chance of a fit as bad, the reports do not come from a smooth density.
UNLIKELY = 1e-3
#: If a distribution whose roughness the reports chose explains them by so many units of log-likelihood better
#: than the smooth density, the density is not smooth. On smooth populations it was 2.1 at most (decision 36).
CLEARLY_BETTER = 4.0
NOT_SMOOTH = "the reports do not come from a smooth density: there are spikes, gaps or false reports"
#: Reports that determine fewer coefficients of the density than this leave its shape to the prior.
FEW_FEATURES = 2.5
#: Fewer independent draws than this give unsteady ends.
FEW_DRAWS = 15.0


@dataclass(frozen=True)
class Smooth:
    """What a smooth posterior says of the people who reported.

    Attributes:
        shares: draws of the shares of value buckets, shape (draws, buckets); single ones may be negative.
        mode: the likeliest shares of the density, shape (buckets,).
        per_bucket: how many of the attribute's value buckets each of these has.
        flag: why the intervals may be wrong; empty if nothing says so.
        gain: by how many units of log-likelihood other shares explain the reports better than ``mode``; a
            function of shares of the attribute's value buckets.
    """

    shares: Floats
    mode: Floats
    per_bucket: int
    flag: str
    gain: Callable[[Floats], float]


def smooth_people(question: Question) -> Smooth | None:
    """Draws of the shares of the people who reported; None if the reports have no usable likelihood.

    Given a density, a person's value has a posterior of its own. So the people's shares are normal around
    the mean of these, with the covariance that they imply.
    """
    buckets = question.attribute.value_buckets
    mechanisms = [question.attribute.versions[index].mechanism for index in question.versions]
    while (
        buckets > MOST_BUCKETS
        and buckets % 2 == 0
        and all(buckets // 2 % m.granularity == 0 for m in mechanisms)
    ):
        buckets //= 2
    evidence = evidence_of(question, buckets) if 3 <= buckets <= 4 * MOST_BUCKETS else None
    if evidence is None:
        return None
    seed = zlib.crc32(np.concatenate([question.statistic.histograms[i] for i in question.versions]).tobytes())
    rng = np.random.default_rng(seed)
    found = posterior(evidence, buckets, rng)
    root = np.linalg.cholesky(evidence.given_reports(found.mode) + 1e-13 * np.eye(buckets))
    shares = found.shares * found.slopes / evidence.total
    shares += rng.standard_normal(shares.shape) @ root.T
    flag = ""
    if evidence.misfit is not None and evidence.misfit(found.mode, found.freedom) < UNLIKELY:
        flag = NOT_SMOOTH
    elif found.freedom < FEW_FEATURES:
        flag = "the reports say little of the shape: these intervals rest on its being smooth"
    elif found.effective < FEW_DRAWS:
        flag = "the posterior is far from normal, and few draws of it count"
    per_bucket = question.attribute.value_buckets // buckets

    def gain(other: Floats) -> float:
        both = np.stack((found.mode, other.reshape(buckets, per_bucket).sum(axis=1)))
        mode, others = evidence.around(found.mode, both)[0]
        return float(others - mode)

    return Smooth(shares, found.mode, per_bucket, flag, gain)


def explain_numbers(attribute: Attribute) -> str:
    """What of a number has intervals, and how they are computed."""
    versions = attribute.versions
    biased = [own.label for own in versions if not isinstance(own.mechanism, NumericMechanism)]
    composite = [own.label for own in versions if own.mechanism.composite]
    if len(biased) == len(versions):
        kinds = f"the mean, the variance, quantiles, ranges and value buckets ({SMOOTH})"
    else:
        also = f"; with {', '.join(biased)}: {SMOOTH}" if biased else ""
        kinds = f"the mean and the variance ({UNBIASED_SUMS}{also})"
        kinds = f"{kinds}, and of quantiles, ranges and value buckets ({SMOOTH})"
    if composite:
        kinds += f"; none with {', '.join(composite)}, where each report is counted in several cells"
    return kinds


def of_distribution(question: Question, wanted: WantedIntervals) -> Parts:
    """The intervals of a number's distribution, and of its mean and variance."""
    domain = cast(Numeric, question.attribute.domain)
    smooth = smooth_people(question)
    if smooth is None:
        flags = {"distribution": "the counts have no likelihood of whole reports, so it has no intervals"}
        if not has_sums(question):
            return Parts({}, {}, flags)
        false = false_reports(question, wanted.level)
        flags |= {"mean": false} if false else {}
        return Parts({"mean": mean_interval(question, wanted.level).ends}, {"mean": UNBIASED_SUMS}, flags)
    draws, level = smooth.shares, wanted.level
    x = bucket_midpoints(draws.shape[1])
    means = draws @ x
    variances = draws @ x**2 - means**2
    shares = share_ends(draws, level, wanted.simultaneous) / smooth.per_bucket
    found: dict[str, object] = {"distribution": np.repeat(shares, smooth.per_bucket, axis=0)}
    found["mean"] = _pair(domain.from_unit(np.clip(ends(means[:, None], level), 0.0, 1.0)))
    found["variance"] = _pair(np.clip(ends(variances[:, None], level), 0.0, 0.25) * domain.width**2)
    if wanted.quantiles:
        found["quantiles"] = domain.from_unit(ends(quantile_draws(draws, wanted.quantiles), level))
    if wanted.ranges:
        below = np.column_stack((np.zeros(len(draws)), np.cumsum(draws, axis=1)))
        edges = domain.edges(draws.shape[1])
        inside = [[_between(own, edges, *ends_of) for ends_of in wanted.ranges] for own in below]
        found["ranges"] = np.clip(ends(np.array(inside), level), 0.0, 1.0)
    methods = dict.fromkeys(found, SMOOTH)
    if has_sums(question):
        found["mean"], methods["mean"] = mean_interval(question, level).ends, UNBIASED_SUMS
        variance = variance_interval(question, smooth.mode, level)
        if variance is not None:
            found["variance"], methods["variance"] = variance, UNBIASED_SUMS
    flags = {name: smooth.flag for name, method in methods.items() if smooth.flag and method == SMOOTH}
    false = false_reports(question, level) if has_sums(question) else ""
    if false:
        flags |= dict.fromkeys(methods, false)
    return Parts(found, methods, flags, smooth.gain)


def not_smooth(parts: Parts, distribution: Floats) -> dict[str, str]:
    """Flags for what assumes a smooth density, if a distribution shows that it is not smooth.

    Args:
        parts: the intervals of a number.
        distribution: one whose roughness the reports chose, shape (value buckets,).
    """
    if parts.gain is None or parts.gain(distribution) <= CLEARLY_BETTER:
        return {}
    return {name: NOT_SMOOTH for name, method in parts.methods.items() if method == SMOOTH}


def _pair(two: ArrayLike) -> tuple[float, float]:
    low, high = np.ravel(two)
    return float(low), float(high)


def _between(below: Floats, edges: Floats, low: float, high: float) -> float:
    under, over = np.interp([low, high], edges, below)
    return float(over - under)


def ends(draws: Floats, level: float) -> Floats:
    """The two ends of each column's draws, shape (columns, 2)."""
    tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    found: Floats = np.quantile(draws, tails, axis=0).T
    return found


def share_ends(draws: Floats, level: float, simultaneous: bool) -> Floats:
    """The ends of each share, shape (shares, 2), within [0, 1].

    Simultaneous ends reach as many standard deviations from the mean as hold that part of the draws whole.
    """
    if simultaneous:
        mean, error = draws.mean(axis=0), draws.std(axis=0) + 1e-300
        reach = float(np.quantile((np.abs(draws - mean) / error).max(axis=1), level))
        reach = max(reach, float(ndtri(0.5 + 0.5 * level)))
        found = np.column_stack((mean - reach * error, mean + reach * error))
    else:
        found = ends(draws, level)
    clipped: Floats = np.clip(found, 0.0, 1.0)
    return clipped


def quantile_draws(draws: Floats, levels: Sequence[float]) -> Floats:
    """Quantiles on [0, 1] of each draw of shares, as in ``metrics``, shape (draws, levels)."""
    below = np.cumsum(draws, axis=1)
    reached = np.maximum.accumulate(below, axis=1)
    buckets, each = draws.shape[1], np.arange(len(draws))
    found = np.empty((len(draws), len(levels)))
    for place, level in enumerate(levels):
        target = level * below[:, -1]
        bucket = np.minimum((reached < target[:, None]).sum(axis=1), buckets - 1)
        held = draws[each, bucket]
        before = below[each, bucket] - held
        inside = np.where(held > 0.0, (target - before) / np.where(held > 0.0, held, 1.0), 0.0)
        found[:, place] = (bucket + np.clip(inside, 0.0, 1.0)) / buckets
    return found
