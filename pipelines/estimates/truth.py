"""Comparing estimates with true values from a file of people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, KeyValuePairs, KeyValues, Numeric, Vector
from ldpbeam.pipelines.simulated.people import People
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study, attribute_of
from ldpbeam.windows import EVERYTHING, Bounds, Span


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
    attribute = study.attribute(record.attribute)
    chosen = people_of(record.window or (span.start, span.stop), record.group, study, people)
    if record.other_groups or not chosen.any():
        return {}
    if isinstance(people.values, KeyValuePairs):
        return _key_errors(record, attribute, people.values.chosen(np.flatnonzero(chosen)))
    values = people.values[chosen]
    if values.ndim == 2:
        values = values[:, coordinate_of(study, record.attribute)]
    truth: NDArray[Any]
    errors: dict[str, float] = {}
    if record.distribution is not None and isinstance(attribute.domain, Numeric):
        shares = np.asarray(record.distribution)
        truth = attribute.domain.histogram(values, attribute.buckets) / len(values)
        errors["wasserstein"] = metrics.wasserstein(shares, truth, attribute.domain.width)
        errors["kolmogorov_smirnov"] = metrics.kolmogorov_smirnov(shares, truth)
        if shares.min() >= 0:
            errors["jensen_shannon"] = metrics.jensen_shannon(shares, truth)
    elif record.frequencies is not None:
        truth = np.bincount(values, minlength=attribute.value_buckets) / len(values)
        errors["mean_absolute_error"] = metrics.mean_absolute_error(record.frequencies, truth)
        uniform = np.full(len(truth), 1.0 / len(truth))
        errors["uniform_guess"] = metrics.mean_absolute_error(uniform, truth)
    if record.mean is not None:
        errors["mean"] = record.mean - float(values.mean())
    return errors


def coordinate_of(study: Study, name: str) -> int:
    """The place of a vector's coordinate, from its name ``attribute.coordinate``."""
    domain = study.attribute(attribute_of(name)).domain
    assert isinstance(domain, Vector)
    return domain.coordinates.index(name.partition(".")[2])


def _key_errors(record: EstimateRecord, attribute: Attribute, pairs: KeyValuePairs) -> dict[str, float]:
    assert isinstance(attribute.domain, KeyValues)
    if record.frequencies is None:
        return {}
    frequencies, owned, means = truth_of_keys(attribute.domain, pairs)
    errors = {"mean_absolute_error": metrics.mean_absolute_error(record.frequencies, frequencies)}
    if record.key_means is not None:
        errors["key_mean_error"] = metrics.mean_absolute_error(np.asarray(record.key_means)[owned], means)
    return errors


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
        in_group = pc.equal(pc.fill_null(people.groups, ""), group or "")
        chosen &= in_group.to_numpy(zero_copy_only=False)
    return chosen
