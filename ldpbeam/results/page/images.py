"""Charts of the page as SVG, whose colours are those of the page's style."""

from __future__ import annotations

import re
from typing import Any

import altair as alt
import vl_convert
from markupsafe import Markup

from ldpbeam.charts.figures import COLOURS, Figure, theme
from ldpbeam.charts.texts import safe

#: The widths of a chart in the page, in pixels: on a screen and on paper, on a phone, and beside another one.
WIDTHS, HALF = {"wide": 960, "narrow": 340}, 450
#: Roles that Vega gives to groups of marks, without the names that readers of a screen need.
_ROLES = re.compile(r' (?:role="graphics-|aria-\w+=")[^"]*"')
#: The version of Vega-Lite that Altair writes, as in 5.20.
_VERSION = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
#: Colours that the page's style defines, for light, dark and paper.
_STYLED = {
    **theme(
        [f"var(--c{place})" for place in range(len(COLOURS))], "var(--ink)", "var(--soft)", "var(--line)"
    ),
    "background": None,
}


def drawn(figure: Figure) -> Markup:
    """The chart of a figure for a screen and for a phone; Vega escapes the texts in it."""
    return Markup("").join(
        Markup('<div class="{}" role="img" aria-label="{}">{}</div>').format(
            name,
            safe(" ".join([figure.title, *figure.summary])),
            Markup(_ROLES.sub("", _svg(figure, min(width, HALF) if figure.half else width))),
        )
        for name, width in WIDTHS.items()
    )


def _svg(figure: Figure, width: int) -> str:
    chart: dict[str, Any] = safe(figure.chart(width).to_dict(validate=False))
    config = {**_STYLED, "aria": False}
    return vl_convert.vegalite_to_svg({**chart, "config": config}, vl_version=_VERSION)
