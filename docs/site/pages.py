"""The pages of the site: the Markdown of the repository at its own paths, so that all links work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
#: Where pages are, beside the folder of documents.
OTHERS = ("*.md", "runners/**/*.md", "clients/**/*.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")
FENCE = re.compile(r"^ *(```|~~~)")
ITEM = re.compile(r"^( *)([-*]|\d+\.) +")


def pages() -> list[Path]:
    """The Markdown files of the site, relative to the repository."""
    found = [*(ROOT / "docs").rglob("*.md")]
    for pattern in OTHERS:
        found += ROOT.glob(pattern)
    return sorted(path.relative_to(ROOT) for path in found)


def linked(page: Path) -> Iterator[Path]:
    """The files, other than pages, that a page has links to; relative to the repository."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for _, _, target, _ in LINK.findall(text):
        path = Path(os.path.normpath(page.parent / target))
        if (ROOT / path).is_file() and path.suffix != ".md":
            yield path


def decisions() -> list[Path]:
    """The pages of decisions, in the order of their numbers."""
    found = (ROOT / "docs" / "decisions").glob("[0-9]*.md")
    return sorted((p.relative_to(ROOT) for p in found), key=lambda path: int(path.name.partition("-")[0]))


def on_config(config: Any) -> Any:
    """Add the pages of decisions to the navigation."""
    for section in config.nav:
        for entry in section.get("Development", []):
            if "Decisions" in entry:
                entry["Decisions"] += map(str, decisions())
    return config


def on_files(files: Files, config: Any) -> Files:
    """Take the pages and what they link to."""
    chosen = pages()
    others = {path for page in chosen for path in linked(page)}
    theme = [file for file in files if file.src_dir != config.docs_dir]
    found = [File.generated(config, str(path), abs_src_path=str(ROOT / path)) for path in chosen]
    found += [File.generated(config, str(path), abs_src_path=str(ROOT / path)) for path in sorted(others)]
    return Files([*theme, *found])


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """GitHub's Markdown in the form that Python's Markdown reads."""
    return links_to_pages(as_python_reads(text), Path(page.file.src_uri))


def as_python_reads(text: str) -> str:
    """Lists, tables and blocks of code begin after an empty line, and nested lists have four spaces."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        before = lines[-1] if lines else ""
        if FENCE.match(line):
            if not fenced and before.strip():
                lines.append("")
            fenced = not fenced
        elif not fenced:
            starts = (ITEM.match(line) and not ITEM.match(before) and not before.startswith(" ")) or (
                line.startswith("|") and not before.startswith("|")
            )
            if starts and before.strip():
                lines.append("")
            indent = len(line) - len(line.lstrip(" "))
            if 2 <= indent < 4 and ITEM.match(line):
                line = " " * (4 - indent) + line
        lines.append(line)
    return "\n".join(lines) + "\n"


def links_to_pages(text: str, page: Path) -> str:
    """A link to a folder leads to its README; without one, only its text stays."""

    def replaced(match: re.Match[str]) -> str:
        image, shown, target, anchor = match.groups()
        folder = ROOT / os.path.normpath(page.parent / target)
        if not folder.is_dir():
            return match[0]
        if not (folder / "README.md").exists():
            return shown
        return f"{image}[{shown}]({target.rstrip('/')}/README.md{anchor or ''})"

    return LINK.sub(replaced, text)
