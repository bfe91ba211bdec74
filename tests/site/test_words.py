"""The documents are short: all of them, each page, and each row of the tables that grew into walls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ALL, ONE, ROW = 60_000, 2_500, 30
#: The references of what a client sends, and of every field of every file.
LONG = ("reports.md", "formats.md")
#: Their tables said everything.
WALLS = ("limits.md", "outputs.md", "reports.md", "security.md", "streaming.md")
#: A table of numbers, which is no prose.
VECTORS = "draws: report"


def words(text: str) -> int:
    """As ``wc -w`` counts them."""
    return len(text.split())


def test_all_documents_have_at_most_so_many_words() -> None:
    assert sum(words(page.read_text(encoding="utf-8")) for page in PAGES) <= ALL


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in LONG], ids=lambda page: page.name
)
def test_a_page_has_at_most_so_many_words(page: Path) -> None:
    assert words(page.read_text(encoding="utf-8")) <= ONE


@pytest.mark.parametrize("name", WALLS)
def test_a_row_of_a_table_has_at_most_so_many_words(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    for table in re.findall(r"^(?:\|.*\n)+", text, flags=re.MULTILINE):
        if VECTORS not in table:
            for row in table.splitlines():
                assert words(row.replace("|", " ")) <= ROW, row
