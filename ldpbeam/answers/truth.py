"""True values of people, as an estimate of them would be without noise, and the errors of estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam import metrics
from ldpbeam.answers.people import People
from ldpbeam.domains import Floats, KeyValuePairs, KeyValues, Numeric, Vector
from ldpbeam.estimators import Estimate
from ldpbeam.pair_answer import Axis, PairAnswer
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study, Summary, attribute_of
from ldpbeam.transforms.candidates import names_of
from ldpbeam.windows import EVERYTHING, Bounds, Span


@dataclass(frozen=True)
class Truth:
    """The true values of the people of a window and group.

    Attributes:
        people: how many they are, one or more.
        values: their values in the attribute's unit, shape (people,), or pairs of keys and values.
        mean: their mean; None for categories and keys.
        shares: the share of people in each value bucket, of each category, or who have each key.
        key_means: the mean value of each key, NaN for a key that nobody has; None but for keys.
    """

    people: int
    values: NDArray[Any] | KeyValuePairs
    mean: float | None
    shares: Floats
    key_means: Floats | None = None

    def centre(self, name: str) -> float | None:
        """The mean or the median of numbers."""
        return self.mean if name == "mean" else float(np.median(np.asarray(self.values, np.float64)))


def truth_of(
    study: Study, name: str, window: Bounds | None, group: str | None, people: People
) -> Truth | None:
    """The truth of an attribute in a window and a group, as far as the file has times and groups.

    Args:
        study: the study.
        name: the attribute, or ``attribute.coordinate`` of a vector.
        window: the event times, in epoch milliseconds; None for all.
        group: the group; None for people without one.
        people: the people.

    Returns:
        None if nobody is of them, or the places of candidates have no names in the window.
    """
    chosen = np.ones(people.count, dtype=np.bool_)
    if people.times is not None and window is not None:
        chosen &= ~Span(*window).outside(people.times)
    if people.groups is not None and study.groups is not None:
        in_group = pc.equal(pc.fill_null(people.groups, ""), group or "")
        chosen &= in_group.to_numpy(zero_copy_only=False)
    count = int(chosen.sum())
    if not count:
        return None
    attribute = study.attribute(name)
    if isinstance(people.values, KeyValuePairs):
        assert isinstance(attribute.domain, KeyValues)
        return _of_keys(attribute.domain, people.values[np.flatnonzero(chosen)])
    values = people.values[chosen]
    if values.ndim == 2:
        vector = study.attribute(attribute_of(name)).domain
        assert isinstance(vector, Vector)
        values = values[:, vector.coordinates.index(name.partition(".")[2])]
    if isinstance(attribute.domain, Numeric):
        shares = attribute.domain.histogram(values, attribute.value_buckets) / count
        return Truth(count, values, float(values.mean()), shares)
    shares = np.bincount(values, minlength=attribute.value_buckets) / count
    if study.described(name).candidates is not None:
        candidates = names_of(study, name, window)
        # The truth of a roll-up is that of places which had other names in each of its windows.
        if candidates is None:
            return None
        shares = candidates.of_names(shares)
    return Truth(count, values, None, shares)


def _of_keys(domain: KeyValues, pairs: KeyValuePairs) -> Truth:
    owners = np.bincount(pairs.keys, minlength=domain.size)
    owned = owners > 0
    means = np.full(domain.size, np.nan)
    means[owned] = domain.values.from_unit(
        np.bincount(pairs.keys, pairs.values, domain.size)[owned] / owners[owned]
    )
    return Truth(len(pairs), pairs, None, owners / len(pairs), means)


def errors_of(
    record: EstimateRecord, study: Study, people: People, span: Span = EVERYTHING
) -> dict[str, float]:
    """The errors of an estimate, compared with the true values of people.

    If the file has times or groups, only the people of the estimate's window and group are compared,
    otherwise all people. The merged groups beyond the cap are not compared.

    Args:
        record: the estimate.
        study: its study.
        people: the people.
        span: the event times of the reports of an estimate without a window.

    Returns:
        ``wasserstein`` (in the attribute's unit), ``kolmogorov_smirnov``, ``jensen_shannon`` or, for
        categories, ``mean_absolute_error``, beside that of the uniform guess; for keys with values
        ``mean_absolute_error`` of their frequencies and ``key_mean_error``, the mean |error| of the means of
        the keys that somebody has; ``mean`` is the signed error of the mean. Empty if there is nobody to
        compare with.
    """
    window = record.window or (span.start, span.stop)
    truth = None if record.other_groups else truth_of(study, record.attribute, window, record.group, people)
    if truth is None:
        return {}
    attribute, errors = study.attribute(record.attribute), dict[str, float]()
    if record.distribution is not None and isinstance(attribute.domain, Numeric):
        shares = np.asarray(record.distribution)
        edges = attribute.domain.edges(len(shares))
        wide = np.diff(edges) if attribute.domain.scale else None
        errors["wasserstein"] = metrics.wasserstein(shares, truth.shares, edges[-1] - edges[0], wide)
        errors["kolmogorov_smirnov"] = metrics.kolmogorov_smirnov(shares, truth.shares)
        if shares.min() >= 0:
            errors["jensen_shannon"] = metrics.jensen_shannon(shares, truth.shares)
    elif record.frequencies is not None:
        errors["mean_absolute_error"] = metrics.mean_absolute_error(record.frequencies, truth.shares)
        if truth.key_means is None:
            uniform = np.full(len(truth.shares), 1.0 / len(truth.shares))
            errors["uniform_guess"] = metrics.mean_absolute_error(uniform, truth.shares)
        elif record.key_means is not None:
            owned = truth.shares > 0
            means = np.asarray(record.key_means)[owned]
            errors["key_mean_error"] = metrics.mean_absolute_error(means, truth.key_means[owned])
    if record.mean is not None and truth.mean is not None:
        errors["mean"] = record.mean - truth.mean
    return errors


def errors_of_pair(pair: PairAnswer, first: NDArray[Any], second: NDArray[Any]) -> dict[str, float]:
    """The errors of the answer for a pair, by the values of both attributes of the same people.

    Returns:
        ``conditional_shares``: the mean |error| of the shares of groups of one attribute in groups of the
        other, of both, weighted by people; and ``correlation``, the signed error, of two numbers.
    """
    errors = list[float]()
    for part, given, of in zip(pair.given, (first, second), (second, first), strict=True):
        joint = np.zeros((len(part.given), len(part.of)))
        np.add.at(joint, (_groups(part.given, given), _groups(part.of, of)), 1.0)
        people = joint.sum(axis=1)
        true = joint / np.maximum(people, 1.0)[:, None]
        off = np.abs(np.reshape(part.shares.value, joint.shape) - true).mean(axis=1)
        errors.append(float(np.average(off, weights=people)))
    by_kind = {"conditional_shares": float(np.mean(errors))}
    if pair.correlation is not None:
        by_kind["correlation"] = pair.correlation.value[0] - float(np.corrcoef(first, second)[0, 1])
    return by_kind


def _groups(axis: Axis, values: NDArray[Any]) -> NDArray[np.int64]:
    """The group of each value."""
    return values if axis.edges is None else np.searchsorted(axis.edges[1:-1], values, side="right")


def errors_of_papers(answer: Estimate, summary: Summary, truth: Truth, domain: object) -> dict[str, float]:
    """The errors that papers report beside those of :func:`errors_of`.

    Args:
        answer: the estimate.
        summary: which quantiles count.
        truth: the true values.
        domain: the domain of the attribute.

    Returns:
        ``mean_squared_error`` of the shares of categories or of the frequencies of keys;
        ``key_mean_squared_error`` of the means of the keys that somebody has; for numbers ``variance`` and
        ``quantiles``, the absolute error of the variance and the mean absolute error of the quantiles.
    """
    errors: dict[str, float] = {}
    if not isinstance(domain, Numeric):
        shares = answer.distribution if truth.key_means is None else answer.frequencies
        if shares is not None:
            errors["mean_squared_error"] = float(np.mean((shares - truth.shares) ** 2))
        if shares is not None and truth.key_means is not None and answer.key_means is not None:
            owned = truth.shares > 0
            squares = (answer.key_means[owned] - truth.key_means[owned]) ** 2
            errors["key_mean_squared_error"] = float(np.mean(squares))
        return errors
    assert not isinstance(truth.values, KeyValuePairs)
    if answer.distribution is None:
        return {}
    if answer.variance is not None:
        errors["variance"] = abs(answer.variance - float(truth.values.var()))
    if summary.quantiles and answer.distribution.sum() > 0.0:
        estimated = metrics.quantiles_in(domain, answer.distribution, summary.quantiles)
        method: Any = "linear" if domain.step is None else "inverted_cdf"
        true = np.quantile(truth.values, summary.quantiles, method=method)
        errors["quantiles"] = metrics.mean_absolute_error(estimated, true)
    return errors
