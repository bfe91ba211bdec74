"""Frequencies from unbiased shares: inversion, what makes a distribution of it, and a closed-form MLE.

The unbiased shares may be of categories, or of the bins and leaves of a numeric range (CFO with binning, HH
and HaarHRR of the square-wave paper); a bin's share is then spread evenly over its value buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from ldpbeam.attributes import Attribute
from ldpbeam.channels import DiagonalChannel
from ldpbeam.domains import Floats
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.options import AboveZero, Share
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import FrequencyMechanism, Haar, Hierarchy, RandomisedResponse, UnaryEncoding

#: From so many leaves on, what makes a distribution of their single shares misleads.
MANY_BINS = 64
#: Below, a count is no normal one.
FEW_BY_CHANCE = 10.0


def norm_sub(frequencies: ArrayLike) -> Floats:
    """The nearest distribution: negatives to zero, the rest lowered by one constant, sum 1.

    Norm-Sub (square-wave paper, section 4.1; mixture-reduction paper, appendix E) iterates; its end
    is the Euclidean projection on the simplex, computed here by sorting.
    """
    values = np.asarray(frequencies, dtype=np.float64)
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1.0) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(descending > excess)[-1]
    projected: Floats = np.maximum(values - excess[kept], 0.0)
    return projected


def norm_cut(frequencies: ArrayLike) -> Floats:
    """Negatives to zero, then the smallest to zero until the others' sum is at most 1.

    Wang et al., NDSS 2020 (Norm-Cut). The sum stays below one where the positive shares are, and the largest
    share stays even where it alone is above one.
    """
    values = np.maximum(np.asarray(frequencies, dtype=np.float64), 0.0)
    order = np.argsort(-values, kind="stable")
    within = np.cumsum(values[order]) <= 1.0 + 1e-12
    # The largest stays in any case: cutting it too would leave nothing.
    within[0] = True
    values[order[~within]] = 0.0
    return values


def norm_mul(frequencies: ArrayLike) -> Floats:
    """Negatives to zero, the rest multiplied by one constant, sum 1 (Wang et al., NDSS 2020, Norm-Mul)."""
    values = np.maximum(np.asarray(frequencies, dtype=np.float64), 0.0)
    scaled: Floats = values / values.sum()
    return scaled


def maximum_likelihood(histogram: ArrayLike, channel: DiagonalChannel) -> Floats:
    """The exact maximum-likelihood frequencies of a diagonal channel such as GRR's, by sorting and filling.

    With g = q + (p - q) f the likelihood's stationary point is g = C / mu on the categories whose f
    is above zero and g = q on the others, where mu makes g sum to one; the largest counts are the
    ones above zero.

    Args:
        histogram: counts, shape (size,), of sum above zero.
        channel: with p on its diagonal and q elsewhere.
    """
    counts = np.asarray(histogram, dtype=np.float64)
    keep, other = channel.keep, channel.other
    descending = np.sort(counts)[::-1]
    above = np.arange(1, len(counts) + 1)
    scale = np.cumsum(descending) / (1.0 - other * (len(counts) - above))
    last = np.flatnonzero(descending > other * scale)[-1]
    frequencies = np.maximum(counts / scale[last] - other, 0.0) / (keep - other)
    result: Floats = frequencies / frequencies.sum()
    return result


def spread_evenly(shares: Floats, buckets: int) -> Floats:
    """Shares of bins as those of finer value buckets, shape (buckets,)."""
    per_bin = buckets // len(shares)
    return np.repeat(shares / per_bin, per_bin)


def unbiased_shares(question: Question) -> tuple[Floats, float]:
    """Unbiased shares of the value buckets, and the variance of the share of a rare category or bin.

    Services, and versions of one, are weighted by the inverse of their variance: of the perturbation, and as
    far as they asked different people also of a share among so many, (1 - 1/bins)/bins on average.
    """
    buckets, apart = question.attribute.value_buckets, question.apart
    total, weight, noise = np.zeros(buckets), 0.0, 0.0
    for index in question.versions:
        mechanism = cast(FrequencyMechanism, question.attribute.versions[index].mechanism)
        reports = question.reports_of(index)
        sampling = apart * (1.0 - 1.0 / mechanism.bins) / mechanism.bins
        own = reports / (mechanism.frequency_variance + sampling)
        shares = mechanism.unbiased_frequencies(question.statistic.histograms[index], reports)
        total += own * spread_evenly(shares, buckets)
        weight += own
        noise += own**2 * mechanism.frequency_variance / reports
    return total / weight, noise / weight**2


def leaf_warnings(question: Question) -> tuple[str, ...]:
    """What to use of a tree's many leaves: repaired one by one, their noise is a bias of the whole."""
    mechanisms = [question.attribute.versions[index].mechanism for index in question.versions]
    if any(isinstance(m, Hierarchy | Haar) and m.bins >= MANY_BINS for m in mechanisms):
        return ("single leaves' shares are mostly noise, and repairing each biases all: use admm or ems",)
    return ()


def inversion(question: Question) -> Estimate:
    """Unbiased shares, such as (C/n - q)/(p - q) of GRR; they may be negative.

    For a hierarchy they are HH with constrained inference, for ``haar`` HaarHRR (square-wave paper, 4.2).
    """
    return question.answer_distribution("inversion", unbiased_shares(question)[0])


def norm_sub_estimate(question: Question) -> Estimate:
    """Norm-Sub of the unbiased shares; with ``binned``, CFO with binning (square-wave paper, 4.1)."""
    repaired = norm_sub(unbiased_shares(question)[0])
    return question.answer_distribution("norm_sub", repaired, warnings=leaf_warnings(question))


def norm_cut_estimate(question: Question) -> Estimate:
    """Norm-Cut of the unbiased shares; of bins, a bin as a whole."""
    shares, _ = unbiased_shares(question)
    mechanisms = [question.attribute.versions[index].mechanism for index in question.versions]
    bins = max(cast(FrequencyMechanism, mechanism).bins for mechanism in mechanisms)
    kept = norm_cut(shares.reshape(bins, -1).sum(axis=1))
    spread = spread_evenly(kept, len(shares))
    return question.answer_distribution("norm_cut", spread, warnings=leaf_warnings(question))


def norm_mul_estimate(question: Question) -> Estimate:
    """Norm-Mul of the unbiased shares; uniform where none is above zero."""
    shares = unbiased_shares(question)[0]
    if shares.max() <= 0.0:
        uniform = np.full(len(shares), 1.0 / len(shares))
        return question.answer_distribution("norm_mul", uniform, warnings=("no share is above zero",))
    return question.answer_distribution("norm_mul", norm_mul(shares), warnings=leaf_warnings(question))


def _above(question: Question, name: str, deviations: float, note: str) -> Estimate:
    """Shares at least so many standard deviations of a rare category's share; the others zero."""
    shares, variance = unbiased_shares(question)
    bins = cast(FrequencyMechanism, question.attribute.versions[question.versions[0]].mechanism).bins
    # A bin's share was spread over its buckets, and so is its threshold.
    threshold = deviations * np.sqrt(variance) * bins / len(shares)
    kept = np.where(shares >= threshold, shares, 0.0)
    warnings = leaf_warnings(question) + _few_by_chance(question)
    if not kept.any():
        warnings += (f"every share is below the threshold of {threshold:.3g}; {note}",)
    return question.answer_distribution(name, kept, warnings=warnings, details={"threshold": threshold})


def _few_by_chance(question: Question) -> tuple[str, ...]:
    """A warning where a category nobody has is reported so rarely that its share is far from normal."""
    for index in question.versions:
        mechanism = question.attribute.versions[index].mechanism
        if isinstance(mechanism, RandomisedResponse):
            expected = question.reports_of(index) * mechanism.probabilities[1]
            if expected < FEW_BY_CHANCE:
                return (
                    f"a category that nobody has is reported {expected:.2g} times by chance, too rarely for "
                    "a threshold in standard deviations: collect more reports, or use olh",
                )
    return ()


def base_cut(question: Question, *, deviations: AboveZero = 2.0) -> Estimate:
    """Base-Cut: shares below two standard deviations to zero (mixture-reduction paper, section V-A).

    Appendix E there describes Norm-Cut under this name.

    The others stay as they are, unbiased: the sum is not one.

    Args:
        question: what to estimate.
        deviations: how many standard deviations of a rare category's share.
    """
    return _above(question, "base_cut", deviations, "lower deviations, or collect more reports")


def threshold(question: Question, *, significance: Share = 0.05) -> Estimate:
    """The significance threshold: shares that are not significantly above zero, to zero.

    A share stays where a category that nobody has would reach it with probability ``significance`` in *any*
    of the categories (Bonferroni; RAPPOR, CCS 2014, section 4; Wang et al., USENIX Security 2017, section 5).

    Args:
        question: what to estimate.
        significance: the chance that any category nobody has is kept, about.
    """
    bins = cast(FrequencyMechanism, question.attribute.versions[question.versions[0]].mechanism).bins
    deviations = float(norm.isf(min(significance / bins, 0.5)))
    return _above(question, "threshold", deviations, "raise significance, or collect more reports")


def mle(question: Question) -> Estimate:
    """Maximum-likelihood frequencies in closed form: exact for GRR; for unary encodings, of their set bits.

    What a random set bit of a report says has the form of GRR; that likelihood is a composite one.
    """
    (index,) = question.versions
    mechanism = question.attribute.versions[index].mechanism
    counts = question.statistic.histograms[index]
    if not isinstance(mechanism, UnaryEncoding):
        channel = question.attribute.channel(index)
        assert isinstance(channel, DiagonalChannel)
        return question.answer_distribution("mle", maximum_likelihood(counts, channel))
    counts, channel = mechanism.set_bits(counts)
    details = {"likelihood": "composite: the set bits of a report as independent"}
    if not counts.any():
        uniform = np.full(len(counts), 1.0 / len(counts))
        warnings = ("no report has a bit set: nothing is known, and all are taken to be alike",)
        return question.answer_distribution("mle", uniform, details=details, warnings=warnings)
    return question.answer_distribution("mle", maximum_likelihood(counts, channel), details=details)


def check_frequencies(attribute: Attribute, services: Sequence[str]) -> None:
    """Every channel gives unbiased shares."""
    for index in attribute.versions_of(services):
        version = attribute.versions[index]
        if not isinstance(version.mechanism, FrequencyMechanism):
            raise ValueError(
                f"service {version.label} ({version.mechanism.name}) gives no unbiased shares of categories "
                "or bins; for numbers use ems, em or ule (distribution) or ivw (mean)"
            )


def check_bins(attribute: Attribute, services: Sequence[str]) -> None:
    """Thresholds are of bins of one size."""
    check_frequencies(attribute, services)
    found = {
        cast(FrequencyMechanism, attribute.versions[i].mechanism).bins
        for i in attribute.versions_of(services)
    }
    if len(found) > 1:
        raise ValueError(
            f"the services have bins of different sizes ({sorted(found)} bins); name one service"
        )


def check_mle(attribute: Attribute, services: Sequence[str]) -> None:
    """The closed form is for one diagonal channel."""
    check_frequencies(attribute, services)
    versions = attribute.versions_of(services)
    closed = (RandomisedResponse, UnaryEncoding)
    if len(versions) != 1 or not isinstance(attribute.versions[versions[0]].mechanism, closed):
        labels = ", ".join(attribute.versions[index].label for index in versions)
        raise ValueError(
            f"the closed form is for one service with grr (or oue, sue) and one epsilon, found {labels}; "
            "name one service, or use em"
        )
