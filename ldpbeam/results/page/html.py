"""One HTML file of the outputs of runs, with their charts, without a script and without a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from ldpbeam.charts.figures import Figure
from ldpbeam.results.page.images import drawn
from ldpbeam.results.page.warnings import Warned
from ldpbeam.untrusted import shown


@dataclass(frozen=True)
class Table:
    """A table of texts; ``numbers`` are the columns that stand at the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()


def table_of(
    rows: Sequence[Mapping[str, str]], numbers: Collection[str] = (), optional: Collection[str] = ()
) -> Table:
    """A table of rows by column, without the optional columns that no row fills."""
    names = rows[0] if rows else ()
    columns = [name for name in names if name not in optional or any(row[name] for row in rows)]
    return Table(columns, [[row[name] for name in columns] for row in rows], frozenset(numbers))


@dataclass(frozen=True)
class Part:
    """A table with a heading and sentences."""

    title: str
    sentences: Sequence[str]
    table: Table = Table((), ())


@dataclass(frozen=True)
class Answer:
    """The most important number of an attribute.

    Attributes:
        headline: the number in a sentence.
        sentences: how groups differ, and what changed.
        table: the number of each group, with its interval and its change.
    """

    headline: str
    sentences: Sequence[str]
    table: Table


@dataclass(frozen=True)
class Chapter:
    """What the page says about one attribute.

    Attributes:
        name: the attribute.
        figures: its charts.
        estimates: a row for each of its estimates.
        note: what a reader must know of the chapter; empty if nothing.
        answer: its most important number; None if it has none.
        caution: what not to believe.
        said: what its estimators and intervals say of themselves.
    """

    name: str
    figures: Sequence[Figure]
    estimates: Table
    note: str = ""
    answer: Answer | None = None
    caution: str = ""
    said: Sequence[str] = ()


@dataclass(frozen=True)
class Content:
    """What the page says about one output.

    Attributes:
        title: the study.
        lead: sentences on how many people it rests on, and what they spent.
        warnings: what a reader must know first.
        chapters: one per attribute.
        sentences: what the study does.
        parts: the accounting, the ledger, the tests of fit, and the run.
    """

    title: str
    lead: Sequence[str]
    warnings: Sequence[Warned] = ()
    chapters: Sequence[Chapter] = ()
    sentences: Sequence[str] = ()
    parts: Sequence[Part] = ()


def page(contents: Sequence[Content], reload: int | None = None) -> str:
    """The HTML of the page; every text in it is escaped.

    Args:
        contents: what it says about each output.
        reload: the seconds after which the page loads itself again; None for never.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_readable
    )
    environment.filters |= {"coded": _coded, "drawn": drawn}
    return environment.from_string(asset("page.html")).render(
        title=", ".join(dict.fromkeys(content.title for content in contents)),
        outputs=contents,
        reload=reload,
        style=Markup(asset("page.css")),
        footer=f"Written by ldpbeam {metadata.version('ldpbeam')}. The page opens without a network.",
    )


def asset(name: str) -> str:
    """The text of a file in ``assets``."""
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


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
