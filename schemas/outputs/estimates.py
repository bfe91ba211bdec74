"""Estimates as a run writes them: JSON lines, and the same records in Avro."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

import fastavro
import numpy as np

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Domain, Floats, KeyValues, Numeric
from ldpbeam.estimators import Estimate
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Summary
from ldpbeam.times import rfc3339


def estimate_record(
    study: str,
    name: str,
    attribute: Attribute,
    snapshot: Snapshot,
    estimate: Estimate,
    summary: Summary,
) -> dict[str, Any]:
    """The fields of an Estimate record for one estimate.

    Args:
        study: the study's name.
        name: the key under ``estimates:``.
        attribute: the attribute that the estimate is about.
        snapshot: the snapshot that the estimate was computed from.
        estimate: the estimate.
        summary: which quantiles, which ranges and how many of the most frequent names to add if the
            estimate has a distribution or frequencies.
    """
    window = snapshot.window
    record: dict[str, Any] = {
        "study": study,
        "attribute": attribute.name,
        "name": name,
        "estimator": estimate.estimator,
        "services": list(estimate.services),
        "group": snapshot.group,
        "other_groups": snapshot.other_groups,
        "window_start": rfc3339(window[0]) if window else None,
        "window_end": rfc3339(window[1]) if window else None,
        "pane_index": snapshot.pane_index,
        "pane_timing": snapshot.pane_timing,
        "complete": snapshot.complete,
        "reports": estimate.reports,
        "users": estimate.users,
        "converged": estimate.converged,
        "n_iterations": estimate.n_iterations,
    }
    if len(estimate.log_likelihoods):
        record["log_likelihood"] = float(estimate.log_likelihoods[-1])
    if estimate.distribution is not None:
        record |= _distribution(attribute.domain, estimate.distribution, summary)
    if estimate.frequencies is not None and isinstance(attribute.domain, KeyValues):
        record["keys"] = list(attribute.domain.keys)
        record["frequencies"] = _listed(estimate.frequencies)
        if estimate.key_means is not None:
            record["key_means"] = _listed(estimate.key_means)
        record |= _top(attribute.domain.keys, estimate.frequencies, summary.top)
    for key in ("mean", "standard_error", "variance"):
        value = getattr(estimate, key)
        if value is not None:
            record[key] = value
    if estimate.warnings:
        record["warnings"] = list(estimate.warnings)
    if estimate.details:
        record["details"] = dict(estimate.details)
    return record


def _distribution(domain: Domain, distribution: Floats, summary: Summary) -> dict[str, Any]:
    if isinstance(domain, Categories):
        shares = {"categories": list(domain.names), "frequencies": _listed(distribution)}
        return shares | _top(domain.names, distribution, summary.top)
    assert isinstance(domain, Numeric)
    edges = domain.edges(len(distribution))
    record: dict[str, Any] = {"bucket_edges": _listed(edges), "distribution": _listed(distribution)}
    if distribution.sum() > 0:
        found = metrics.quantiles(distribution, edges, summary.quantiles)
        record["quantiles"] = {f"{q:g}": float(v) for q, v in zip(summary.quantiles, found, strict=True)}
    if summary.ranges:
        record["ranges"] = [
            {"low": low, "high": high, "share": metrics.range_share(distribution, edges, low, high)}
            for low, high in summary.ranges
        ]
    return record


def _top(names: Sequence[str], frequencies: Floats, most: int | None) -> dict[str, Any]:
    """The ``most`` most frequent names, or nothing if ``most`` is None; ties keep the order of the names."""
    if most is None:
        return {}
    order = np.argsort(-frequencies, kind="stable")[:most]
    return {"top": [{"name": names[index], "frequency": float(frequencies[index])} for index in order]}


def _listed(values: Floats) -> list[float]:
    return [float(value) for value in values]


def write_json_lines(stream: IO[bytes], records: Iterable[Mapping[str, Any]]) -> None:
    """Write each record as one line of JSON."""
    for record in records:
        stream.write(json.dumps(record, allow_nan=False).encode() + b"\n")


def write_avro(stream: IO[bytes], records: Iterable[Mapping[str, Any]], sync: bytes) -> None:
    """Write the records as an Avro container with a sync marker of 16 bytes; details are JSON text."""
    rows = ({**record, "details": json.dumps(record.get("details", {}))} for record in records)
    fastavro.writer(stream, schema("estimate"), rows, codec="deflate", sync_marker=sync)
