"""Keys with values: the share of people with each key, and the mean of its values, as in the papers.

The functions here compute means of values scaled to [0, 1]; estimates state them in the attribute's unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ldpbeam.domains import Floats, KeyValues
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.estimator import of_mechanisms
from ldpbeam.estimators.question import Question
from ldpbeam.mechanisms.key_values.mechanism import KeySums, KeyValueMechanism


def answer_keys(question: Question, name: str, frequencies: Floats, means: Floats, **parts: Any) -> Estimate:
    """An estimate of frequencies and of means on [0, 1], which it converts to the attribute's unit."""
    domain = cast(KeyValues, question.attribute.domain)
    return question.answer(name, frequencies=frequencies, key_means=domain.values.from_unit(means), **parts)


def sums_of(question: Question) -> list[KeySums]:
    """The sums of each key, for each channel in use."""
    return [
        question.mechanism(index).key_sums(question.statistic.histograms[index], question.reports_of(index))
        for index in question.versions
    ]


def unreported(question: Question) -> tuple[str, ...]:
    """A warning if there are keys that no report could have named."""
    none = int((np.sum([key_sums.asked for key_sums in sums_of(question)], axis=0) == 0.0).sum())
    return (f"{none} keys have no report at all: nothing is known of them",) if none else ()


def estimates_by_version(question: Question, versions: Sequence[int]) -> tuple[Floats, Floats]:
    """(frequencies, means on [0, 1]) of the mechanisms' estimates, shape (keys,) each.

    Channels are weighted by their precisions, separately for each key.
    """
    estimates, weights = [], []
    for index in versions:
        counts = question.statistic.histograms[index], question.reports_of(index)
        estimates.append(question.mechanism(index).key_values(*counts))
        weights.append(question.mechanism(index).precisions(*counts))
    total = np.sum(weights, axis=0)
    # For a key without reports, all channels have the same estimate: frequency 0, and the middle as the mean.
    shares = np.divide(weights, total, out=np.full(np.shape(weights), 1.0 / len(versions)), where=total > 0.0)
    frequencies, means = (shares * np.array(estimates)).sum(axis=0)
    return frequencies, means


def key_value(question: Question) -> Estimate:
    """The mechanism's unbiased frequencies and means; those of PCKV are clipped as in its paper.

    Several services, or versions of one, are weighted by their precisions, separately for each key.
    """
    frequencies, means = estimates_by_version(question, question.versions)
    return answer_keys(question, "key_value", frequencies, means, warnings=unreported(question))


check_key_value = of_mechanisms(
    KeyValueMechanism, "is not of keys with values; for numbers use ems (distribution) or ivw "
    "(mean), for categories norm_sub or em",
)  # fmt: skip
