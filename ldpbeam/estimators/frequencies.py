"""Frequencies of categories without iteration: inversion, Norm-Sub and GRR's exact MLE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Floats
from ldpbeam.estimators.estimate import Estimate, Question
from ldpbeam.mechanisms import CategoricalMechanism, RandomisedResponse


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


def grr_maximum_likelihood(histogram: ArrayLike, mechanism: RandomisedResponse) -> Floats:
    """The exact maximum-likelihood frequencies of GRR, by sorting and filling.

    With g = q + (p - q) f the likelihood's stationary point is g = C / mu on the categories whose f
    is above zero and g = q on the others, where mu makes g sum to one; the largest counts are the
    ones above zero.

    Args:
        histogram: report counts, shape (size,), of sum above zero.
        mechanism: what the clients ran.
    """
    counts = np.asarray(histogram, dtype=np.float64)
    keep, other = mechanism.probabilities
    descending = np.sort(counts)[::-1]
    above = np.arange(1, len(counts) + 1)
    scale = np.cumsum(descending) / (1.0 - other * (len(counts) - above))
    last = np.flatnonzero(descending > other * scale)[-1]
    frequencies = np.maximum(counts / scale[last] - other, 0.0) / (keep - other)
    result: Floats = frequencies / frequencies.sum()
    return result


def _unbiased(question: Question) -> Floats:
    """Unbiased frequencies, versions weighted by the inverse of their variance."""
    total, weight = np.zeros(question.attribute.value_buckets), 0.0
    for index in question.versions:
        mechanism = cast(CategoricalMechanism, question.attribute.versions[index].mechanism)
        histogram = question.statistic.histograms[index]
        own = float(histogram.sum()) / mechanism.frequency_variance
        total += own * mechanism.unbiased_frequencies(histogram)
        weight += own
    return total / weight


def inversion(question: Question) -> Estimate:
    """Unbiased frequencies (C/n - q)/(p - q); they may be negative and sum to one.

    Services, and versions of one, are averaged with weights n / variance.
    """
    return question.answer_distribution("inversion", _unbiased(question))


def norm_sub_estimate(question: Question) -> Estimate:
    """Norm-Sub of the unbiased frequencies."""
    return question.answer_distribution("norm_sub", norm_sub(_unbiased(question)))


def mle(question: Question) -> Estimate:
    """GRR's exact maximum-likelihood frequencies, in closed form."""
    (index,) = question.versions
    mechanism = cast(RandomisedResponse, question.attribute.versions[index].mechanism)
    histogram = question.statistic.histograms[index]
    return question.answer_distribution("mle", grr_maximum_likelihood(histogram, mechanism))


def check_frequencies(attribute: Attribute, services: Sequence[str]) -> None:
    """Frequencies are of categories."""
    if not isinstance(attribute.domain, Categories):
        raise ValueError("it is for categories; for numbers use ems, em or ule (distribution) or ivw")
    for index in attribute.versions_of(services):
        version = attribute.versions[index]
        if not isinstance(version.mechanism, CategoricalMechanism):
            raise ValueError(f"service {version.label} gives no unbiased frequencies; use em")


def check_mle(attribute: Attribute, services: Sequence[str]) -> None:
    """The closed form is for one GRR channel."""
    check_frequencies(attribute, services)
    versions = attribute.versions_of(services)
    if len(versions) != 1 or not isinstance(attribute.versions[versions[0]].mechanism, RandomisedResponse):
        labels = ", ".join(attribute.versions[index].label for index in versions)
        raise ValueError(
            f"the closed form is for one service with mechanism grr and one epsilon, found {labels}; "
            "name one service, or use em"
        )
