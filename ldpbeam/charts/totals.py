"""The total over groups: the estimates of one window, weighted by how many people each is of.

Noise of different people is independent, so variances of sums over reports add. Of other numbers the
distances to the ends of intervals are added, which holds for any dependence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldpbeam.certainty import CERTAIN, IF_SMOOTH, Intervals, by_condition
from ldpbeam.domains import Floats
from ldpbeam.metrics import quantiles
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.rows import SCALARS

#: What a total has in place of a group.
ALL = "all groups"
#: The numbers that are weighted means of those of groups, and what else of an estimate a total has not.
_WEIGHTED = ("mean", "distribution", "frequencies")
_LEFT_OUT = ("quantiles", "ranges", "key_means", "top", "standard_error", "pair", "alarm", *SCALARS)


def with_totals(records: Sequence[EstimateRecord]) -> list[EstimateRecord]:
    """The estimates, with a total for each of several groups in a window, unless a group is called so."""
    sets: dict[object, list[EstimateRecord]] = {}
    for record in records:
        sets.setdefault((record.attribute, record.name, record.window), []).append(record)
    if any(record.group == ALL for record in records):
        return [*records]
    return [*records, *(_total(own) for own in sets.values() if len(own) > 1)]


def _total(records: Sequence[EstimateRecord]) -> EstimateRecord:
    first, people = records[0], np.array([record.users or record.reports for record in records], float)
    alike = len({(own.labels, tuple(own.bucket_edges or ())) for own in records}) == 1
    numbers = {
        part: np.array([getattr(record, part) for record in records], float)
        for part in (_WEIGHTED if alike else _WEIGHTED[:1])
        if all(getattr(record, part) is not None for record in records)
    }
    weights = people / people.sum()
    given: dict[str, Any] = dict.fromkeys((*_WEIGHTED, *_LEFT_OUT)) | {
        part: (weights @ columns).tolist() for part, columns in numbers.items()
    }
    if "distribution" in numbers and first.quantiles:
        levels = list(map(float, first.quantiles))
        values = quantiles(given["distribution"], first.bucket_edges or (), levels, first.step)
        given["quantiles"] = dict(zip(first.quantiles, values.tolist(), strict=True))
    held = [record.intervals for record in records if record.intervals is not None]
    return replace(
        first,
        **given,
        group=ALL,
        other_groups=0,
        reports=sum(record.reports for record in records),
        users=None if any(record.users is None for record in records) else int(people.sum()),
        complete=all(record.complete for record in records),
        pane_timing="early" if any(record.pane_timing == "early" for record in records) else "on_time",
        intervals=_intervals(first, held, weights, numbers) if len(held) == len(records) else None,
        warnings=(),
        notes=(),
    )


def _intervals(
    first: EstimateRecord, held: Sequence[Intervals], weights: Floats, numbers: Mapping[str, Floats]
) -> Intervals:
    ends: dict[str, dict[str, Floats]] = {CERTAIN: {}, IF_SMOOTH: {}}
    for condition, parts in ends.items():
        for part in (*numbers, *(["cdf"] if "distribution" in numbers else [])):
            if not all(part in own.ends.get(condition, {}) for own in held):
                continue
            columns = np.array([own.ends[condition][part].columns for own in held])
            if condition == CERTAIN and part in ("mean", "frequencies") and first.keys is None:
                middle = np.clip(numbers[part].reshape(len(held), -1, 1), columns[..., :1], columns[..., 1:])
                added = np.add if held[0].liars else np.hypot
                errors = added.reduce(weights[:, None, None] * np.abs(columns - middle))
                parts[part] = np.tensordot(weights, middle, 1) + errors * [-1.0, 1.0]
            else:
                parts[part] = np.tensordot(weights, columns, 1)
        if "cdf" in parts and first.quantiles:
            parts["quantiles"] = _of_quantiles(first, held[0].at, parts["cdf"], condition)
    flags = {condition: flag for own in reversed(held) for condition, flag in own.flags.items()}
    return Intervals(
        held[0].level, ends=by_condition(**ends), at=held[0].at, methods=held[0].methods, flags=flags,
        liars=held[0].liars,
    )  # fmt: skip


def _of_quantiles(first: EstimateRecord, at: Sequence[float], cdf: Floats, condition: str) -> Floats:
    """The values between which quantiles lie, as far as the shares of people up to some values tell."""
    levels, (low, high) = list(map(float, first.quantiles or ())), cdf.T
    if condition == IF_SMOOTH:
        return np.column_stack([np.interp(levels, shares, at) for shares in (high, low)])
    edges = first.bucket_edges or ()
    below = np.array([edges[0], *at])[np.searchsorted(high, levels)]
    return np.column_stack((below, np.array([*at, edges[-1]])[np.searchsorted(low, levels)]))
