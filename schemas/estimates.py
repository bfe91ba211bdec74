"""Estimates as they are written: lines of JSON, and the same records in Avro."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

import fastavro

from ldpbeam import metrics
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Categories, Numeric
from ldpbeam.estimators import Estimate
from ldpbeam.schemas.avro import schema
from ldpbeam.schemas.snapshots import Snapshot
from ldpbeam.schemas.times import rfc3339


def estimate_record(
    study: str,
    name: str,
    attribute: Attribute,
    snapshot: Snapshot,
    estimate: Estimate,
    levels: Sequence[float],
) -> dict[str, Any]:
    """An estimate as the fields of an Estimate record.

    Args:
        study: the study's name.
        name: the key under ``estimates:``.
        attribute: what was asked.
        snapshot: what the estimate stands on.
        estimate: the answer.
        levels: which quantiles to add, where there is a distribution of numbers.
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
        "reports": estimate.reports,
        "users": estimate.users,
        "converged": estimate.converged,
        "n_iterations": estimate.n_iterations,
    }
    if len(estimate.log_likelihoods):
        record["log_likelihood"] = float(estimate.log_likelihoods[-1])
    if estimate.distribution is not None:
        shares = [float(share) for share in estimate.distribution]
        if isinstance(attribute.domain, Numeric):
            edges = attribute.domain.edges(attribute.buckets)
            found = metrics.quantiles(estimate.distribution, edges, levels)
            record["bucket_edges"] = [float(edge) for edge in edges]
            record["distribution"] = shares
            record["quantiles"] = {f"{q:g}": float(v) for q, v in zip(levels, found, strict=True)}
        elif isinstance(attribute.domain, Categories):
            record["categories"] = list(attribute.domain.names)
            record["frequencies"] = shares
    for key in ("mean", "standard_error", "variance"):
        value = getattr(estimate, key)
        if value is not None:
            record[key] = value
    if estimate.warnings:
        record["warnings"] = list(estimate.warnings)
    if estimate.details:
        record["details"] = dict(estimate.details)
    return record


def write_json_lines(stream: IO[bytes], records: Iterable[Mapping[str, Any]]) -> None:
    """One line a record."""
    for record in records:
        stream.write(json.dumps(record, allow_nan=False).encode() + b"\n")


def write_avro(stream: IO[bytes], records: Iterable[Mapping[str, Any]], sync: bytes) -> None:
    """The same records in an Avro container; details as JSON text."""
    rows = ({**record, "details": json.dumps(record.get("details", {}))} for record in records)
    fastavro.writer(stream, schema("estimate"), rows, codec="deflate", sync_marker=sync)
