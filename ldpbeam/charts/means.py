"""Means beside each other: a row for each group, or for each estimate, with a dot and its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Figure, Panel
from ldpbeam.charts.names import extent_of, row_chart, row_data
from ldpbeam.charts.panels import TRUTH, keys_of
from ldpbeam.charts.subject import Subject, Subset, level_of, mean_ends
from ldpbeam.schemas.outputs.records import EstimateRecord

#: This many means are drawn.
MOST_MEANS = 20
#: The normal quantile of a 95% interval, for means that have a standard error and no interval.
_TWO_SIDED = 1.959963984540054


def means(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The means of all groups or estimates; None with several windows, and where there is only one mean."""
    records = [
        record
        for own in subject.subsets.values()
        for record in subject.drawn([record for record in own if record.mean is not None])
    ]
    if len(subject.windows) > 1 or len(records) < 2:
        return None
    chosen = records[:MOST_MEANS]
    rows = [
        _row(subject.label(record), record.mean)
        | dict(zip(("low", "high"), ends_of(record) or (None, None), strict=True))
        for record in chosen
    ]
    true = {
        subject.label(record) if subject.by_group else TRUTH: truths[Subset.of(record)].mean
        for record in chosen
        if Subset.of(record) in truths
    }
    truth = [_row(label, mean) for label, mean in true.items() if mean is not None]
    labels = {row["estimate"] for row in rows}
    keys = keys_of(subject, labels, bool(truth) and not subject.by_group)
    extent, left_out = extent_of([*rows, *truth], shares=False), len(records) - len(chosen)
    return Figure(
        title=f"Mean {subject.name}" + (" by group" if subject.by_group else ""),
        chart=row_chart(
            f"mean {subject.name}", keys, extent, 26 * len(keys), shares=False, named=subject.by_group
        ),
        panels=[Panel("", row_data(rows, truth, extent))],
        caption=f"With {level_of(subject.records) or '95%'} intervals."
        + (f" The first {len(chosen)} of {len(records):,}." if left_out else ""),
        keys=keys,
    )


def _row(label: str, mean: float | None) -> dict[str, Any]:
    return {"estimate": label, "label": label, "value": mean}


def ends_of(record: EstimateRecord) -> tuple[float, float] | None:
    """The interval of the mean; of two standard errors if the estimate has no other."""
    if record.mean is None or record.standard_error is None:
        return mean_ends(record)
    error = _TWO_SIDED * record.standard_error
    return mean_ends(record) or (record.mean - error, record.mean + error)
