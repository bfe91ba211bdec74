"""The tables of docs/measured, and the page that shows rows of them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from benchmarks.measured import PAGES, TABLES, renewed
from benchmarks.pages import show, table

DOCS = Path(__file__).parents[2] / "docs"


def test_the_tables_of_the_pages_are_made_from_the_files() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    for text in texts:
        assert renewed(text) == text, "make them again: python -m benchmarks.measured"
    assert {name for name in TABLES if any(f"<!-- {name} -->" in text for text in texts)} == set(TABLES)


def test_every_file_is_named_by_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    for file in (DOCS / "measured").iterdir():
        assert f"](measured/{file.name})" in text, file.name


def test_a_table_is_kept_with_numbers_that_programs_read(tmp_path: Path) -> None:
    some = table(
        "some",
        ["name", "error", "share", "note"],
        [["a, b", "1,200.0 ± 3.5 (7)", "95.5%", "**low**"], ["c", "2.0 ± 0.1", "100.0%", "-"]],
    )
    show(["a line", some], tmp_path)
    assert (tmp_path / "some.csv").read_text() == (
        'name,error,"error, standard error","error, in brackets",share,note\n'
        '"a, b",1200.0,3.5,7,0.955,low\n'
        "c,2.0,0.1,,1.000,\n"
    )


def test_the_readme_has_the_figures_of_columns_on_which_nobody_tunes() -> None:
    with (DOCS / "measured" / "held_out.csv").open(encoding="utf-8", newline="") as lines:
        means = {row["cells of"]: f"{float(row['geometric mean']):.2f}" for row in csv.DictReader(lines)}
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    said = re.search(
        r"its error is ([\d.]+) times .*?\(([\d.]+) at epsilon 0\.5, ([\d.]+) at epsilon 4\)", readme
    )
    assert said is not None
    assert said.groups() == (means["all"], means["epsilon 0.5"], means["epsilon 4"])
