"""What all charts share: which panels are drawn, and a colour for each estimate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import altair as alt

from ldpbeam.charts.figures import Key
from ldpbeam.charts.subject import Subject, Subset

#: A chart's own legend has this many keys; the page wraps longer ones.
MOST_IN_LEGEND = 4
#: The label of true values.
TRUTH = "the truth"


def chosen_subsets(subject: Subject, field: str) -> tuple[list[Subset], list[str]]:
    """The windows and groups that have panels, and a sentence on those that have none.

    The latest windows come first, and in them the groups with the most reports.
    """
    subsets = [
        subset
        for subset, records in subject.subsets.items()
        if any(getattr(record, field) is not None for record in records)
    ]
    if len(subsets) <= subject.most_panels:
        return subsets, []
    # A longer window, whose users are joined, comes after the windows inside: it ends with the last of them.
    latest = sorted(subsets, key=lambda subset: (subset.end or "", subset.start or ""), reverse=True)
    kept = {*latest[: subject.most_panels]}
    windows, groups = bool(subject.windows), any(subset.group_name for subset in subsets)
    what = "windows and groups" if windows and groups else "windows" if windows else "groups"
    which = "latest" if windows else "largest"
    sentence = (
        f"Of {len(subsets):,} {what}, the {which} {len(kept)} have charts; the others are in the output."
    )
    return [subset for subset in subsets if subset in kept], [sentence]


def most_frequent(panels: Sequence[Mapping[str, float]], most: int) -> list[str]:
    """The names that all panels draw, by their largest share in any panel.

    Every panel's most frequent name goes first, then every panel's second, and so on.

    Args:
        panels: the share of each name in each panel, in the order of the study, which breaks ties.
        most: the largest number of names.
    """
    best_rank: dict[str, int] = {}
    largest: dict[str, float] = {}
    for shares in panels:
        for rank, name in enumerate(sorted(shares, key=lambda name: -shares[name])):
            best_rank[name] = min(rank, best_rank.get(name, rank))
            largest[name] = max(shares[name], largest.get(name, shares[name]))
    order = {name: index for index, name in enumerate(dict.fromkeys(chain.from_iterable(panels)))}
    chosen = sorted(largest, key=lambda name: (best_rank[name], -largest[name], order[name]))[:most]
    return sorted(chosen, key=lambda name: (-largest[name], order[name]))


def keys_of(subject: Subject, names: Collection[str], truth: bool) -> list[Key]:
    """What the colours of estimates stand for; an estimate has one colour in all charts of its attribute."""
    keys = [
        Key(label, colour) for colour, (name, label) in enumerate(subject.labels.items()) if name in names
    ]
    return [*keys, *([Key(TRUTH, -1)] if truth else [])]


def colour(keys: Sequence[Key], legend: bool, field: str = "estimate") -> alt.Color:
    """A colour for each key; the page's script gives the scale the colours of the theme."""
    shown = alt.Legend(orient="top", direction="vertical", title=None, columns=1, symbolOpacity=1)
    scale = alt.Scale(domain=[key.label for key in keys])
    return alt.Color(f"{field}:N", scale=scale, legend=shown if legend else None)


def tips(spelled: str, *fields: tuple[str, str]) -> list[alt.Tooltip]:
    """What a pointer shows of numbers: (field, title) each, in one format."""
    return [alt.Tooltip(f"{field}:Q", title=title, format=spelled) for field, title in fields]


def drawn(layers: Sequence[alt.Chart], height: int) -> dict[str, Any]:
    """The Vega-Lite specification of layers, from back to front, as wide as the page."""
    chart = alt.layer(*layers).properties(width="container", height=height)
    return dict(chart.to_dict(validate=False))


def has_legend(keys: Sequence[Key], alone: bool) -> bool:
    """Whether the chart itself has a legend: one chart with few colours."""
    return alone and 1 < len(keys) <= MOST_IN_LEGEND


def ticks(top: float, most: int) -> list[float]:
    """Round values from zero to the top: at most ``most``, and zero."""
    if top <= 0:
        return [0.0]
    step = 1.0
    while step * most > top:
        step /= 10
    while step * most * 10 <= top:
        step *= 10
    wide = next(step * times for times in (1, 2, 5, 10, 20) if top / (step * times) <= most)
    return [float(f"{count * wide:.6g}") for count in range(int(top / wide) + 1)]
