"""The tables of docs/measured, and the pages that show rows of them."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from benchmarks import coverage
from benchmarks.coverage_sums import read
from benchmarks.pages import SUFFIXES, Table, everything, renew, show, split, values

DOCS = Path(__file__).parents[2] / "docs"
EXCERPT = re.compile(
    r"((?:^\|.*\|\n)*)\n(?:(\d+) of|All) (\d+) rows(?:; all rows and columns)? are in "
    r"\[(measured/\w+\.csv)\]",
    re.MULTILINE,
)
EXCERPTS = [
    pytest.param(*found.groups(), id=f"{page.name}: {found[4]}")
    for page in sorted(DOCS.glob("*.md"))
    for found in EXCERPT.finditer(page.read_text(encoding="utf-8"))
]
LINES = ("| name | error | share | note |", "| --- | --- | --- | --- |")
ROWS = ("| a, b | 1,200.0 ± 3.5 (7) | 95.5% | **low** |", "| c | 2.0 ± 0.1 | 100.0% | - |")


@pytest.mark.parametrize(("shown", "few", "many", "name"), EXCERPTS)
def test_rows_of_a_page_are_rows_of_the_file_that_it_names(
    shown: str, few: str | None, many: str, name: str
) -> None:
    with (DOCS / name).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == int(many)
    lines = shown.splitlines()
    assert max(len(lines) - 2, 0) == int(few or 0)
    for line in lines[2:]:
        cells = {
            column + suffix: value
            for column, cell in zip(split(lines[0]), split(line), strict=True)
            for suffix, value in zip(SUFFIXES, values(cell), strict=False)
        }
        assert any(cells.items() <= row.items() for row in rows), line


def test_every_file_is_named_by_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    for file in (DOCS / "measured").iterdir():
        assert f"](measured/{file.name})" in text, file.name


def test_a_file_has_all_rows_and_the_page_those_that_are_shown(tmp_path: Path) -> None:
    def first(row: Mapping[str, str]) -> bool:
        return row["name"] == "a, b"

    show(["# Title", "", Table("some", LINES + ROWS, first, ("error", "note"))], tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (
        "# Title\n\n| name | share |\n| --- | --- |\n| a, b | 95.5% |\n\n"
        "1 of 2 rows; all rows and columns are in [measured/some.csv](measured/some.csv).\n"
    )
    assert (tmp_path / "measured" / "some.csv").read_text() == (
        'name,error,"error, standard error","error, in brackets",share,note\n'
        '"a, b",1200.0,3.5,7,0.955,low\n'
        "c,2.0,0.1,,1.000,\n"
    )


@pytest.mark.parametrize(("shown", "lines"), [(everything, 4), (lambda row: False, 0)], ids=["all", "none"])
def test_a_page_may_show_all_rows_or_none(shown: Callable[[Mapping[str, str]], bool], lines: int) -> None:
    excerpt = list(Table("some", LINES + ROWS, shown).excerpt())
    assert len([line for line in excerpt if line.startswith("|")]) == lines


def test_a_part_takes_the_place_of_the_one_with_its_heading(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    renew(["# Title", "", "Before.", "## One", "1", "### Within", "2", "## Two", "3"], page)
    renew(["## One", "", "4", "## Three", "5"], page)
    assert page.read_text() == "# Title\n\nBefore.\n\n## One\n\n4\n\n## Two\n3\n\n## Three\n5\n"


def test_the_page_on_coverage_is_made_of_the_sums_that_are_kept(tmp_path: Path) -> None:
    if any(not (coverage.shapes.DATA / name).exists() for name in coverage.FILES.values()):
        pytest.skip("needs tables of incomes and diamonds, which are not in the project")
    # Other programs write the last parts of the page.
    shutil.copy(DOCS / "coverage.md", tmp_path)
    renew(coverage.page(read(coverage.RESULTS), read(coverage.RESULTS_OF_STRICT)), tmp_path / "coverage.md")
    for name in ("coverage.md", "measured/coverage.csv", "measured/coverage_strict.csv"):
        assert (tmp_path / name).read_text("utf-8") == (DOCS / name).read_text("utf-8")
