"""A figure: an Altair chart of a table of rows, with a panel for each window and group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
GOES_ON = "Intervals cut off at the edge continue beyond it."


def theme(
    colours: Sequence[str] = COLOURS, ink: str = INK, soft: str = SOFT, line: str = LINE
) -> dict[str, Any]:
    """What Vega-Lite draws charts with, beside their own marks.

    ``truth`` is the style of true values, and ``certain`` of intervals that hold for any values of people.
    """
    text = {"labelColor": soft, "titleColor": soft, "titleFontWeight": 400, "labelFontSize": 11}
    return {
        "background": "white",
        "font": "Arial, Helvetica, 'Liberation Sans', sans-serif",
        "view": {"stroke": None},
        # Grey is certain, and blue holds if people are spread smoothly.
        "range": {"category": list(colours), "ordinal": [soft, colours[0]]},
        "mark": {"color": colours[0]},
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
            "labelOverlap": "greedy",
            "labelSeparation": 9,
        },
        "header": {"labelColor": ink, "labelFontSize": 11},
        "legend": {**text, "symbolType": "square", "symbolStrokeWidth": 0, "labelLimit": 500},
        "title": {"color": ink, "anchor": "start"},
        "style": {
            "truth": {"color": ink, "stroke": ink},
            "certain": {"color": soft, "stroke": soft, "fill": soft},
            "smooth": {"color": colours[0], "stroke": colours[0]},
        },
    }


@dataclass(frozen=True)
class Figure:
    """A chart with what says the same in words.

    Attributes:
        title: the heading.
        layers: the marks from back to front; each chooses its rows by ``part``.
        rows: what they draw; ``panel`` is the title of the panel that a row is in, and ``lane`` of its lane.
        panels: the titles of the panels beside each other, in their order.
        height: the height of a panel in pixels.
        lanes: the titles of the panels below each other; without any, panels go on in a second row.
        caption: how to read the chart.
        summary: sentences that say what the chart shows.
        left: the room for the labels of the vertical axis.
        half: whether two such charts stand side by side on a wide screen.
    """

    title: str
    layers: Sequence[alt.Chart]
    rows: Sequence[Mapping[str, Any]]
    height: int
    panels: Sequence[str] = ("",)
    lanes: Sequence[str] = ()
    caption: str = ""
    summary: Sequence[str] = ()
    left: int = 60
    half: bool = False

    def chart(self, width: int) -> alt.LayerChart | alt.FacetChart | alt.VConcatChart:
        """The chart, at most about so many pixels wide: as many panels stand side by side as have room."""
        longest = max((len(line) for lane in self.lanes for line in lane.split("\n")), default=0)
        named = 8 + 6 * min(16, longest) if longest else 0
        room = width - self.left - named
        columns = max(1, min(len(self.panels), room // (75 if self.lanes else 95), 6))
        between = _BETWEEN if not self.lanes else 14
        chart = alt.layer(*self.layers, data=alt.NamedData("rows")).properties(
            width=room // columns - between, height=self.height
        )
        lines = {"title": None, "labelExpr": "split(datum.label, '\\n')"}
        header = alt.Header(**lines, labelAnchor="start", labelLimit=chart.width + between)
        empty = [{"panel": panel, "lane": lane} for panel in self.panels for lane in self.lanes or [""]]
        if any(self.lanes):
            # Vega places a label by its width: aligned left, all end beside the axis. A reader's font may be
            # a fifth wider than the one that is measured.
            aside = {"labelOrient": "left", "labelAngle": 0, "labelAlign": "left"}
            beside = alt.Header(**lines, **aside, labelLimit=named, labelPadding=8 + named // 5)
            lane = alt.Row("lane:N", title=None, sort=list(self.lanes), header=beside)
            parts = []
            for start in range(0, len(self.panels), columns):
                panels = list(self.panels[start : start + columns])
                column = alt.Column("panel:N", title=None, sort=panels, header=header)
                across = {"column": column} if any(panels) else {}
                one = chart.transform_filter(alt.FieldOneOfPredicate("panel", panels)) if across else chart
                parts.append(one.facet(row=lane, **across, spacing=between))
            chart = parts[0] if len(parts) == 1 else alt.vconcat(*parts)
        elif any(self.panels):
            panel = alt.Facet("panel:N", title=None, sort=list(self.panels), header=header)
            chart = chart.facet(facet=panel, columns=columns, spacing=between).resolve_axis(x="independent")
        # Altair checks and copies the data that it is built with, row by row. A panel without an estimate
        # keeps its place.
        chart.data = alt.InlineData(values=[*self.rows, *empty])
        return chart


def of(part: str, mark: alt.Chart | None = None) -> alt.Chart:
    """A layer of the rows of one part."""
    return (mark or alt.Chart()).transform_filter(f"datum.part == '{part}'")


def reach(values: Sequence[float], ends: Sequence[float]) -> float:
    """How far up an axis goes: to all values, and to all ends of intervals, unless few are far away."""
    most = float(max([*values, np.quantile(ends, _MOST_ENDS, method="higher")] if len(ends) else values))
    room = _FAR * (max(values) - min(values) or abs(most))
    return float(max([most, *ends])) if max([most, *ends]) <= most + room else most
