"""Means beside each other: one line per group, a dot and an interval per estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Figure, Key, Panel, Table, columns_of, table_of
from ldpbeam.charts.panels import TRUTH, colour, drawn, has_legend, keys_of, tips
from ldpbeam.charts.subject import Subject, Subset, level_of, mean_ends
from ldpbeam.schemas.outputs.records import EstimateRecord

#: This many groups are drawn, those with the most reports.
MOST_GROUPS = 20
#: The normal quantile of a 95% interval, for means that have a standard error and no interval.
_TWO_SIDED = 1.959963984540054
_COLUMNS = ("estimate", "group", "value", "low", "high")


def means(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The means of all estimates; None with several windows, and where there is only one mean."""
    records = [
        (subset, record)
        for subset, of_subset in subject.subsets.items()
        for record in of_subset
        if record.mean is not None
    ]
    if len(subject.windows) > 1 or len(records) < 2:
        return None
    subsets = list(dict.fromkeys(subset for subset, _ in records))[:MOST_GROUPS]
    rows = [
        {
            "estimate": subject.labels[record.name],
            "group": subset.group_name,
            "value": record.mean,
            **dict(zip(("low", "high"), _ends(record) or (None, None), strict=True)),
        }
        for subset, record in records
        if subset in subsets
    ]
    rows += [
        {"estimate": TRUTH, "group": subset.group_name, "value": truths[subset].mean}
        for subset in subsets
        if subset in truths and truths[subset].mean is not None
    ]
    named = {record.name for _, record in records}
    keys = keys_of(subject, named, any(row["estimate"] == TRUTH for row in rows))
    groups = [subset.group_name for subset in subsets]
    left_out = len({subset for subset, _ in records}) - len(subsets)
    return Figure(
        title=f"Mean {subject.name}" + (" by group" if len(groups) > 1 else ""),
        chart=_chart(subject.name, keys, groups),
        panels=[Panel("", {"means": columns_of(rows, _COLUMNS)})],
        summary=[_said(subset, subject.subsets[subset]) for subset in subsets],
        table=_table(records, groups),
        caption="Means are in the unit of the values. The line through each is its "
        f"{level_of(subject.records) or '95%'} interval."
        + (f" {left_out:,} with fewer reports are not drawn." if left_out else ""),
        keys=keys,
        legend=not has_legend(keys, alone=True),
    )


def _ends(record: EstimateRecord) -> tuple[float, float] | None:
    """The interval of the mean; of two standard errors if the estimate has no other."""
    if record.mean is None or record.standard_error is None:
        return mean_ends(record)
    error = _TWO_SIDED * record.standard_error
    return mean_ends(record) or (record.mean - error, record.mean + error)


def _chart(name: str, keys: Sequence[Key], groups: Sequence[str]) -> dict[str, Any]:
    tint = colour(keys, has_legend(keys, alone=True))
    labels = [key.label for key in keys]
    x = alt.X(
        "value:Q",
        title=f"mean {name}",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(tickCount=6, format=",.5~g"),
    )
    axis = alt.Axis(grid=False, labelLimit=110, ticks=False, domain=False)
    if len(groups) > 1:
        y = alt.Y("group:N", title=None, sort=list(groups), axis=axis)
    else:
        y = alt.Y("estimate:N", title=None, sort=list(labels), axis=None)
    offset = {"yOffset": alt.YOffset("estimate:N", sort=list(labels))} if len(groups) > 1 else {}
    base = alt.Chart(alt.NamedData("means"))
    shown = [
        *(["group:N"] if len(groups) > 1 else []),
        "estimate:N",
        *tips(",.4~g", ("value", "mean"), ("low", "low"), ("high", "high")),
    ]
    layers = [
        base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", y=y, color=tint, **offset),
        base.mark_circle(size=75, opacity=1).encode(x=x, y=y, color=tint, tooltip=shown, **offset),
    ]
    step = 14 * len(labels) + 8 if len(groups) > 1 else 26 * len(labels)
    return drawn(layers, step * len(groups))


def _said(subset: Subset, records: Sequence[EstimateRecord]) -> str:
    where = f"{subset}: " if str(subset) else ""
    sentences = [
        f"{record.name} {words.number(record.mean)}"
        + (f" ({words.interval(_ends(record))})" if _ends(record) else "")
        for record in records
        if record.mean is not None
    ]
    return f"{where}{words.listed(sentences)}."


def _table(records: Sequence[tuple[Subset, EstimateRecord]], groups: Sequence[str]) -> Table:
    rows = [
        {
            "group": subset.group_name if len(groups) > 1 else "",
            "estimate": record.name,
            "mean": words.number(record.mean),
            "interval": words.interval(_ends(record)),
            "reports": f"{record.reports:,}",
        }
        for subset, record in records
    ]
    return table_of(rows, ("mean", "interval", "reports"), optional=("group",))
