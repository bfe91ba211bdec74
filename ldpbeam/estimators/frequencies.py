"""Frequencies from unbiased shares: inversion, corrections that give a distribution, and a closed-form MLE.

Unbiased shares are of categories, or of the bins or leaves of a numeric range (CFO with binning, HH and
HaarHRR of the square-wave paper). A bin's share is divided equally among its parts: its value buckets, or its
values if the domain has a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ldpbeam.attributes import Attribute
from ldpbeam.channels import DiagonalChannel
from ldpbeam.domains import Floats, Integers, number_of_values
from ldpbeam.estimators.conjugate import nearest_shares
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.estimator import every, of_mechanisms, of_one_channel
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms import CategoricalMechanism, FrequencyMechanism
from ldpbeam.mechanisms.at_values import bins_of_values
from ldpbeam.options import AboveZero, Share

#: From this many leaves on, correcting the shares of single leaves is misleading.
MANY_BINS = 64
#: A count that is expected to be lower is not approximately normal.
FEW_BY_CHANCE = 10.0


def norm_sub(frequencies: ArrayLike) -> Floats:
    """The nearest distribution: a constant is subtracted from the shares, and negative ones become 0.

    Norm-Sub (square-wave paper, section 4.1; mixture-reduction paper, appendix E) iterates. Its limit is the
    Euclidean projection on the simplex, which this function computes by sorting.
    """
    values = np.asarray(frequencies, dtype=np.float64)
    return nearest_shares(values, np.ones(len(values)))


def norm_cut(frequencies: ArrayLike) -> Floats:
    """Set negative shares to 0, then the smallest ones, until the others sum to at most 1.

    This is Norm-Cut (Wang et al., NDSS 2020). Positive shares that sum to less than 1 stay as they are. The
    largest share is kept even if it alone exceeds 1.
    """
    values = np.maximum(np.asarray(frequencies, dtype=np.float64), 0.0)
    order = np.argsort(-values, kind="stable")
    within = np.cumsum(values[order]) <= 1.0 + 1e-12
    # Without the largest share none would be left.
    within[0] = True
    values[order[~within]] = 0.0
    return values


def norm_mul(frequencies: ArrayLike) -> Floats:
    """Set negative shares to 0 and scale the others to sum 1 (Norm-Mul; Wang et al., NDSS 2020).

    At least one share must be above zero.
    """
    values = np.maximum(np.asarray(frequencies, dtype=np.float64), 0.0)
    return np.asarray(values / values.sum())


def maximum_likelihood(histogram: ArrayLike, channel: DiagonalChannel) -> Floats:
    """The exact maximum-likelihood frequencies of a diagonal channel such as GRR's, by sorting.

    Let g = q + (p - q) f. At the maximum, g = C / mu for the categories with f above zero, which have the
    largest counts, and g = q for the others, where mu makes g sum to one.

    Args:
        histogram: counts, shape (size,), with sum above zero.
        channel: the channel, with p on its diagonal and q elsewhere.

    Returns:
        The frequencies, shape (size,), with sum 1.
    """
    counts = np.asarray(histogram, dtype=np.float64)
    keep, other = channel.keep, channel.other
    descending = np.sort(counts)[::-1]
    above = np.arange(1, len(counts) + 1)
    scale = np.cumsum(descending) / (1.0 - other * (len(counts) - above))
    last = np.flatnonzero(descending > other * scale)[-1]
    frequencies = np.maximum(counts / scale[last] - other, 0.0) / (keep - other)
    return np.asarray(frequencies / frequencies.sum())


def bins_of_parts(attribute: Attribute, bins: int) -> Integers:
    """The bin of each part, ascending, shape (parts,); no bin is empty."""
    if values := number_of_values(attribute.domain):
        return bins_of_values(values, bins)
    return np.repeat(np.arange(bins), attribute.value_buckets // bins)


def spread_evenly(shares: Floats, attribute: Attribute) -> Floats:
    """The shares of parts, shape (parts,): each bin's share divided equally among them."""
    bins = bins_of_parts(attribute, len(shares))
    return np.asarray((shares / np.bincount(bins))[bins])


def by_bin(parts: Floats, attribute: Attribute, bins: int) -> Floats:
    """The shares of bins from those of their parts, shape (bins,)."""
    starts = np.flatnonzero(np.diff(bins_of_parts(attribute, bins), prepend=-1))
    return np.add.reduceat(parts, starts)


@dataclass(frozen=True)
class ChannelShares:
    """What the reports of one channel say of shares.

    Attributes:
        index: the channel, in ``attribute.versions``.
        mechanism: its mechanism.
        reports: the number of reports.
        shares: the unbiased shares, shape (bins,).
        precision: the channel's weight: one over the variance of a rare share. That is the variance of the
            perturbation, plus ``question.apart`` times the average sampling variance of a share,
            (1 - 1/bins)/bins.
    """

    index: int
    mechanism: FrequencyMechanism
    reports: int
    shares: Floats
    precision: float


def channel_shares(question: Question) -> Iterator[ChannelShares]:
    """What each channel in use says of shares; every mechanism must give unbiased shares."""
    apart = question.apart
    for index in question.versions:
        mechanism: FrequencyMechanism = question.mechanism(index)
        reports = question.reports_of(index)
        sampling = apart * (1.0 - 1.0 / mechanism.bins) / mechanism.bins
        shares = mechanism.unbiased_frequencies(question.statistic.histograms[index], reports)
        precision = reports / (mechanism.frequency_variance + sampling)
        yield ChannelShares(index, mechanism, reports, shares, precision)


def unbiased_shares(question: Question) -> tuple[Floats, float]:
    """Unbiased shares of categories or parts of bins, and the variance of a rare category's or bin's share.

    Services and their versions are weighted by precision.
    """
    totals, weight, noise = [], 0.0, 0.0
    for channel in channel_shares(question):
        totals.append(channel.precision * spread_evenly(channel.shares, question.attribute))
        weight += channel.precision
        noise += channel.precision**2 * channel.mechanism.frequency_variance / channel.reports
    return np.sum(totals, axis=0) / weight, noise / weight**2


def leaf_warnings(question: Question) -> tuple[str, ...]:
    """A warning for trees with many leaves, where correcting every noisy leaf biases them all."""
    mechanisms: list[FrequencyMechanism] = question.mechanisms
    if any(mechanism.of_levels and mechanism.bins >= MANY_BINS for mechanism in mechanisms):
        return ("single leaves' shares are mostly noise, and repairing each biases all: use admm or ems",)
    return ()


def inversion(question: Question) -> Estimate:
    """Unbiased shares, such as (C/n - q)/(p - q) for GRR; they may be negative.

    For ``hierarchy`` this is HH with constrained inference, for ``haar`` HaarHRR (square-wave paper, section
    4.2).
    """
    return question.answer_distribution("inversion", unbiased_shares(question)[0])


def norm_sub_estimate(question: Question) -> Estimate:
    """Norm-Sub of the unbiased shares; for ``binned``, CFO with binning (square-wave paper, section 4.1)."""
    repaired = norm_sub(unbiased_shares(question)[0])
    return question.answer_distribution("norm_sub", repaired, warnings=leaf_warnings(question))


def norm_cut_estimate(question: Question) -> Estimate:
    """Norm-Cut of the unbiased shares; a bin is kept or cut as a whole."""
    shares, _ = unbiased_shares(question)
    bins = max(mechanism.bins for mechanism in question.mechanisms)
    kept = norm_cut(by_bin(shares, question.attribute, bins))
    spread = spread_evenly(kept, question.attribute)
    return question.answer_distribution("norm_cut", spread, warnings=leaf_warnings(question))


def norm_mul_estimate(question: Question) -> Estimate:
    """Norm-Mul of the unbiased shares; uniform, with a warning, if no share is above zero."""
    shares = unbiased_shares(question)[0]
    if shares.max() <= 0.0:
        uniform = np.full(len(shares), 1.0 / len(shares))
        return question.answer_distribution("norm_mul", uniform, warnings=("no share is above zero",))
    return question.answer_distribution("norm_mul", norm_mul(shares), warnings=leaf_warnings(question))


def _above(question: Question, name: str, deviations: float, note: str) -> Estimate:
    """Shares of at least ``deviations`` standard deviations of a rare category's share; 0 for the others."""
    shares, variance = unbiased_shares(question)
    bins = question.mechanisms[0].bins
    # A bin's share was divided among its parts, and so is the threshold.
    thresholds = spread_evenly(np.full(bins, deviations * np.sqrt(variance)), question.attribute)
    kept, threshold = np.where(shares >= thresholds, shares, 0.0), float(thresholds.mean())
    warnings = leaf_warnings(question) + _few_by_chance(question)
    if not kept.any():
        warnings += (f"every share is below the threshold of {threshold:.3g}; {note}",)
    return question.answer_distribution(name, kept, warnings=warnings, details={"threshold": threshold})


def _few_by_chance(question: Question) -> tuple[str, ...]:
    """A warning if reports of a category that nobody has are so rare that its share is far from normal."""
    for index, mechanism in zip(question.versions, question.mechanisms, strict=True):
        if isinstance(mechanism, CategoricalMechanism) and mechanism.names_one:
            _, q = mechanism.support_probabilities or (1.0, 1.0)
            expected = question.reports_of(index) * q
            if expected < FEW_BY_CHANCE:
                return (
                    f"a category that nobody has is reported {expected:.2g} times by chance, too rarely for "
                    "a threshold in standard deviations: collect more reports, or use olh",
                )
    return ()


def base_cut(question: Question, *, deviations: AboveZero = 2.0) -> Estimate:
    """Base-Cut: shares below two standard deviations become 0 (mixture-reduction paper, section V-A).

    The other shares stay as they are, so the sum is not one. Appendix E of the paper describes Norm-Cut under
    this name.

    Args:
        question: what to estimate.
        deviations: the threshold, in standard deviations of a rare category's share.
    """
    return _above(question, "base_cut", deviations, "lower deviations, or collect more reports")


def threshold(question: Question, *, significance: Share = 0.05) -> Estimate:
    """The significance threshold: shares that are not significantly above zero become 0.

    If nobody had any of the categories, *any* of them would reach the threshold with a probability of about
    ``significance`` (Bonferroni; RAPPOR, CCS 2014, section 4; Wang et al., USENIX Security 2017, section 5).

    Args:
        question: what to estimate.
        significance: about the probability of keeping any category that nobody has.
    """
    bins = question.mechanisms[0].bins
    deviations = -float(ndtri(min(significance / bins, 0.5)))
    return _above(question, "threshold", deviations, "raise significance, or collect more reports")


def mle(question: Question) -> Estimate:
    """Maximum-likelihood frequencies in closed form, where reports name categories (GRR, unary encodings).

    They are exact for GRR. For unary encodings the likelihood is a composite one: that of a random set bit of
    a report, whose channel has the form of GRR's.
    """
    (index,) = question.versions
    mechanism: CategoricalMechanism = question.mechanism(index)
    counts = mechanism.named(question.statistic.histograms[index])
    channel = cast(DiagonalChannel, mechanism.name_channel)
    details = {}
    if mechanism.composite:
        details["likelihood"] = "composite: the set bits of a report as independent"
    if not counts.any():
        uniform = np.full(len(counts), 1.0 / len(counts))
        warnings = ("no report names a category: nothing is known, and all are taken to be alike",)
        return question.answer_distribution("mle", uniform, details=details, warnings=warnings)
    return question.answer_distribution("mle", maximum_likelihood(counts, channel), details=details)


check_frequencies = of_mechanisms(
    FrequencyMechanism, "gives no unbiased shares of categories or bins; for numbers use ems, em or ule "
    "(distribution) or ivw (mean), for keys with values key_value",
)  # fmt: skip


def check_bins(attribute: Attribute, services: Sequence[str]) -> None:
    """Check that every channel gives unbiased shares of the same number of bins.

    Raises:
        ValueError: if a channel gives no unbiased shares, or the numbers of bins differ.
    """
    check_frequencies(attribute, services)
    sizes = {mechanism.bins for mechanism in attribute.mechanisms_of(services)}
    if len(sizes) > 1:
        raise ValueError(
            f"the services have bins of different sizes ({sorted(sizes)} bins); name one service"
        )


check_mle = every(
    check_frequencies,
    of_one_channel(
        lambda mechanism: isinstance(mechanism, CategoricalMechanism) and mechanism.name_channel is not None,
        "grr, oue, sue or subset_selection",
        "em",
    ),
)
