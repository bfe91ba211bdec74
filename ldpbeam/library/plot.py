"""The charts of estimates, which are those of the page of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import altair as alt

from ldpbeam.answers.partial import with_partial
from ldpbeam.cells import Clock
from ldpbeam.charts.alone import THEME, alone
from ldpbeam.charts.attribute import figures_of
from ldpbeam.charts.subject import Subject
from ldpbeam.charts.texts import safe
from ldpbeam.schemas.outputs.records import EstimateRecord

#: The width of a chart, and of each of several panels, in pixels.
_WIDTH, _WIDTH_OF_PANELS = 480, 220
#: This many panels of windows and groups stand next to each other.
_ACROSS = 3
#: Each chart has colours of its own, and says what they stand for.
_APART = {"resolve": {"scale": {"color": "independent"}, "legend": {"color": "independent"}}}
#: What ends a script element, or starts a comment or a script in it: Altair writes a chart into one as it is.
_OF_SCRIPTS = re.compile("<(?=[!/s])", re.IGNORECASE)


def chart(estimates: Sequence[EstimateRecord], clock: Clock | None = None) -> alt.VConcatChart:
    """The charts of estimates, one below the other, and panels of windows and groups side by side.

    Args:
        estimates: the estimates.
        clock: by which charts show times; None for UTC.

    Raises:
        ValueError: if no estimate has anything to show.
    """
    rows: list[list[dict[str, Any]]] = []
    marked = with_partial(estimates)
    for name in dict.fromkeys(record.attribute for record in marked):
        subject = Subject(name, [record for record in marked if record.attribute == name], clock)
        for figure in figures_of(subject):
            panels = [panel for panel in figure.panels if panel.data]
            width = _WIDTH if len(panels) == 1 else _WIDTH_OF_PANELS
            drawn = [alone(figure, panel, width, legend=number == 0) for number, panel in enumerate(panels)]
            rows += (drawn[at : at + _ACROSS] for at in range(0, len(drawn), _ACROSS))
    if not rows:
        raise ValueError("there is nothing to show: no estimate has a distribution, frequencies or a mean")
    datasets: dict[str, Any] = {}
    named = [
        {"hconcat": [_named(panel, f"{number}-{at}-", datasets) for at, panel in enumerate(row)], **_APART}
        for number, row in enumerate(rows)
    ]
    whole = json.dumps(safe({"vconcat": named, "datasets": datasets, "config": THEME, **_APART}))
    # A word joiner has no width, so that a reader sees the same text.
    return alt.VConcatChart.from_json(_OF_SCRIPTS.sub("<\u2060", whole), validate=False)


def _named(chart: dict[str, Any], before: str, datasets: dict[str, Any]) -> dict[str, Any]:
    """A chart whose data sets, which have names of their own now, are those of the whole."""
    datasets.update({before + name: rows for name, rows in chart.pop("datasets").items()})

    def renamed(part: dict[str, Any]) -> dict[str, Any]:
        return {**part, "data": {"name": before + part["data"]["name"]}} if "data" in part else part

    return renamed({**chart, "layer": [renamed(layer) for layer in chart["layer"]]})
