"""A chart of the page that stands alone, outside of it, also as an image: with data, colours and a legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ldpbeam.pages.figures import Figure, Panel
from ldpbeam.pages.page import Content, file_name, safe

#: The colours of the light theme, in the order of the page's style. Colour -1 is the colour of text.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#000000")
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
    colours = [_COLOURS[key.colour % 8] if key.colour >= 0 else _INK for key in figure.keys]
    layers = [
        _coloured(layer, colours, shown)
        for layer in figure.chart["layer"]
        # Where all layers have one data set, Altair names it once for the whole chart.
        if rows[layer.get("data", figure.chart.get("data"))["name"]]
    ]
    title = [figure.title, panel.title] if panel.title else figure.title
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


_WIDTH, _SCALE = 640, 2.0


def images(contents: Sequence[Content]) -> Iterator[tuple[str, bytes]]:
    """(file name, bytes) of each chart, as SVG and as PNG."""
    # They are needed for images alone.
    import vl_convert

    from ldpbeam.pages.scripts import vega_lite_version

    figures = [figure for content in contents for chapter in content.chapters for figure in chapter.figures]
    for figure_number, figure in enumerate(figures, 1):
        for number, panel in enumerate(figure.panels, 1):
            chart = safe({**alone(figure, panel, _WIDTH), "config": THEME})
            name = f"{figure_number:02}-{file_name(figure.title)}" + (
                f"-{number}" if len(figure.panels) > 1 else ""
            )
            version = vega_lite_version()
            yield f"{name}.svg", vl_convert.vegalite_to_svg(chart, vl_version=version).encode()
            yield f"{name}.png", vl_convert.vegalite_to_png(chart, vl_version=version, scale=_SCALE)
