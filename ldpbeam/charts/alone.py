"""A chart that stands alone, outside of a page: with data, colours and a legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldpbeam.charts.figures import Figure, Panel

#: The colours of the light theme, in the order of the page's style. Colour -1 is the colour of text.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#000000")
_INK, _SOFT, _LINE = "#1d2228", "#5a636e", "#dddbd3"
_TEXT = {"labelColor": _SOFT, "titleColor": _SOFT, "titleFontWeight": 400, "gridColor": _LINE}
_LEGEND = {"orient": "top", "direction": "vertical", "title": None, "columns": 1, "symbolOpacity": 1}
#: What Vega-Lite draws charts with, beside their own marks.
THEME = {
    "background": "white",
    "view": {"stroke": None},
    "axis": {**_TEXT, "domain": False, "ticks": False},
    "legend": {"symbolType": "square", "symbolStrokeWidth": 0, "labelLimit": 500},
    "rule": {"color": _SOFT},
    "title": {"color": _INK},
}


def alone(figure: Figure, panel: Panel, width: int, *, legend: bool = True) -> dict[str, Any]:
    """The Vega-Lite specification of a panel, without its theme.

    Args:
        figure: the figure.
        panel: the panel of it.
        width: the width of the chart in pixels.
        legend: whether it says what its colours stand for, if there are several.
    """
    rows = {
        name: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for name, columns in panel.data.items()
    }
    shown = _LEGEND if legend and len(figure.keys) > 1 else None
    colours = [COLOURS[key.colour % 8] if key.colour >= 0 else _INK for key in figure.keys]
    layers = [
        _coloured(layer, colours, shown)
        for layer in figure.chart["layer"]
        # Where all layers have one data set, Altair names it once for the whole chart.
        if rows[layer.get("data", figure.chart.get("data"))["name"]]
    ]
    where = ", ".join(part for part in (panel.title, panel.row) if part)
    title = [figure.title, where] if where else figure.title
    return {
        # A figure of several charts states these once, so no chart of it may.
        **{name: value for name, value in figure.chart.items() if name not in ("$schema", "config")},
        "layer": layers,
        "datasets": rows,
        "width": width,
        "title": {"text": title, "anchor": "start"},
    }


def _coloured(
    layer: Mapping[str, Any], colours: list[str], legend: Mapping[str, Any] | None
) -> dict[str, Any]:
    encoding = layer["encoding"]
    if "color" not in encoding:
        return dict(layer)
    colour = {
        **encoding["color"],
        "scale": {**encoding["color"]["scale"], "range": colours},
        "legend": legend,
    }
    return {**layer, "encoding": {**encoding, "color": colour}}
