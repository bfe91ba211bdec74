"""Categories and keys: one row per name, sorted; a bar or a dot for the first estimate, points for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt

from ldpbeam import words
from ldpbeam.answers.truth import Truth
from ldpbeam.charts.figures import Figure, Key, Panel, Table, columns_of
from ldpbeam.charts.panels import (
    TRUTH,
    chosen_subsets,
    colour,
    drawn,
    has_legend,
    keys_of,
    most_frequent,
    tips,
)
from ldpbeam.charts.subject import STATES, Subject, Subset, by_label, level_of, many, state_of
from ldpbeam.domains import Floats
from ldpbeam.schemas.outputs.records import EstimateRecord, Numbers

#: This many names are drawn, and this many in each of several panels.
MOST_NAMES, MOST_NAMES_OF_PANELS = 30, 12
#: The table has this many names.
TABLE_ROWS = 100

Field = Literal["frequencies", "key_means"]
_COLUMNS = ("estimate", "label", "value", "low", "high")


def frequencies(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The shares of categories, or of the people who have each key; None if no estimate has any."""
    return _figure(subject, "frequencies", truths)


def key_means(subject: Subject, truths: Mapping[Subset, Truth]) -> Figure | None:
    """The mean value of each key; None if no estimate has any."""
    return _figure(subject, "key_means", truths)


def _figure(subject: Subject, field: Field, truths: Mapping[Subset, Truth]) -> Figure | None:
    subsets, left_out = chosen_subsets(subject, field)
    if not subsets:
        return None
    alone = len(subsets) == 1
    records = {
        subset: [record for record in subject.subsets[subset] if getattr(record, field) is not None]
        for subset in subsets
    }
    names = list(dict.fromkeys(record.name for chosen in records.values() for record in chosen))
    order = most_frequent(
        [by_label(chosen[0], "frequencies") for chosen in records.values()],
        MOST_NAMES if alone else MOST_NAMES_OF_PANELS,
    )
    every = len({label for chosen in records.values() for label in chosen[0].labels or ()})
    given = any(_true(truths.get(subset), field) is not None for subset in subsets)
    keys = keys_of(subject, names, given)
    of_keys = next(iter(records.values()))[0].keys is not None
    if every > len(order):
        where = "" if alone else ", those that are most frequent in any chart"
        left_out = [f"The {len(order)} most frequent of {every:,} are drawn{where}.", *left_out]
    panels = [
        Panel(
            "" if alone else str(subset),
            _data(subject, chosen, order, field, truths.get(subset)),
            STATES.get(state_of(chosen[0]), ""),
        )
        for subset, chosen in records.items()
    ]
    return Figure(
        title=_title(subject.name, field, of_keys),
        chart=_chart(subject.name, order, keys, field, alone, of_keys, _extent(panels, field)),
        panels=panels,
        summary=[_sentence(subset, chosen[0], field) for subset, chosen in records.items()],
        table=_table(records, names, field, alone),
        caption=" ".join([_caption(records[subsets[0]], field, of_keys), *left_out]),
        keys=keys,
        legend=len(keys) > 1 and not has_legend(keys, alone),
    )


def _extent(panels: Sequence[Panel], field: Field) -> tuple[float, float]:
    """The ends of the axis, the same in all panels."""
    values = [
        value
        for panel in panels
        for columns in panel.data.values()
        for name in ("value", "low", "high")
        for value in columns[name]
        if value is not None
    ]
    low, high = min(values), max(values)
    room = 0.02 * (high - low) or 0.01
    return (min(low - room, 0.0) if low < 0 else 0.0) if field == "frequencies" else low - room, high + room


def _title(name: str, field: Field, of_keys: bool) -> str:
    if field == "key_means":
        return f"Mean {name} of each key"
    return f"Who has which key of {name}" if of_keys else f"Shares of {name}"


def _data(
    subject: Subject,
    records: Sequence[EstimateRecord],
    order: Sequence[str],
    field: Field,
    truth: Truth | None,
) -> dict[str, Any]:
    """The rows of the first estimate, of the others, and of the truth."""
    first, others = records[0], records[1:]
    rows = {"main": _rows(subject, first, order, field), "others": []}
    for record in others:
        rows["others"] += _rows(subject, record, order, field)
    true = _true(truth, field)
    by_name = {} if true is None else dict(zip(first.labels or (), true.tolist(), strict=True))
    rows["truth"] = [
        {"estimate": TRUTH, "label": label, "value": by_name[label]}
        for label in order
        if label in by_name and by_name[label] == by_name[label]
    ]
    return {name: columns_of(columns, _COLUMNS) for name, columns in rows.items()}


def _rows(
    subject: Subject, record: EstimateRecord, order: Sequence[str], field: Field
) -> list[dict[str, Any]]:
    values, ends = by_label(record, field), many(record, field)
    index = {label: number for number, label in enumerate(values)}
    return [
        {
            "estimate": subject.labels[record.name],
            "label": label,
            "value": values[label],
            "low": ends.low[index[label]] if ends else None,
            "high": ends.high[index[label]] if ends else None,
        }
        for label in order
        if label in values
    ]


def _values(record: EstimateRecord, field: Field) -> Numbers:
    values: Numbers = getattr(record, field)
    return values


def _true(truth: Truth | None, field: Field) -> Floats | None:
    if truth is None:
        return None
    return truth.shares if field == "frequencies" else truth.key_means


def _chart(
    name: str,
    order: Sequence[str],
    keys: Sequence[Key],
    field: Field,
    alone: bool,
    of_keys: bool,
    extent: tuple[float, float],
) -> dict[str, Any]:
    """Bars (dots for keys) of the first estimate, its intervals, points of the others, ticks of the truth."""
    shares = field == "frequencies"
    title = ("share of people who have it" if of_keys else "share of people") if shares else f"mean {name}"
    x = alt.X(
        "value:Q",
        title=title,
        axis=alt.Axis(format="~%" if shares else ",.5~g", tickCount=5, grid=True),
        scale=alt.Scale(domain=list(extent), nice=alone, zero=shares),
    )
    axis = alt.Axis(grid=False, labelLimit=110, labelOverlap=False, domain=False, ticks=False)
    y = alt.Y("label:N", title=None, axis=axis, sort=None)
    tint = colour(keys, has_legend(keys, alone))
    spelled = ".3~%" if shares else ".4~g"
    shown = ["label:N", "estimate:N", *tips(spelled, ("value", "value"))]
    with_ends = [*shown, *tips(spelled, ("low", "low"), ("high", "high"))]
    main = alt.Chart(alt.NamedData("main"))
    mark = (
        main.mark_circle(size=85, opacity=1)
        if of_keys
        else main.mark_bar(height={"band": 0.62}, opacity=0.75)
    )
    layers = [
        mark.encode(x=x, y=y, color=tint, tooltip=with_ends),
        main.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y),
        alt.Chart(alt.NamedData("others"))
        .mark_point(size=34, strokeWidth=1.75, opacity=1)
        .encode(x=x, y=y, color=tint, tooltip=shown),
        alt.Chart(alt.NamedData("truth"))
        .mark_tick(thickness=2.5, size=17)
        .encode(x=x, y=y, color=tint, tooltip=shown),
    ]
    return drawn(layers, max(60, (24 if alone else 19) * len(order)))


def _sentence(subset: Subset, record: EstimateRecord, field: Field) -> str:
    """The three largest, in words."""
    where = str(subset)
    names, values, ends = record.labels or (), _values(record, field), many(record, field)
    spell = words.percent if field == "frequencies" else words.number
    order = sorted(range(len(values)), key=lambda index: -values[index])[:3]
    parts = [
        f"{names[index]}: {spell(values[index])}"
        + (f" ({spell(ends.low[index])} to {spell(ends.high[index])})" if ends else "")
        for index in order
    ]
    what = "the most frequent are" if field == "frequencies" else "the highest means are"
    return f"{words.opened(where, 'by')} {record.name}, {what} {words.listed(parts)}."


def _caption(records: Sequence[EstimateRecord], field: Field, of_keys: bool) -> str:
    mark = "Dots" if of_keys else "Bars"
    parts = [f"{mark} show {records[0].name}, and circles the other estimates."] if len(records) > 1 else []
    if many(records[0], field) is not None:
        parts.append(f"The line through each is its {level_of(records)} interval.")
    return " ".join(parts)


def _table(
    records: Mapping[Subset, Sequence[EstimateRecord]], names: Sequence[str], field: Field, alone: bool
) -> Table:
    """One row per name, most frequent first, and one column per estimate."""
    spell = words.percent if field == "frequencies" else words.number
    columns = [*([] if alone else ["where"]), "name", *names]
    rows = []
    for subset, records_of_subset in records.items():
        first, by_name = records_of_subset[0], {record.name: record for record in records_of_subset}
        values = {name: by_label(record, field) for name, record in by_name.items()}
        most = TABLE_ROWS if alone else MOST_NAMES_OF_PANELS
        for label in most_frequent([by_label(first, "frequencies")], most):
            cells = [spell(values[name][label]) if name in values else "" for name in names]
            rows.append([*([] if alone else [str(subset)]), label, *cells])
    return Table(columns, rows, frozenset(names))
