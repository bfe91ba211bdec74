"""The figures of docs/choosing.md are rows of the tables of measurements."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from benchmarks.pages import split, values
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import registered_mechanisms
from ldpbeam.planning.designs import designs
from ldpbeam.schemas.study.yaml_file import parse_study

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
    assert len(FIGURES) > 20


def test_every_mechanism_and_estimator_is_named() -> None:
    for name in (*registered_mechanisms(), *registered_estimators()):
        assert f"`{name}`" in CHOOSING, name


def numbers_in(text: str) -> list[float]:
    return [float(number.rstrip(",").replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def test_the_table_of_many_windows_is_what_plan_says() -> None:
    services = "\n".join(
        f"      {name}: {{mechanism: {name}, epsilon: 1, lifetime_epsilon: 2}}" for name in ("oue", "grr")
    )
    study = parse_study(
        "study: hours\nattributes:\n  x:\n    domain: {categories: 10}\n"
        f"    services:\n{services}\n    estimates: {{a: {{estimator: inversion, services: [grr]}}}}\n"
        "windows: {size: 1h}\n"
    )
    lines = {(line.design, line.service): line for line in designs(study, "x", 100_000)}
    section = CHOOSING.partition("## Many windows")[2].partition("\n## ")[0]
    table = {row[0].partition(",")[0]: [numbers_in(cell) for cell in row[1:]] for row in rows(section)[2:]}
    assert list(table) == list(dict.fromkeys(design for design, _ in lines))
    for design, (of_oue, of_grr, about_values, changes_included) in table.items():
        oue, grr = lines[design, "oue"], lines[design, "grr"]
        for line, said in ((oue, of_oue), (grr, of_grr)):
            assert said == [float(f"{line.window:.2g}"), float(f"{line.period:.2g}")]
            assert about_values[-1] == round(line.about_values)
        said_of_changes = dict.fromkeys([round(oue.changes_included), round(grr.changes_included)])
        assert changes_included == list(said_of_changes)
    assert table["remembered noise"][2][0] == 2.0
