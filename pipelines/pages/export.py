"""The charts of a page as image files, drawn without a browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import vl_convert

from ldpbeam.pipelines.pages.figures import Columns, Figure
from ldpbeam.pipelines.pages.page import Content, file_name, safe
from ldpbeam.pipelines.pages.scripts import vega_lite_version

#: The colours of the light theme, in the order of the page's style; -1 is that of text.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#000000")
_INK, _SOFT, _LINE = "#1d2228", "#5a636e", "#dddbd3"
_WIDTH, _SCALE = 640, 2.0


def images(contents: Sequence[Content]) -> Iterator[tuple[str, bytes]]:
    """(file name, bytes) of each chart, as SVG and as PNG."""
    figures = [figure for content in contents for chapter in content.chapters for figure in chapter.figures]
    for place, figure in enumerate(figures, 1):
        for number, panel in enumerate(figure.panels, 1):
            chart = safe(_chart(figure, panel.title, panel.data))
            name = f"{place:02}-{file_name(figure.title)}" + (f"-{number}" if len(figure.panels) > 1 else "")
            version = vega_lite_version()
            yield f"{name}.svg", vl_convert.vegalite_to_svg(chart, vl_version=version).encode()
            yield f"{name}.png", vl_convert.vegalite_to_png(chart, vl_version=version, scale=_SCALE)


def _chart(figure: Figure, title: str, data: Mapping[str, Columns]) -> dict[str, Any]:
    """The chart of a panel with its data, a legend and the light theme."""
    datasets = {name: _rows(columns) for name, columns in data.items()}
    layers = [
        _with_legend(layer) if len(figure.keys) > 1 else layer
        for layer in figure.chart["layer"]
        # Where all layers have one data set, Altair names it once for the whole chart.
        if datasets[layer.get("data", figure.chart.get("data"))["name"]]
    ]
    text = {"labelColor": _SOFT, "titleColor": _SOFT, "titleFontWeight": 400, "gridColor": _LINE}
    return {
        **figure.chart,
        "layer": layers,
        "datasets": datasets,
        "width": _WIDTH,
        "title": {"text": [figure.title, title] if title else figure.title, "anchor": "start"},
        "config": {
            "background": "white",
            "view": {"stroke": None},
            "range": {"category": [_COLOURS[k.colour % 8] if k.colour >= 0 else _INK for k in figure.keys]},
            "axis": {**text, "domain": False, "ticks": False},
            "legend": {"symbolType": "square", "symbolStrokeWidth": 0, "labelLimit": 500},
            "rule": {"color": _SOFT},
            "title": {"color": _INK},
        },
    }


def _rows(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _with_legend(layer: Mapping[str, Any]) -> dict[str, Any]:
    encoding = layer["encoding"]
    if "color" not in encoding:
        return dict(layer)
    legend = {"orient": "top", "direction": "vertical", "title": None, "columns": 1, "symbolOpacity": 1}
    return {**layer, "encoding": {**encoding, "color": {**encoding["color"], "legend": legend}}}
