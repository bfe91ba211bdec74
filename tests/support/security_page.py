"""The sections and tables of ``docs/limits.md``, which tests read."""

from __future__ import annotations

from pathlib import Path

LIMITS = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text of a section of the page."""
    return LIMITS.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows_of(text: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[1:]]
