"""Closed-form intervals of the frequencies and means of keys with values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.special import ndtri

from ldpbeam.attributes import Attribute
from ldpbeam.certainty import Intervals, by_condition
from ldpbeam.domains import Floats, KeyValues
from ldpbeam.estimators.key_values.key_value import sums_of
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.answer import WantedIntervals, each_level
from ldpbeam.intervals.bounded import within_one
from ldpbeam.intervals.liars import NO_BOUND
from ldpbeam.mechanisms.key_values.mechanism import KeySums
from ldpbeam.mechanisms.key_values.pckv import PaddedKeyValueMechanism

#: How the intervals are computed, in words.
FREQUENCIES = "unbiased frequencies and their variance, within [0, 1]"
MEANS = "Fieller's interval of a ratio of unbiased numbers, within the domain"
BIASED = "in later rounds the sign of a missing key is not a fair coin"


@dataclass(frozen=True)
class KeyMoments:
    """Unbiased estimates for each key, and their covariance; each of shape (keys,).

    Attributes:
        frequency: the share of people who have the key.
        total: the mean over all people of the value on [-1, 1]; it is zero for people without the key.
        of_frequency: the variance of ``frequency``.
        of_total: the variance of ``total``.
        of_both: the covariance of both.
    """

    frequency: Floats
    total: Floats
    of_frequency: Floats
    of_total: Floats
    of_both: Floats


def explain_keys(attribute: Attribute) -> str:
    """Which quantities of keys have intervals, and how the intervals are computed."""
    biased = [version.label for version in attribute.versions if version.mechanism.round > 1]
    none = f"; none with {', '.join(biased)}, where {BIASED}" if biased else ""
    frequencies = _frequencies(version.mechanism for version in attribute.versions)
    return f"the frequency of every key ({frequencies}) and its mean ({MEANS}){none}"


def keys_intervals(question: Question, wanted: WantedIntervals) -> Intervals:
    """The intervals of keys with values."""
    domain = cast(KeyValues, question.attribute.domain)
    level = each_level(wanted.level, domain.size, wanted.simultaneous)
    biased = any(mechanism.round > 1 for mechanism in question.mechanisms)
    if biased or wanted.liars:
        why = f"none: {BIASED}" if biased else NO_BOUND
        return Intervals(wanted.level, methods=dict.fromkeys(("frequencies", "key_means"), why))
    all_told = _weighted(question)
    errors = np.sqrt(all_told.of_frequency)
    known = np.isfinite(errors)
    frequencies, largest = np.tile([0.0, 1.0], (2, domain.size, 1))
    for ends, of_each in ((frequencies, level), (largest, each_level(wanted.level, domain.size, True))):
        ends[known] = within_one(all_told.frequency[known], errors[known], of_each)
    means = domain.values.from_unit((1.0 + fieller(all_told, level)) / 2.0)
    return Intervals(
        wanted.level,
        ends=by_condition(
            certain={"frequencies": frequencies, "key_means": means}, largest={"frequencies": largest}
        ),
        methods={"frequencies": _frequencies(question.mechanisms), "key_means": MEANS},
    )


def _frequencies(mechanisms: Iterable[Any]) -> str:
    """How intervals of frequencies are computed; people with more keys than the padding count less."""
    paddings = [own.padding for own in mechanisms if isinstance(own, PaddedKeyValueMechanism)]
    few = f"; if nobody has more keys than the padding, {min(paddings)}" if paddings else ""
    return FREQUENCIES + few


def _unbiased(sums: KeySums) -> KeyMoments:
    """Unbiased estimates for each key; a key that no report could have named has infinite variances."""
    many = np.maximum(sums.asked, 1.0)
    share, mean, square = sums.present / many, sums.sums / many, sums.squares / many
    # The factors of the share of reports above chance, and of the mean of values.
    first, second = sums.padding / (sums.own - sums.other), sums.padding / (sums.own * sums.gain)
    frequency, total = first * (share - sums.other), second * mean
    # Variances are those at possible shares and means: those of few reports could otherwise be zero.
    likely = np.clip(share, sums.other, sums.other + 1.0 / first)
    has = first * (likely - sums.other)
    least = np.clip(total, -has, has)
    square = np.where(share > 0.0, square * likely / np.where(share > 0.0, share, 1.0), likely)
    of_frequency = first**2 * likely * (1.0 - likely)
    of_total = second**2 * square - least**2
    of_both = first * least * (1.0 - likely)
    if not sums.sampled:
        # Intervals are for the people who reported, so the variance of drawing people is subtracted. The
        # variance of their values is unknown, and stays.
        of_frequency = of_frequency - has * (1.0 - has)
        of_total = of_total - least**2 * (1.0 / np.maximum(has, 1e-12) - 1.0)
        of_both = of_both - least * (1.0 - has)
    asked = sums.asked > 0.0
    return KeyMoments(
        frequency,
        total,
        np.where(asked, of_frequency / many, np.inf),
        np.where(asked, np.maximum(of_total, 1e-12) / many, np.inf),
        np.where(asked, of_both / many, 0.0),
    )


def _weighted(question: Question) -> KeyMoments:
    """The estimates of all channels, weighted by the precision of their frequencies.

    Weights that count some people more than others add a sampling error. If a random part of the people is
    asked about a key, the variances already include it.
    """
    sums = sums_of(question)
    versions = [_unbiased(of_channel) for of_channel in sums]
    weights = np.array([1.0 / version.of_frequency for version in versions])
    known = weights.sum(axis=0)
    weights = np.divide(weights, known, out=np.full(weights.shape, 1.0 / len(versions)), where=known > 0.0)
    powers = np.stack([weights, weights, *[weights**2] * 3], axis=1)
    parts = np.array([astuple(version) for version in versions])
    moments = KeyMoments(*np.where(weights[:, None] > 0.0, powers * parts, 0.0).sum(axis=0))
    of_reports = {
        index: (0.0 if of_channel.sampled else 1.0) * part / question.reports_of(index)
        for index, of_channel, part in zip(question.versions, sums, weights, strict=True)
    }
    uneven, has = question.unevenness(of_reports), np.clip(moments.frequency, 0.0, 1.0)
    total = np.clip(moments.total, -has, has)
    return replace(
        moments,
        of_frequency=moments.of_frequency + uneven * has * (1.0 - has),
        # The square of a value is at most 1.
        of_total=moments.of_total + uneven * (has - total**2),
        of_both=moments.of_both + uneven * total * (1.0 - has),
    )


def fieller(sums: KeyMoments, level: float) -> Floats:
    """Intervals of total / frequency within [-1, 1], shape (keys, 2).

    The interval consists of every ratio m for which total - m frequency is within z standard errors of zero
    (Fieller, J. R. Statist. Soc. B 16, 1954). If the frequency itself is within z errors of zero, this set is
    unbounded on one side or both, and the interval is its hull within [-1, 1].
    """
    z = float(ndtri(0.5 + 0.5 * level))
    with np.errstate(invalid="ignore", divide="ignore"):
        square = sums.frequency**2 - z**2 * sums.of_frequency
        middle = sums.total * sums.frequency - z**2 * sums.of_both
        constant = sums.total**2 - z**2 * sums.of_total
        root = np.sqrt(np.maximum(middle**2 - square * constant, 0.0))
        real = middle**2 > square * constant
        centre, reach = middle / square, root / square
        low, high = np.sort([(middle + root) / square, (middle - root) / square], axis=0)
    clear = (square > 0.0) & (sums.frequency > 0.0)
    intervals = np.tile([-1.0, 1.0], (len(square), 1))
    halves = within_one((1.0 + centre[clear]) / 2.0, np.maximum(reach[clear], 1e-12) / (2.0 * z), level)
    intervals[clear] = 2.0 * halves - 1.0
    open_ended = ~clear & real & (square < 0.0)
    # The ratios between these two are the ones that are excluded.
    right = open_ended & (low < -1.0) & (high < 1.0) & (high > -1.0)
    left = open_ended & (high > 1.0) & (low > -1.0) & (low < 1.0)
    intervals[right, 0] = high[right]
    intervals[left, 1] = low[left]
    return intervals
