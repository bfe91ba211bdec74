"""Closed-form intervals of the frequencies and means of keys with values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, KeyValues
from ldpbeam.estimators.key_values.key_value import mechanism_of
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.bounded import each_level, within_one
from ldpbeam.mechanisms.key_values.mechanism import KeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv import PCKVGRR, PaddedKeyValueMechanism
from ldpbeam.mechanisms.key_values.pckv_piecewise import PCKVPM
from ldpbeam.mechanisms.key_values.privkv import MINUS, PLUS, PrivKV, PrivKVM

#: How the intervals are computed, in words.
FREQUENCIES = "unbiased frequencies and their variance, within [0, 1]"
MEANS = "Fieller's interval of a ratio of unbiased numbers, within the domain"
BIASED = "the sign of a missing key is no fair coin in later rounds"
#: More than this share of keys whose frequency is not clearly above zero is flagged.
MOST_RARE = 0.9


@dataclass(frozen=True)
class Told:
    """Unbiased numbers of each key, and their covariance; each of shape (keys,).

    Attributes:
        frequency: the share of people who have the key.
        total: the mean over all people of the value on [-1, 1], where people without the key count zero.
        of_frequency: the variance of the first.
        of_total: the variance of the second.
        of_both: their covariance.
    """

    frequency: Floats
    total: Floats
    of_frequency: Floats
    of_total: Floats
    of_both: Floats


def explain_keys(attribute: Attribute) -> str:
    """What of keys has intervals, and how they are computed."""
    biased = [
        own.label for own in attribute.versions if not _is_unbiased(cast(KeyValueMechanism, own.mechanism))
    ]
    none = f"; none with {', '.join(biased)}, where {BIASED}" if biased else ""
    return f"the frequency of every key ({FREQUENCIES}) and its mean ({MEANS}){none}"


def _is_unbiased(mechanism: KeyValueMechanism) -> bool:
    """Whether the numbers that :func:`_told` computes are unbiased."""
    later = isinstance(mechanism, PrivKVM) and mechanism.round > 1
    return isinstance(mechanism, PrivKV | PaddedKeyValueMechanism) and not later


def keys_intervals(
    question: Question, wanted: WantedIntervals
) -> tuple[dict[str, object], dict[str, str], dict[str, str]]:
    """(the parts of :class:`Intervals`, their methods, their flags) of keys with values."""
    domain = cast(KeyValues, question.attribute.domain)
    level = each_level(wanted.level, domain.size, wanted.simultaneous)
    told = [_told(mechanism_of(question, i), question, i) for i in question.versions]
    if any(own is None for own in told):
        flag = f"{BIASED}; no intervals are computed"
        return {}, {}, {"frequencies": flag, "key_means": flag}
    all_told = _weighted([own for own in told if own is not None])
    errors = np.sqrt(all_told.of_frequency)
    known = np.isfinite(errors)
    frequencies = np.tile([0.0, 1.0], (domain.size, 1))
    frequencies[known] = within_one(all_told.frequency[known], errors[known], level)
    means, rare = fieller(all_told, level)
    found: dict[str, object] = {
        "frequencies": frequencies,
        "key_means": domain.values.from_unit((1.0 + means) / 2.0),
    }
    flags = {}
    if rare.mean() > MOST_RARE:
        flags["key_means"] = f"{rare.mean():.0%} of the keys are too rare to bound their means on both sides"
    return found, {"frequencies": FREQUENCIES, "key_means": MEANS}, flags


def _told(mechanism: KeyValueMechanism, question: Question, index: int) -> Told | None:
    """What the reports of one channel say; None for a mechanism whose numbers are not unbiased."""
    histogram, reports = question.statistic.histograms[index], question.reports_of(index)
    if not _is_unbiased(mechanism):
        return None
    if isinstance(mechanism, PrivKV):
        p1, p2 = mechanism.probabilities
        counts = histogram.reshape(mechanism.size, 3).astype(np.float64)
        # The people who were asked for a key are a random part of all people.
        asked = counts.sum(axis=1)
        signs = counts[:, PLUS] - counts[:, MINUS], counts[:, PLUS] + counts[:, MINUS]
        scales = 1.0 / (2.0 * p1 - 1.0), 1.0 / (p1 * (2.0 * p2 - 1.0))
        return _unbiased(asked, *signs, signs[1], 1.0 - p1, scales, sampled=True)
    assert isinstance(mechanism, PaddedKeyValueMechanism)
    if isinstance(mechanism, PCKVPM):
        a, b = mechanism.constants
        gain = a
        counts = histogram.reshape(mechanism.size, -1)[:, 1:].astype(np.float64)
        values = mechanism.piecewise.representatives(counts.shape[1])
        sums, squares, present = counts @ values, counts @ values**2, counts.sum(axis=1)
    else:
        a, b, p = mechanism.constants  # type: ignore[attr-defined]
        gain = a * (2.0 * p - 1.0)
        if isinstance(mechanism, PCKVGRR):
            minus, plus = histogram.reshape(-1, 2)[: mechanism.size].T.astype(np.float64)
        else:
            _, plus, minus = histogram.reshape(mechanism.size, 3).T.astype(np.float64)
        sums, present = plus - minus, plus + minus
        squares = present
    scales = mechanism.padding / (a - b), mechanism.padding / gain
    return _unbiased(
        np.full(mechanism.size, float(reports)), sums, present, squares, b, scales, sampled=False
    )


def _unbiased(
    n: Floats,
    sums: Floats,
    present: Floats,
    squares: Floats,
    by_chance: float,
    scales: tuple[float, float],
    *,
    sampled: bool,
) -> Told:
    """Unbiased numbers from the counts of a key's reports and the sums of their values.

    Args:
        n: the number of reports that could have named the key, shape (keys,); zero gives infinite variances.
        sums: the sum of the reported values, shape (keys,).
        present: the number of reports that name the key, shape (keys,).
        squares: the sum of the squares of the reported values, shape (keys,).
        by_chance: the probability that the report of a person without the key names it.
        scales: what the share of reports above chance, and the mean of values, are multiplied by.
        sampled: whether the people who were asked for a key are a sample of all people.
    """
    many = np.maximum(n, 1.0)
    share, mean, square = present / many, sums / many, squares / many
    first, second = scales
    frequency, total = first * (share - by_chance), second * mean
    # Variances are those of possible shares and means, so that few reports do not have a variance of zero.
    likely = np.clip(share, by_chance, by_chance + 1.0 / first)
    has = first * (likely - by_chance)
    least = np.clip(total, -has, has)
    square = np.where(share > 0.0, square * likely / np.where(share > 0.0, share, 1.0), likely)
    of_frequency = first**2 * likely * (1.0 - likely)
    of_total = second**2 * square - least**2
    of_both = first * least * (1.0 - likely)
    if not sampled:
        # People differ in what they have, and that is what is estimated. Their values' spread is not known.
        of_frequency = of_frequency - has * (1.0 - has)
        of_total = of_total - least**2 * (1.0 / np.maximum(has, 1e-12) - 1.0)
        of_both = of_both - least * (1.0 - has)
    asked = n > 0.0
    return Told(
        frequency,
        total,
        np.where(asked, of_frequency / many, np.inf),
        np.where(asked, np.maximum(of_total, 1e-12) / many, np.inf),
        np.where(asked, of_both / many, 0.0),
    )


def _weighted(told: list[Told]) -> Told:
    """Several channels' numbers, weighted by the precision of their frequencies."""
    if len(told) == 1:
        return told[0]
    weights = np.array([1.0 / own.of_frequency for own in told])
    known = weights.sum(axis=0)
    weights = np.divide(weights, known, out=np.full(weights.shape, 1.0 / len(told)), where=known > 0.0)

    def added(name: str, power: int) -> Floats:
        parts = np.array([getattr(own, name) for own in told])
        total: Floats = np.where(weights > 0.0, weights**power * parts, 0.0).sum(axis=0)
        return total

    return Told(
        added("frequency", 1),
        added("total", 1),
        added("of_frequency", 2),
        added("of_total", 2),
        added("of_both", 2),
    )


def fieller(told: Told, level: float) -> tuple[Floats, NDArray[np.bool_]]:
    """(intervals of total / frequency within [-1, 1], shape (keys, 2), and which keys are too rare).

    The interval has every ratio m for which total - m frequency is within z standard errors of zero (Fieller,
    J. R. Statist. Soc. B 16, 1954). Where the frequency itself is within z errors of zero, the set is not
    bounded on both sides, and its hull within [-1, 1] is taken.
    """
    z = float(ndtri(0.5 + 0.5 * level))
    with np.errstate(invalid="ignore"):
        square = told.frequency**2 - z**2 * told.of_frequency
        middle = told.total * told.frequency - z**2 * told.of_both
        constant = told.total**2 - z**2 * told.of_total
        root = np.sqrt(np.maximum(middle**2 - square * constant, 0.0))
        real = middle**2 > square * constant
    clear = (square > 0.0) & (told.frequency > 0.0)
    safe = np.where(clear, square, 1.0)
    centre, reach = middle / safe, root / safe
    found = np.tile([-1.0, 1.0], (len(square), 1))
    if clear.any():
        halves = within_one((1.0 + centre[clear]) / 2.0, np.maximum(reach[clear], 1e-12) / (2.0 * z), level)
        found[clear] = 2.0 * halves - 1.0
    open_ended = ~clear & real & (square < 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        one, other = (middle + root) / square, (middle - root) / square
    low, high = np.minimum(one, other), np.maximum(one, other)
    # The ratios between these two are excluded.
    right = open_ended & (low < -1.0) & (high < 1.0) & (high > -1.0)
    left = open_ended & (high > 1.0) & (low > -1.0) & (low < 1.0)
    found[right, 0] = high[right]
    found[left, 1] = low[left]
    return found, ~clear
