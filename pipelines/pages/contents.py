"""What the page says about one output: its facts, warnings, charts and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ldpbeam.pipelines.pages import words
from ldpbeam.pipelines.pages.numbers import distributions
from ldpbeam.pipelines.pages.page import Chapter, Content
from ldpbeam.pipelines.pages.subject import Record, Subject


def content_of(records: Sequence[Record], accounting: Mapping[str, Any] | None) -> Content:
    """The content of a page about the estimates of one output."""
    names = list(dict.fromkeys(record["attribute"] for record in records))
    subjects = [Subject(name, [own for own in records if own["attribute"] == name]) for name in names]
    chapters = []
    for subject in subjects:
        figures = [figure for figure in (distributions(subject),) if figure is not None]
        chapters.append(Chapter(subject.name, figures))
    facts = []
    if accounting is not None:
        facts.append(("reports read", f"{accounting['in']:,}"))
        facts.append(("reports used", f"{accounting['used']:,}"))
    return Content(
        title=records[0]["study"],
        lead=f"Estimates of {words.listed(names)}, from reports that were perturbed under local differential "
        "privacy before anybody collected them.",
        facts=facts,
        chapters=chapters,
    )
