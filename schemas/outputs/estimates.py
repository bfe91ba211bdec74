"""Estimates as a run writes them: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np

from ldpbeam import metrics
from ldpbeam.domains import Categories, Domain, Floats, KeyValues, Numeric
from ldpbeam.estimators import Estimate
from ldpbeam.intervals.answer import Intervals
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import MOST_GROUPS, Study, Summary
from ldpbeam.times import milliseconds, rfc3339
from ldpbeam.windows import Bounds


@dataclass(frozen=True)
class SolvedEstimate:
    """One estimate that a study asks for, with its attribute, window, group and pane.

    Attributes:
        attribute: the attribute, or ``attribute.coordinate`` of a vector.
        name: the key under ``estimates:``.
        window: (start, end) in epoch milliseconds; None if the study has no windows.
        group: the value of the study's group field; None without groups, and for the groups beyond the cap.
        other_groups: how many groups beyond the cap are added up in the estimate.
        pane_index: the number of earlier panes of the window.
        pane_timing: ``early``, ``on_time`` or ``late``.
        complete: whether no report that was read is known to be missing.
        answer: the estimator's result.
    """

    attribute: str
    name: str
    window: Bounds | None
    group: str | None
    other_groups: int
    pane_index: int
    pane_timing: str
    complete: bool
    answer: Estimate

    @classmethod
    def of(cls, snapshot: Snapshot, name: str, answer: Estimate) -> SolvedEstimate:
        """The estimate ``answer``, with the attribute, window, group and pane of its snapshot."""
        return cls(
            snapshot.attribute,
            name,
            snapshot.window,
            snapshot.group,
            snapshot.other_groups,
            snapshot.pane_index,
            snapshot.pane_timing,
            snapshot.complete,
            _warned(answer, snapshot.other_groups),
        )


def _warned(answer: Estimate, other_groups: int) -> Estimate:
    """The estimate of merged groups, with a warning if they are very many."""
    if other_groups < MOST_GROUPS:
        return answer
    warning = (
        f"about {other_groups:,} groups are estimated together: so many are probably ids or free text, see "
        f"what clients send as group. Of a partition of users with more than {MOST_GROUPS:,} groups, those "
        "with the fewest reports are merged, though they may be among the largest of all users"
    )
    return replace(answer, warnings=(*answer.warnings, warning))


def estimate_fields(study: Study, solved: SolvedEstimate, run: str | None = None) -> dict[str, Any]:
    """The fields of an Estimate record for one estimate.

    Args:
        study: the study. Its summary has the quantiles, the ranges and the number of most frequent names to
            add if the estimate has a distribution or frequencies.
        solved: the estimate.
        run: the run's name; None leaves it out.
    """
    attribute, summary = study.attribute(solved.attribute), study.described(solved.attribute).summary
    window, estimate = solved.window, solved.answer
    record: dict[str, Any] = {
        "study": study.name,
        "attribute": solved.attribute,
        "name": solved.name,
        "estimator": estimate.estimator,
        "services": list(estimate.services),
        "group": solved.group,
        "other_groups": solved.other_groups,
        "window_start": rfc3339(window[0]) if window else None,
        "window_end": rfc3339(window[1]) if window else None,
        "pane_index": solved.pane_index,
        "pane_timing": solved.pane_timing,
        "complete": solved.complete,
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
    if estimate.intervals is not None:
        record["intervals"] = _intervals(estimate.intervals, summary, "categories" in record)
    if estimate.warnings:
        record["warnings"] = list(estimate.warnings)
    if estimate.details:
        record["details"] = dict(estimate.details)
    if run is not None:
        record["run"] = run
    return record


def solved_estimate(record: Mapping[str, Any]) -> SolvedEstimate:
    """The estimate in a record that a worker wrote; the inverse of :func:`estimate_fields`.

    It has only the last log-likelihood.
    """
    start, end = record["window_start"], record["window_end"]
    of_categories = "categories" in record
    answer = Estimate(
        record["estimator"],
        tuple(record["services"]),
        record["reports"],
        record["users"],
        distribution=_array(record.get("frequencies" if of_categories else "distribution")),
        frequencies=None if of_categories else _array(record.get("frequencies")),
        key_means=_array(record.get("key_means")),
        mean=record.get("mean"),
        standard_error=record.get("standard_error"),
        variance=record.get("variance"),
        converged=record["converged"],
        n_iterations=record["n_iterations"],
        log_likelihoods=np.array([record["log_likelihood"]] if "log_likelihood" in record else []),
        warnings=tuple(record.get("warnings", ())),
        details=record.get("details", {}),
        intervals=_found_intervals(record["intervals"], of_categories) if "intervals" in record else None,
    )
    return SolvedEstimate(
        record["attribute"],
        record["name"],
        None if start is None else (milliseconds(start), milliseconds(end)),
        record["group"],
        record["other_groups"],
        record["pane_index"],
        record["pane_timing"],
        record["complete"],
        answer,
    )


#: The parts of intervals that are one pair of ends, and those that are one pair for each of many numbers.
_ONE, _MANY = ("mean", "variance"), ("ranges", "distribution", "frequencies", "key_means")


def _intervals(found: Intervals, summary: Summary, of_categories: bool) -> dict[str, Any]:
    """The record of intervals; the shares of categories are called frequencies, as in the estimate."""
    record: dict[str, Any] = {"level": found.level, "simultaneous": found.simultaneous}
    for name in _ONE:
        ends = getattr(found, name)
        if ends is not None:
            record[name] = {"low": float(ends[0]), "high": float(ends[1])}
    if found.quantiles is not None:
        record["quantiles"] = {
            f"{level:g}": {"low": float(low), "high": float(high)}
            for level, (low, high) in zip(summary.quantiles, found.quantiles, strict=True)
        }
    for name in _MANY:
        ends = getattr(found, name)
        if ends is not None:
            record[_called(name, of_categories)] = {"low": _listed(ends[:, 0]), "high": _listed(ends[:, 1])}
    record["methods"] = {_called(name, of_categories): text for name, text in found.methods.items()}
    record["flags"] = {_called(name, of_categories): text for name, text in found.flags.items()}
    return record


def _called(name: str, of_categories: bool) -> str:
    return "frequencies" if of_categories and name == "distribution" else name


def _found_intervals(record: Mapping[str, Any], of_categories: bool) -> Intervals:
    """The inverse of :func:`_intervals`."""
    parts: dict[str, Any] = {"quantiles": None}
    names = {name: name for name in (*_ONE, *_MANY)}
    if of_categories:
        names[_called("distribution", of_categories)] = names.pop("distribution")
    for told, name in names.items():
        if told in record:
            ends = record[told]
            one = name in _ONE
            parts[name] = (ends["low"], ends["high"]) if one else np.column_stack((ends["low"], ends["high"]))
    if "quantiles" in record:
        parts["quantiles"] = np.array([[own["low"], own["high"]] for own in record["quantiles"].values()])
    for part in ("methods", "flags"):
        parts[part] = {names.get(told, told): text for told, text in record[part].items()}
    return Intervals(record["level"], record["simultaneous"], **parts)


def _array(values: Sequence[float] | None) -> Floats | None:
    return None if values is None else np.array(values, dtype=np.float64)


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
