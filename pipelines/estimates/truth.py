"""Comparing estimates with true values from a file of people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, KeyValuePairs, KeyValues, Numeric, Vector
from ldpbeam.estimators import Estimate
from ldpbeam.pipelines.clients.people import People
from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.study import Study, attribute_of
from ldpbeam.windows import EVERYTHING, Bounds, Span


def errors_of(
    solved: SolvedEstimate, study: Study, people: People, span: Span = EVERYTHING
) -> dict[str, float]:
    """The errors of an estimate, compared with the true values of people.

    If the file has times or groups, only the people of the estimate's window and group are compared,
    otherwise all people. The merged groups beyond the cap are not compared.

    Args:
        solved: the estimate.
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
    attribute, answer = study.attribute(solved.attribute), solved.answer
    chosen = people_of(solved.window or (span.start, span.stop), solved.group, study, people)
    if solved.other_groups or not chosen.any():
        return {}
    if isinstance(people.values, KeyValuePairs):
        return _key_errors(answer, attribute, people.values.chosen(np.flatnonzero(chosen)))
    values = people.values[chosen]
    if values.ndim == 2:
        values = values[:, coordinate_of(study, solved.attribute)]
    truth: NDArray[Any]
    found: dict[str, float] = {}
    shares = answer.distribution
    if shares is not None and isinstance(attribute.domain, Numeric):
        truth = attribute.domain.histogram(values, attribute.buckets) / len(values)
        found["wasserstein"] = metrics.wasserstein(shares, truth, attribute.domain.width)
        found["kolmogorov_smirnov"] = metrics.kolmogorov_smirnov(shares, truth)
        if shares.min() >= 0:
            found["jensen_shannon"] = metrics.jensen_shannon(shares, truth)
    elif shares is not None:
        truth = np.bincount(values, minlength=attribute.value_buckets) / len(values)
        found["mean_absolute_error"] = metrics.mean_absolute_error(shares, truth)
        uniform = np.full(len(truth), 1.0 / len(truth))
        found["uniform_guess"] = metrics.mean_absolute_error(uniform, truth)
    if answer.mean is not None:
        found["mean"] = answer.mean - float(values.mean())
    return found


def coordinate_of(study: Study, name: str) -> int:
    """The place of a vector's coordinate, from its name ``attribute.coordinate``."""
    domain = study.attribute(attribute_of(name)).domain
    assert isinstance(domain, Vector)
    return domain.coordinates.index(name.partition(".")[2])


def _key_errors(answer: Estimate, attribute: Attribute, pairs: KeyValuePairs) -> dict[str, float]:
    assert isinstance(attribute.domain, KeyValues)
    if answer.frequencies is None:
        return {}
    frequencies, owned, means = truth_of_keys(attribute.domain, pairs)
    found = {"mean_absolute_error": metrics.mean_absolute_error(answer.frequencies, frequencies)}
    if answer.key_means is not None:
        found["key_mean_error"] = metrics.mean_absolute_error(answer.key_means[owned], means)
    return found


def truth_of_keys(domain: KeyValues, pairs: KeyValuePairs) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """The true frequencies of keys, which keys somebody has, and the true means of these.

    Returns:
        (frequencies, shape (keys,); owned, shape (keys,); means in the domain's unit, shape (owned keys,)).
    """
    owners = np.bincount(pairs.keys, minlength=domain.size)
    owned = owners > 0
    totals = np.bincount(pairs.keys, pairs.values, domain.size)
    return owners / pairs.people, owned, domain.values.from_unit(totals[owned] / owners[owned])


def people_of(window: Bounds | None, group: str | None, study: Study, people: People) -> NDArray[np.bool_]:
    """Which people are of a window and a group, as far as the file has times and groups."""
    chosen = np.ones(people.count, dtype=np.bool_)
    if people.times is not None and window is not None:
        chosen &= ~Span(*window).outside(people.times)
    if people.groups is not None and study.groups is not None:
        own = pc.equal(pc.fill_null(people.groups, ""), group or "")
        chosen &= own.to_numpy(zero_copy_only=False)
    return chosen
