"""The charts of the page as images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import vl_convert

from ldpbeam.charts.alone import THEME, alone
from ldpbeam.charts.texts import safe
from ldpbeam.results.page.html import Content, file_name
from ldpbeam.results.page.scripts import vega_lite_version

_WIDTH, _SCALE = 640, 2.0


def images(contents: Sequence[Content]) -> Iterator[tuple[str, bytes]]:
    """(file name, bytes) of each chart, as SVG and as PNG."""
    figures = [figure for content in contents for chapter in content.chapters for figure in chapter.figures]
    for figure_number, figure in enumerate(figures, 1):
        for number, panel in enumerate((panel for panel in figure.panels if panel.data), 1):
            chart = safe({**alone(figure, panel, _WIDTH), "config": THEME})
            name = f"{figure_number:02}-{file_name(figure.title)}" + (
                f"-{number}" if len(figure.panels) > 1 else ""
            )
            version = vega_lite_version()
            yield f"{name}.svg", vl_convert.vegalite_to_svg(chart, vl_version=version).encode()
            yield f"{name}.png", vl_convert.vegalite_to_png(chart, vl_version=version, scale=_SCALE)
