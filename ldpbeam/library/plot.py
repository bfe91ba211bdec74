"""Charts of estimates, with Altair: step areas for numbers, sorted bars for categories, dots for keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from ldpbeam.domains import Categories, Domain, KeyValues
from ldpbeam.schemas.outputs.estimates import SolvedEstimate
from ldpbeam.schemas.outputs.tables import estimates_table, shares_table
from ldpbeam.study import Study

#: Colours that people with any colour vision tell apart (Okabe and Ito, 2008).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
#: A bar chart shows at most so many of the most frequent categories.
MOST_BARS = 30
#: Panels of windows and groups stand next to each other, so many in a row.
ACROSS = 3
#: The normal quantile of a 95% interval, for means that have a standard error and no interval.
_TWO_SIDED = 1.959963984540054

Row = dict[str, Any]


def chart(study: Study, estimates: Sequence[SolvedEstimate]) -> alt.TopLevelMixin:
    """A chart of estimates, one below the other for each attribute; means without a distribution come last.

    Raises:
        ValueError: if no estimate has anything to show.
    """
    charts = []
    for name in dict.fromkeys(own.attribute for own in estimates):
        parts = _of_attribute(study, name, [own for own in estimates if own.attribute == name])
        if parts:
            charts.append(_below(parts))
    if not charts:
        raise ValueError("there is nothing to show: no estimate has a distribution, frequencies or a mean")
    # Estimates of different attributes may have one name: each attribute has colours of its own.
    return charts[0] if len(charts) == 1 else _below(charts).resolve_scale(color="independent")


def _below(charts: Sequence[alt.TopLevelMixin]) -> alt.TopLevelMixin:
    """Charts one below the other."""
    if len(charts) == 1:
        return charts[0]
    return alt.vconcat(*charts).resolve_scale(yOffset="independent")


def _of_attribute(study: Study, name: str, estimates: Sequence[SolvedEstimate]) -> list[alt.TopLevelMixin]:
    """The charts of an attribute: of its distributions or frequencies, and of means without these."""
    colour = _colour([one.name for one in estimates])
    found = []
    shares = _rows(shares_table(study, estimates))
    if shares:
        found.append(_of_shares(name, study.attribute(name).domain, shares, colour))
    only = {one.name for one in estimates if one.answer.distribution is None}
    means = [
        _with_ends(row)
        for row in _rows(estimates_table(study, estimates))
        if row["mean"] is not None and row["estimate"] in only
    ]
    if means:
        found.append(_of_means(name, means, colour))
    return found


def _rows(table: pa.Table) -> list[Row]:
    """The rows of a table, each with the panel that shows it; values that are missing are left out."""
    rows: list[Row] = []
    for row in table.to_pylist():
        window, group = row.pop("window_start"), row["group"]
        if row["other_groups"]:
            group = f"{row['other_groups']} more"
        place = [part for part in (window and f"{window:%Y-%m-%d %H:%M}", group) if part]
        rows.append({"panel": ", ".join(place), **{k: v for k, v in row.items() if k in _SHOWN}})
    return rows


_SHOWN = (
    "estimate", "low", "high", "label", "share", "share_low", "share_high", "key_mean", "key_mean_low",
    "key_mean_high", "mean", "mean_low", "mean_high", "standard_error",
)  # fmt: skip


def _of_shares(name: str, domain: Domain, rows: list[Row], colour: alt.Color) -> alt.TopLevelMixin:
    if isinstance(domain, KeyValues):
        return _panels(_dots(name, domain, rows, colour), rows)
    if isinstance(domain, Categories):
        return _panels(_bars(name, rows, colour), _most_frequent(rows))
    return _panels(_areas(name, rows, colour), _closed(rows))


def _panels(drawn: alt.LayerChart, rows: list[Row]) -> alt.TopLevelMixin:
    """The chart, or one panel for each window and group; the scales are shared, so that panels compare."""
    data = alt.InlineData(values=rows)
    if len({row["panel"] for row in rows}) == 1:
        return drawn.properties(data=data, width=480, height=260)
    panel = alt.Facet("panel:N", title=None, sort=list(dict.fromkeys(row["panel"] for row in rows)))
    return drawn.properties(width=220, height=160).facet(panel, data=data, columns=ACROSS)


def _colour(estimates: Sequence[str]) -> alt.Color:
    """A colour for each estimate of an attribute, the same in all its charts."""
    names = list(dict.fromkeys(estimates))
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    scale = alt.Scale(domain=names, range=colours)
    return alt.Color(
        "estimate:N", scale=scale, title="estimate", legend=alt.Legend(orient="top", symbolOpacity=1)
    )


def _areas(name: str, rows: list[Row], colour: alt.Color) -> alt.LayerChart:
    """Step areas of the shares of value buckets, and a band between the ends of their intervals."""
    place = alt.X("low:Q", title=name, scale=alt.Scale(nice=False))
    base = alt.Chart()
    marks = [
        base.mark_area(interpolate="step-after", opacity=0.15, line={"strokeWidth": 1.2}).encode(
            x=place,
            y=alt.Y("share:Q", title="share of people in the bucket", stack=None),
            color=colour,
            tooltip=["estimate:N", "low:Q", "high:Q", alt.Tooltip("share:Q", format=".3%")],
        )
    ]
    if any(row["share_low"] is not None for row in rows):
        marks.append(
            base.mark_area(interpolate="step-after", opacity=0.3).encode(
                x=place, y=alt.Y("share_low:Q"), y2="share_high:Q", color=colour
            )
        )
    return alt.layer(*marks)


def _closed(rows: list[Row]) -> list[Row]:
    """The rows, and one more at the upper end of each distribution, where its last step ends."""
    ends = {(row["panel"], row["estimate"]): {**row, "low": row["high"]} for row in rows}
    return [*rows, *ends.values()]


def _bars(name: str, rows: list[Row], colour: alt.Color) -> alt.LayerChart:
    """Bars of the shares of categories, sorted by share, with a rule between the ends of their intervals."""
    order = alt.EncodingSortField(field="share", op="max", order="descending")
    place = alt.Y("label:N", title=name, sort=order)
    beside = alt.YOffset("estimate:N")
    base = alt.Chart()
    marks = [
        base.mark_bar().encode(
            y=place,
            yOffset=beside,
            x=alt.X("share:Q", title="share of people", axis=alt.Axis(format="%")),
            color=colour,
            tooltip=["estimate:N", "label:N", alt.Tooltip("share:Q", format=".2%")],
        )
    ]
    if any(row["share_low"] is not None for row in rows):
        marks.append(
            base.mark_rule(strokeWidth=1.5).encode(
                y=place, yOffset=beside, x="share_low:Q", x2="share_high:Q", color=alt.value("#333333")
            )
        )
    return alt.layer(*marks)


def _most_frequent(rows: list[Row]) -> list[Row]:
    """The rows of the categories whose largest share is among the :data:`MOST_BARS` largest."""
    largest: dict[str, float] = {}
    for row in rows:
        largest[row["label"]] = max(row["share"], largest.get(row["label"], row["share"]))
    chosen = {*sorted(largest, key=lambda label: -largest[label])[:MOST_BARS]}
    return [row for row in rows if row["label"] in chosen]


def _dots(name: str, domain: KeyValues, rows: list[Row], colour: alt.Color) -> alt.LayerChart:
    """A dot for each key: how many people have it, and the mean of its values; rules for their intervals."""
    share = alt.X("share:Q", title="share of people who have the key", axis=alt.Axis(format="%"))
    scale = alt.Scale(domain=[domain.values.low, domain.values.high])
    mean = alt.Y("key_mean:Q", title=f"mean {name}", scale=scale)
    base = alt.Chart()
    tooltip = ["estimate:N", "label:N", alt.Tooltip("share:Q", format=".2%"), "key_mean:Q"]
    marks = [
        base.mark_circle(size=80).encode(x=share, y=mean, color=colour, tooltip=tooltip),
        base.mark_text(align="left", dx=7, fontSize=10).encode(x=share, y=mean, text="label:N"),
    ]
    if any(row["share_low"] is not None for row in rows):
        marks.append(base.mark_rule().encode(x="share_low:Q", x2="share_high:Q", y=mean, color=colour))
    if any(row["key_mean_low"] is not None for row in rows):
        marks.append(base.mark_rule().encode(x=share, y="key_mean_low:Q", y2="key_mean_high:Q", color=colour))
    return alt.layer(*marks)


def _with_ends(row: Row) -> Row:
    """The row, with the ends of the mean's interval; of two standard errors if it has no other."""
    error = row["standard_error"]
    if row["mean_low"] is not None or error is None:
        return row
    return {
        **row,
        "mean_low": row["mean"] - _TWO_SIDED * error,
        "mean_high": row["mean"] + _TWO_SIDED * error,
    }


def _of_means(name: str, rows: list[Row], colour: alt.Color) -> alt.TopLevelMixin:
    """A dot and an interval for each mean that has no distribution, one line per window and group."""
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    base = alt.Chart().encode(color=colour)
    if len(panels) == 1:
        base = base.encode(y=alt.Y("estimate:N", title=None))
    else:
        base = base.encode(y=alt.Y("panel:N", title=None, sort=panels), yOffset="estimate:N")
    shown = alt.layer(
        base.mark_rule(strokeWidth=2).encode(x="mean_low:Q", x2="mean_high:Q"),
        base.mark_circle(size=70, opacity=1).encode(
            x=alt.X("mean:Q", title=f"mean {name}", scale=alt.Scale(zero=False)),
            tooltip=["estimate:N", "panel:N", "mean:Q", "mean_low:Q", "mean_high:Q"],
        ),
    )
    return shown.properties(data=alt.InlineData(values=rows), width=480)
