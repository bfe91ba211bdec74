"""One HTML file of the outputs of runs, with their charts, and without a request to anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from itertools import groupby
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from ldpbeam.charts.figures import Columns, Figure, Table
from ldpbeam.charts.subject import Subset
from ldpbeam.charts.texts import safe
from ldpbeam.results.page.answer import Answer
from ldpbeam.results.page.scripts import asset, fingerprint, script
from ldpbeam.results.page.warnings import Warned
from ldpbeam.untrusted import shown

#: Characters that could end a script element, or start a comment in it, as JSON spells them.
_SPELLED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True)
class Part:
    """A table with a heading and sentences."""

    title: str
    sentences: Sequence[str]
    table: Table


@dataclass(frozen=True)
class Chapter:
    """What the page says about one attribute.

    Attributes:
        name: the attribute.
        figures: its charts.
        estimates: a row for each of its estimates.
        subsets: the window and group of each of these rows.
        note: what a reader must know of the chapter; empty if nothing.
        answer: its most important number; None if it has none.
    """

    name: str
    figures: Sequence[Figure]
    estimates: Table
    subsets: Sequence[Subset] = ()
    note: str = ""
    answer: Answer | None = None


@dataclass(frozen=True)
class Content:
    """What the page says about one output.

    Attributes:
        title: the study.
        lead: how much it rests on.
        warnings: what a reader must know first.
        chapters: one per attribute.
        sentences: what the study does.
        parts: the accounting, the ledger, the tests of fit, and the run.
    """

    title: str
    lead: str
    warnings: Sequence[Warned] = ()
    chapters: Sequence[Chapter] = ()
    sentences: Sequence[str] = ()
    parts: Sequence[Part] = field(default_factory=tuple)


def page(contents: Sequence[Content], reload: int | None = None) -> str:
    """The HTML of the page; every text in it is escaped.

    Args:
        contents: what it says about each output.
        reload: the seconds after which the page loads itself again; None for never.
    """
    drawn: list[dict[str, Any]] = []
    outputs = [{**_output(content, drawn), "number": number} for number, content in enumerate(contents)]
    text = script()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_readable
    )
    environment.filters["coded"] = _coded
    return environment.from_string(asset("page.html")).render(
        title=", ".join(dict.fromkeys(content.title for content in contents)),
        outputs=outputs,
        reload=reload,
        style=Markup(asset("page.css")),
        # The hash and the scripts are ours; JSON is spelled so that nothing in it ends its element.
        script_hash=Markup(fingerprint(text)),
        script=Markup(text),
        figures=Markup(json.dumps(safe(drawn), separators=(",", ":"), allow_nan=False).translate(_SPELLED)),
        footer=f"Written by ldpbeam {metadata.version('ldpbeam')}. The page opens without a network.",
    )


def _encoded(data: Mapping[str, Columns]) -> dict[str, dict[str, Any]]:
    """Data sets whose columns of texts are lists of different texts, and which of them each row has."""
    return {
        name: {column: _column(values) for column, values in columns.items()}
        for name, columns in data.items()
    }


def _column(values: Sequence[Any]) -> Any:
    if not values or not isinstance(values[0], str):
        return values
    texts = {text: code for code, text in enumerate(dict.fromkeys(values))}
    return {"texts": list(texts), "at": [texts[text] for text in values]}


def _readable(value: object) -> object:
    """What the template writes: text whose control characters are escaped; markup of our own as it is."""
    return shown(value, keep="\n") if type(value) is str else value


def _coded(text: str) -> Markup:
    """A text as markup, escaped; what stands between backticks is code."""
    parts = shown(text, keep="\n").split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    marked = [
        escape(part) if index % 2 == 0 else Markup("<code>{}</code>").format(part)
        for index, part in enumerate(parts)
    ]
    return Markup("").join(marked)


def _output(content: Content, drawn: list[dict[str, Any]]) -> dict[str, Any]:
    """The template's fields of one output; its charts are added to ``drawn``."""
    subjects: list[dict[str, Any]] = []
    anchors: dict[tuple[str, Subset], str] = {}

    def added(figure: Figure) -> dict[str, Any]:
        drawn.append(
            {
                "chart": figure.chart,
                "panels": [_encoded(panel.data) for panel in figure.panels],
                "colours": [key.colour for key in figure.keys],
            }
        )
        panels = enumerate(figure.panels)
        rows = [(row, list(own)) for row, own in groupby(panels, key=lambda panel: panel[1].row)]
        return {**vars(figure), "index": len(drawn) - 1, "file": file_name(figure.title), "rows": rows}

    for chapter in content.chapters:
        figures = [added(figure) for figure in chapter.figures]
        for figure in figures:
            for place, panel in enumerate(figure["panels"]):
                for subset in panel.subsets:
                    anchors.setdefault((chapter.name, subset), f"p{figure['index']}.{place}")
        ids = [f"r{len(drawn)}.{row}" for row in range(len(chapter.subsets))]
        for anchor, subset in zip(ids, chapter.subsets, strict=True):
            anchors.setdefault((chapter.name, subset), anchor)
        answer = chapter.answer and {**vars(chapter.answer), "figure": added(chapter.answer.figure)}
        subjects.append({**vars(chapter), "figures": figures, "ids": ids, "answer": answer})
    warnings = [
        {
            "number": number,
            "all": warned,
            "at": [(subset.short, anchors.get((warned.attribute, subset))) for subset in warned.subsets],
        }
        for number, warned in enumerate(content.warnings, 1)
    ]

    return {**vars(content), "subjects": subjects, "tables": content.parts, "warned": warnings}


def file_name(title: str) -> str:
    """A name for the chart as a file."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")[:60] or "chart"
