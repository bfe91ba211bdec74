"""The figures of docs/choosing.md are rows of the tables of measurements."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from benchmarks.pages import split, values
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import registered_mechanisms

DOCS = Path(__file__).parents[2] / "docs"
CHOOSING = (DOCS / "choosing.md").read_text(encoding="utf-8")
MEASURED = re.compile(r"±|\d%|\d of 10")


def rows(page: str) -> list[list[str]]:
    """The cells of every row of every table."""
    return [split(line) for line in re.findall(r"^\| .+ \|$", page, flags=re.MULTILINE)]


def numbers(row: list[str]) -> list[str]:
    """The cells of a row of a page as those of a CSV file."""
    return [value for cell in row for value in values(cell) if value]


SOURCES: list[list[str]] = []
for table in (DOCS / "measured").glob("*.csv"):
    with table.open(encoding="utf-8", newline="") as lines:
        SOURCES += csv.reader(lines)
FIGURES = [row for row in rows(CHOOSING) if any(map(MEASURED.search, row))]


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: ", ".join(row[:3]))
def test_a_row_of_figures_is_in_what_was_measured(row: list[str]) -> None:
    def within(source: list[str]) -> bool:
        left = iter(source)
        return all(cell in left for cell in numbers(row))

    assert any(map(within, SOURCES))


def test_there_are_figures_of_each_kind() -> None:
    assert "](measured.md#" in CHOOSING
    assert len(FIGURES) > 15


def test_every_mechanism_and_estimator_is_named() -> None:
    for name in (*registered_mechanisms(), *registered_estimators()):
        assert f"`{name}`" in CHOOSING, name
