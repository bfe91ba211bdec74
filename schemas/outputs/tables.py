"""Estimates as Arrow tables with a fixed schema: one row per estimate, and one row per share of each.

Every column is in every table, whatever the study asks for; what an estimate does not have is null. A column
that is added raises :data:`SCHEMA_VERSION`; none is renamed or removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Floats, KeyValues, Numeric
from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.study import Study

#: The version of both schemas, in the column ``schema_version``.
SCHEMA_VERSION = 1

_TIME = pa.timestamp("ms", "UTC")
_PLACE = [
    ("schema_version", pa.int32()),
    ("study", pa.string()),
    ("attribute", pa.string()),
    ("estimate", pa.string()),
    ("estimator", pa.string()),
    ("window_start", _TIME),
    ("window_end", _TIME),
    ("group", pa.string()),
    ("other_groups", pa.int64()),
    ("pane_index", pa.int64()),
    ("pane_timing", pa.string()),
    ("complete", pa.bool_()),
]
_LEVEL = pa.struct([("level", pa.float64()), ("value", pa.float64())])
_RANGE = pa.struct([("low", pa.float64()), ("high", pa.float64()), ("share", pa.float64())])

#: One row per estimate. Means, errors, variances, quantiles and ranges are in the attribute's unit.
ESTIMATES = pa.schema(
    [
        *_PLACE,
        ("services", pa.list_(pa.string())),
        ("reports", pa.int64()),
        ("users", pa.int64()),
        ("mean", pa.float64()),
        ("standard_error", pa.float64()),
        ("mean_low", pa.float64()),
        ("mean_high", pa.float64()),
        ("interval_level", pa.float64()),
        ("variance", pa.float64()),
        ("median", pa.float64()),
        ("quantiles", pa.list_(_LEVEL)),
        ("ranges", pa.list_(_RANGE)),
        ("converged", pa.bool_()),
        ("n_iterations", pa.int64()),
        ("log_likelihood", pa.float64()),
        ("warnings", pa.list_(pa.string())),
        ("details", pa.string()),
    ]
)

#: One row per value bucket (from ``low`` to ``high``), category or key (``label``). The share of a key is
#: that of the people who have it, and ``key_mean`` is the mean of its values. The ends of intervals at
#: ``interval_level`` are in the columns with ``_low`` and ``_high``.
SHARES = pa.schema(
    [
        *_PLACE,
        ("place", pa.int64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("label", pa.string()),
        ("share", pa.float64()),
        ("share_low", pa.float64()),
        ("share_high", pa.float64()),
        ("key_mean", pa.float64()),
        ("key_mean_low", pa.float64()),
        ("key_mean_high", pa.float64()),
        ("interval_level", pa.float64()),
    ]
)


def estimates_table(study: Study, estimates: Iterable[SolvedEstimate]) -> pa.Table:
    """The table :data:`ESTIMATES`."""
    return pa.Table.from_pylist([_row(study, solved) for solved in estimates], schema=ESTIMATES)


def shares_table(study: Study, estimates: Iterable[SolvedEstimate]) -> pa.Table:
    """The table :data:`SHARES`; an estimate without a distribution or frequencies has no rows."""
    return pa.concat_tables([SHARES.empty_table(), *_shares(study, estimates)])


def _place(study: Study, solved: SolvedEstimate) -> dict[str, Any]:
    start, end = solved.window or (None, None)
    return {
        "schema_version": SCHEMA_VERSION,
        "study": study.name,
        "attribute": solved.attribute,
        "estimate": solved.name,
        "estimator": solved.answer.estimator,
        "window_start": start,
        "window_end": end,
        "group": solved.group,
        "other_groups": solved.other_groups,
        "pane_index": solved.pane_index,
        "pane_timing": solved.pane_timing,
        "complete": solved.complete,
    }


def _row(study: Study, solved: SolvedEstimate) -> dict[str, Any]:
    answer, attribute = solved.answer, study.attribute(solved.attribute)
    intervals = answer.intervals
    low, high = (intervals.mean if intervals is not None else None) or (None, None)
    row = _place(study, solved) | {
        "services": list(answer.services),
        "reports": answer.reports,
        "users": answer.users,
        "mean": answer.mean,
        "standard_error": answer.standard_error,
        "mean_low": low,
        "mean_high": high,
        "interval_level": None if intervals is None else intervals.level,
        "variance": answer.variance,
        "converged": answer.converged,
        "n_iterations": answer.n_iterations,
        "log_likelihood": float(answer.log_likelihoods[-1]) if len(answer.log_likelihoods) else None,
        "warnings": list(answer.warnings),
        "details": json.dumps(dict(answer.details)),
    }
    shares = answer.distribution
    if isinstance(attribute.domain, Numeric) and shares is not None and shares.sum() > 0:
        edges, summary = attribute.domain.edges(len(shares)), study.described(solved.attribute).summary
        median, *found = metrics.quantiles(shares, edges, (0.5, *summary.quantiles)).tolist()
        row["median"] = median
        row["quantiles"] = [
            {"level": level, "value": value} for level, value in zip(summary.quantiles, found, strict=True)
        ]
        row["ranges"] = [
            {"low": start, "high": end, "share": metrics.range_share(shares, edges, start, end)}
            for start, end in summary.ranges
        ]
    return row


def _shares(study: Study, estimates: Iterable[SolvedEstimate]) -> Iterator[pa.Table]:
    for solved in estimates:
        columns = _columns(study.attribute(solved.attribute), solved)
        if columns:
            rows = len(columns["place"])
            fixed = {name: [value] * rows for name, value in _place(study, solved).items()}
            missing = {
                field.name: [None] * rows for field in SHARES if field.name not in {**fixed, **columns}
            }
            yield pa.table({**fixed, **columns, **missing}).select(SHARES.names).cast(SHARES)


def _columns(attribute: Attribute, solved: SolvedEstimate) -> dict[str, Any]:
    """The columns of one estimate's shares; none if it has no shares."""
    answer, domain = solved.answer, attribute.domain
    intervals = answer.intervals
    keyed = isinstance(domain, KeyValues)
    shares = answer.frequencies if keyed else answer.distribution
    if shares is None:
        return {}
    columns: dict[str, Any] = {"place": np.arange(len(shares)), "share": shares}
    if isinstance(domain, Numeric):
        edges = domain.edges(len(shares))
        columns |= {"low": edges[:-1], "high": edges[1:]}
    else:
        assert isinstance(domain, Categories | KeyValues)
        columns["label"] = list(domain.keys if isinstance(domain, KeyValues) else domain.names)
    if answer.key_means is not None:
        columns["key_mean"] = answer.key_means
    if intervals is not None:
        columns["interval_level"] = np.full(len(shares), intervals.level)
        columns |= _ends("share", intervals.frequencies if keyed else intervals.distribution)
        columns |= _ends("key_mean", intervals.key_means)
    return columns


def _ends(name: str, ends: Floats | None) -> dict[str, Floats]:
    return {} if ends is None else {f"{name}_low": ends[:, 0], f"{name}_high": ends[:, 1]}
