"""What all charts share: which panels are drawn, and a colour for each estimate."""

from __future__ import annotations

import altair as alt

from ldpbeam.pipelines.pages.subject import Place, Subject

#: A figure has at most so many panels.
MOST_PANELS = 12


def chosen_places(subject: Subject, field: str) -> tuple[list[Place], list[str]]:
    """The windows and groups that have panels, and a sentence on those that have none.

    The latest windows come first, and in them the groups with the most reports.
    """
    places = [
        place
        for place, records in subject.places.items()
        if any(record.get(field) is not None for record in records)
    ]
    if len(places) <= MOST_PANELS:
        return places, []
    latest = sorted(places, key=lambda place: place.start or "", reverse=True)
    kept = {*latest[:MOST_PANELS]}
    what = (
        "windows and groups"
        if places[0].group_name and places[0].window
        else ("windows" if places[0].window else "groups")
    )
    which = "latest" if places[0].window else "largest"
    return [place for place in places if place in kept], [
        f"The {which} {MOST_PANELS} of {len(places):,} {what} are drawn."
    ]


def labels_of(subject: Subject) -> list[str]:
    """The labels of the colours, in their order."""
    return list(subject.estimates.values())


def colour(subject: Subject, legend: bool) -> alt.Color:
    """A colour for each estimate, the same in all charts of the attribute; the theme names the colours."""
    labels = labels_of(subject)
    shown = alt.Legend(orient="top", direction="vertical", title=None, columns=1, symbolOpacity=1)
    return alt.Color("estimate:N", scale=alt.Scale(domain=labels), legend=shown if legend else None)
