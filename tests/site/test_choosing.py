"""The figures of docs/choosing.md are those of the pages of measurements, which programs write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import registered_mechanisms

DOCS = Path(__file__).parents[2] / "docs"
CHOOSING = (DOCS / "choosing.md").read_text(encoding="utf-8")
MEASURED = re.compile(r"±|\d%|\d of 10")


def rows(page: str) -> list[list[str]]:
    """The cells of every row of every table."""
    lines = re.findall(r"^\| (.+) \|$", page, flags=re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


SOURCES = [
    row for name in ("accuracy", "coverage", "fit") for row in rows((DOCS / f"{name}.md").read_text("utf-8"))
]
FIGURES = [row for row in rows(CHOOSING) if any(map(MEASURED.search, row))]


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: ", ".join(row[:3]))
def test_a_row_of_figures_is_in_a_page_of_measurements(row: list[str]) -> None:
    def within(source: list[str]) -> bool:
        left = iter(source)
        return all(cell in left for cell in row)

    assert any(map(within, SOURCES))


def test_there_are_figures_of_each_page() -> None:
    for page in ("accuracy.md", "coverage.md", "fit.md"):
        assert f"]({page}" in CHOOSING
    assert len(FIGURES) > 30


def test_every_mechanism_and_estimator_is_named() -> None:
    for name in (*registered_mechanisms(), *registered_estimators()):
        assert f"`{name}`" in CHOOSING, name
