"""A figure: an Altair chart of a table of rows, with a panel for each window and group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

#: Colours that people with any sight of colour tell apart (Okabe and Ito), and those of texts and lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#000000")
INK, SOFT, LINE = "#1d2228", "#5a636e", "#dddbd3"
#: The room between two panels, in pixels.
_BETWEEN = 22
#: An axis reaches to all values and this share of the ends of intervals; and to all ends if these are not
#: further away than this share of the height of the values.
_MOST_ENDS, _FAR = 0.9, 0.5
#: What a caption says where ends of intervals lie beyond the axis.
GOES_ON = "Intervals that leave the chart go on."


def theme(
    colours: Sequence[str] = COLOURS, ink: str = INK, soft: str = SOFT, line: str = LINE
) -> dict[str, Any]:
    """What Vega-Lite draws charts with, beside their own marks; ``truth`` is the style of true values."""
    text = {"labelColor": soft, "titleColor": soft, "titleFontWeight": 400, "labelFontSize": 11}
    return {
        "background": "white",
        "font": "Arial, Helvetica, 'Liberation Sans', sans-serif",
        "view": {"stroke": None},
        "range": {"category": list(colours)},
        "axis": {
            **text,
            "gridColor": line,
            "domain": False,
            "ticks": False,
            "labelPadding": 6,
            "titlePadding": 12,
        },
        "axisX": {
            "titlePadding": 4,
            "domain": True,
            "domainColor": line,
            "ticks": True,
            "tickColor": line,
            "labelPadding": 3,
            "labelOverlap": True,
            "labelSeparation": 12,
        },
        "header": {"labelColor": ink, "labelFontSize": 12},
        "legend": {**text, "symbolType": "square", "symbolStrokeWidth": 0, "labelLimit": 500},
        "title": {"color": ink, "anchor": "start"},
        "style": {"truth": {"color": ink, "stroke": ink}},
    }


@dataclass(frozen=True)
class Figure:
    """A chart with what says the same in words.

    Attributes:
        title: the heading.
        layers: the marks from back to front; each chooses its rows by ``part``.
        rows: what they draw; ``panel`` is the title of the panel that a row is in.
        panels: the titles in their order, by group and time.
        height: the height of a panel in pixels.
        caption: how to read the chart.
        summary: sentences that say what the chart shows.
        left: the room for the labels of the vertical axis.
    """

    title: str
    layers: Sequence[alt.Chart]
    rows: Sequence[Mapping[str, Any]]
    panels: Sequence[str]
    height: int
    caption: str = ""
    summary: Sequence[str] = ()
    left: int = 60

    def chart(self, width: int) -> alt.LayerChart | alt.FacetChart:
        """The chart, at most about so many pixels wide: as many panels stand side by side as have room."""
        columns = max(1, min(len(self.panels), (width - self.left) // 190, 4))
        chart = alt.layer(*self.layers, data=alt.NamedData("rows")).properties(
            width=(width - self.left) // columns - _BETWEEN, height=self.height
        )
        if list(self.panels) != [""]:
            header = alt.Header(
                labelExpr="split(datum.label, '\\n')", labelAnchor="start", labelLimit=chart.width
            )
            panel = alt.Facet("panel:N", title=None, sort=list(self.panels), header=header)
            chart = chart.facet(facet=panel, columns=columns, spacing=_BETWEEN).resolve_axis(x="independent")
        # Altair checks and copies the data that it is built with, row by row. A panel without an estimate
        # keeps its place.
        chart.data = alt.InlineData(values=[*self.rows, *({"panel": panel} for panel in self.panels)])
        return chart


def of(part: str, mark: alt.Chart | None = None) -> alt.Chart:
    """A layer of the rows of one part."""
    return (mark or alt.Chart()).transform_filter(f"datum.part == '{part}'")


def colour(labels: Sequence[str], drawn: Collection[str] = ()) -> alt.Color:
    """A colour for each estimate or name, the same in all figures of an attribute.

    Args:
        labels: what colours stand for.
        drawn: those in this figure; a legend says what stands for which if there are several.
    """
    shown = [label for label in labels if label in drawn]
    columns = max(1, 40 // max(map(len, shown), default=1))
    legend = alt.Legend(
        orient="top", direction="horizontal", title=None, values=shown, columns=columns, symbolOpacity=1
    )
    scale = alt.Scale(domain=list(labels))
    return alt.Color("estimate:N", scale=scale, legend=legend if len(shown) > 1 else None)


def reach(values: Sequence[float], ends: Sequence[float]) -> float:
    """How far up an axis goes: to all values, and to all ends of intervals, unless few are far away."""
    most = float(max([*values, np.quantile(ends, _MOST_ENDS, method="higher")] if len(ends) else values))
    room = _FAR * (max(values) - min(values) or abs(most))
    return float(max([most, *ends])) if max([most, *ends]) <= most + room else most
