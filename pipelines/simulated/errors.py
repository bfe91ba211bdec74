"""Errors that papers report beside those of a run with ``--truth``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Floats, KeyValuePairs, KeyValues, Numeric
from ldpbeam.estimators import Estimate
from ldpbeam.pipelines.estimates.truth import truth_of_keys
from ldpbeam.study import Summary


def errors_of_papers(
    answer: Estimate, attribute: Attribute, summary: Summary, values: NDArray[Any] | KeyValuePairs
) -> dict[str, float]:
    """Squared errors of shares and of key means, and errors of the variance and of quantiles.

    Args:
        answer: the estimate.
        attribute: its attribute.
        summary: which quantiles count.
        values: the people's values, in the attribute's unit.

    Returns:
        ``mean_squared_error`` of the shares of categories or of the frequencies of keys;
        ``key_mean_squared_error`` of the means of the keys that somebody has; for numbers ``variance`` and
        ``quantiles``, the absolute error of the variance and the mean absolute error of the quantiles.
    """
    if isinstance(values, KeyValuePairs):
        return _of_keys(answer, attribute, values)
    if answer.distribution is None:
        return {}
    if isinstance(attribute.domain, Categories):
        truth = np.bincount(values, minlength=attribute.value_buckets) / len(values)
        return {"mean_squared_error": _squared(answer.distribution, truth)}
    assert isinstance(attribute.domain, Numeric)
    errors = {}
    if answer.variance is not None:
        errors["variance"] = abs(answer.variance - float(values.var()))
    if summary.quantiles and answer.distribution.sum() > 0.0:
        edges = attribute.domain.edges(len(answer.distribution))
        estimated = metrics.quantiles(answer.distribution, edges, summary.quantiles)
        errors["quantiles"] = metrics.mean_absolute_error(estimated, np.quantile(values, summary.quantiles))
    return errors


def _of_keys(answer: Estimate, attribute: Attribute, pairs: KeyValuePairs) -> dict[str, float]:
    assert isinstance(attribute.domain, KeyValues)
    if answer.frequencies is None:
        return {}
    frequencies, owned, means = truth_of_keys(attribute.domain, pairs)
    errors = {"mean_squared_error": _squared(answer.frequencies, frequencies)}
    if answer.key_means is not None:
        errors["key_mean_squared_error"] = _squared(answer.key_means[owned], means)
    return errors


def _squared(estimate: Floats, truth: Floats) -> float:
    return float(np.mean((estimate - truth) ** 2))
