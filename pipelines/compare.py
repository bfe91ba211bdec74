"""Estimates against the truth, where a file of true values is at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam import metrics
from ldpbeam.domains import Numeric
from ldpbeam.pipelines.people import People, true_histogram
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.times import milliseconds


def errors_of(record: Mapping[str, Any], study: Study, people: People) -> dict[str, float]:
    """How far an estimate is from the people it is about.

    People are those of the estimate's window and group, where the file says when and where they
    answered; else all of them. The groups beyond the cap are not told apart, so not compared.

    Returns:
        ``wasserstein`` (in the attribute's unit), ``kolmogorov_smirnov``, ``jensen_shannon`` or, for
        categories, ``mean_absolute_error``, beside that of the uniform guess; ``mean`` is the signed
        error of the mean. Empty where nobody is left to compare with.
    """
    attribute = study.attribute(record["attribute"])
    chosen = _chosen(record, study, people)
    if record["other_groups"] or not chosen.any():
        return {}
    truth = true_histogram(people, chosen, attribute.domain, attribute.buckets)
    truth = truth / truth.sum()
    found: dict[str, float] = {}
    if record.get("distribution") is not None and isinstance(attribute.domain, Numeric):
        shares = record["distribution"]
        found["wasserstein"] = metrics.wasserstein(shares, truth, attribute.domain.width)
        found["kolmogorov_smirnov"] = metrics.kolmogorov_smirnov(shares, truth)
        found["jensen_shannon"] = metrics.jensen_shannon(shares, truth)
    if record.get("frequencies") is not None:
        found["mean_absolute_error"] = metrics.mean_absolute_error(record["frequencies"], truth)
        uniform = np.full(len(truth), 1.0 / len(truth))
        found["uniform_guess"] = metrics.mean_absolute_error(uniform, truth)
    if record.get("mean") is not None:
        found["mean"] = record["mean"] - float(people.values[chosen].mean())
    return found


def _chosen(record: Mapping[str, Any], study: Study, people: People) -> NDArray[np.bool_]:
    chosen = np.ones(len(people.values), dtype=np.bool_)
    if people.times is not None and record["window_start"] is not None:
        chosen &= people.times >= milliseconds(record["window_start"])
        chosen &= people.times < milliseconds(record["window_end"])
    if people.groups is not None and study.groups is not None:
        own = pc.equal(pc.fill_null(people.groups, ""), record["group"] or "")
        chosen &= own.to_numpy(zero_copy_only=False)
    return chosen
