"""The scripts that draw the charts: Vega, Vega-Lite and Vega-Embed as one text, and the page's own."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

import altair as alt
import vl_convert


@cache
def script() -> str:
    """The whole script of a page: the libraries of Altair's version of Vega-Lite, then ``page.js``."""
    libraries = vl_convert.javascript_bundle("window.embedChart = vegaEmbed;", vl_version=vega_lite_version())
    # A script element ends at the first of these, wherever it stands.
    if "</script" in libraries.lower() or "<!--" in libraries:
        raise ValueError("the scripts of Vega hold a text that would end them")
    return f"(() => {{\n{libraries}\n{asset('page.js')}\n}})();"


def vega_lite_version() -> str:
    """The version of Vega-Lite that Altair writes, as in 5.20."""
    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def asset(name: str) -> str:
    """The text of a file beside this module."""
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def fingerprint(text: str) -> str:
    """A script's hash, as a Content-Security-Policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
