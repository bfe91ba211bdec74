"""What all charts share: which panels are drawn, how far their axes reach, and a colour for each label."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from ldpbeam.charts.figures import Key, Panel
from ldpbeam.charts.subject import MOST_PANELS, STATES, Subject, Subset, state_of
from ldpbeam.schemas.outputs.records import EstimateRecord

#: Groups have panels of this many windows: the last one, and the one before.
WINDOWS_OF_GROUPS = 2
#: The label of true values.
TRUTH = "the truth"
#: An axis reaches to all curves and this share of the ends of intervals; and to all ends if these are not
#: further away than this share of the height of the curves.
_MOST_ENDS, _FAR = 0.9, 0.3


class Place(NamedTuple):
    """What one panel draws: estimates of a window, of one group or of all; none where a group has none."""

    window: str
    group: str
    records: Sequence[EstimateRecord]

    @property
    def first(self) -> EstimateRecord | None:
        """The first estimate; None if a group has none."""
        return next(iter(self.records), None)

    def panel(self, data: Any, alone: bool) -> Panel:
        """A panel with its titles and notes."""
        if not self.records:
            return Panel(self.group, {}, "no estimate", self.window)
        note, subsets = STATES.get(state_of(self.records[0]), ""), tuple(map(Subset.of, self.records))
        title, row = (self.group, self.window) if self.group else (self.window, "")
        return Panel("" if alone else title, data, note, "" if alone else row, subsets)


def places_of(
    subject: Subject, wanted: Callable[[EstimateRecord], object], *, apart: bool = False
) -> tuple[list[Place], list[str]]:
    """The panels of windows and groups, in the order of time, and sentences on what has none.

    Args:
        subject: the estimates of an attribute.
        wanted: whether an estimate has what the panels show.
        apart: whether each group has a panel, however few there are.
    """
    chosen = {
        subset: own
        for subset, records in subject.subsets.items()
        if (own := subject.drawn([record for record in records if wanted(record)]))
    }
    # A longer window, whose users are joined, comes after the windows inside: it ends with the last of them.
    windows = sorted({(subset.end or "", subset.start or "") for subset in chosen})
    each = subject.by_group and (apart or not subject.together)
    groups = subject.groups[:MOST_PANELS] if each else [""]
    most = max(1, MOST_PANELS // len(groups))
    if subject.by_group:
        joined = {(subset.end or "", subset.start or "") for subset, own in chosen.items() if own[0].joined}
        single = [window for window in windows if window not in joined]
        kept = [*single[-min(most, WINDOWS_OF_GROUPS) :], *sorted(joined)[-1:]]
    else:
        kept = windows[-most:]
    places = [
        Place(
            next(subset.window for subset in chosen if (subset.end or "", subset.start or "") == window),
            group,
            [
                record
                for subset, records in chosen.items()
                for record in records
                if (subset.end or "", subset.start or "") == window and group in ("", subset.label)
            ],
        )
        for window in kept
        for group in groups
    ]
    said = []
    if len(kept) < len(windows):
        which = "last" if len(kept) == 1 else f"last {len(kept)}"
        said.append(f"The {which} of {len(windows):,} windows.")
    if each and len(groups) < len(subject.groups):
        said.append(f"The {len(groups)} largest of {len(subject.groups):,} groups.")
    return places if chosen else [], said


def reach(values: Sequence[float], ends: Sequence[float]) -> float:
    """How far up an axis goes: to all values, and to all ends of intervals, unless few are far away."""
    most = float(max([*values, np.quantile(ends, _MOST_ENDS, method="lower")] if len(ends) else values))
    room = _FAR * (max(values) - min(values) or abs(most))
    return float(max([most, *ends])) if max([most, *ends]) <= most + room else most


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
    place = {
        name: number for number, name in enumerate(dict.fromkeys(n for shares in panels for n in shares))
    }
    chosen = sorted(largest, key=lambda name: (best_rank[name], -largest[name], place[name]))[:most]
    return sorted(chosen, key=lambda name: (-largest[name], place[name]))


def keys_of(subject: Subject, labels: Collection[str], truth: bool) -> list[Key]:
    """What colours stand for; a group, or an estimate, has one colour in all charts of its attribute."""
    every = subject.groups if subject.by_group else list(subject.labels.values())
    keys = [Key(label, colour) for colour, label in enumerate(every) if label in labels]
    return [*keys, *([Key(TRUTH, -1)] if truth else [])]


def colour(keys: Sequence[Key]) -> alt.Color:
    """A colour for each key; the page lists them, and its script gives the scale the colours of the theme."""
    return alt.Color("estimate:N", scale=alt.Scale(domain=[key.label for key in keys]), legend=None)


def tips(spelled: str, *fields: tuple[str, str]) -> list[alt.Tooltip]:
    """What a pointer shows of numbers: (field, title) each, in one format."""
    return [alt.Tooltip(f"{field}:Q", title=title, format=spelled) for field, title in fields]


def drawn(layers: Sequence[alt.Chart], height: int) -> dict[str, Any]:
    """The Vega-Lite specification of layers, from back to front, as wide as the page."""
    chart = alt.layer(*layers).properties(width="container", height=height)
    return dict(chart.to_dict(validate=False))


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
