"""The site of the documentation: every page is in its navigation, every public name in its reference."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import ldpbeam
import ldpbeam.beam
from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.schemas.study.json_schema import study_schema

mkdocs_config = pytest.importorskip("mkdocs.config", reason="the site needs mkdocs-material")

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions" / "README.md"
REFERENCE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
#: Pages of the site beside those of docs/.
OTHERS = {
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "GOVERNANCE.md", "CODE_OF_CONDUCT.md",
}  # fmt: skip


def entries(navigation: Any) -> Iterator[str]:
    """The pages of a navigation."""
    for entry in navigation if isinstance(navigation, list) else navigation.values():
        if isinstance(entry, str):
            yield entry
        else:
            yield from entries(entry)


@pytest.fixture(scope="module")
def navigation() -> list[str]:
    config = mkdocs_config.load_config(str(ROOT / "mkdocs.yml"))
    return list(entries(config.plugins.on_config(config).nav))


def test_every_page_is_in_the_navigation_once_and_every_entry_is_a_page(navigation: list[str]) -> None:
    folders = ("docs", "runners", "clients")
    pages = {str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*.md")}
    assert sorted(navigation) == sorted(pages | OTHERS)


def test_decisions_are_in_the_order_of_their_numbers_and_each_page_is_in_their_list(
    navigation: list[str],
) -> None:
    lines = re.findall(r"^\| (\d+) \| (.+?) \|", DECISIONS.read_text(encoding="utf-8"), re.MULTILINE)
    numbers = [int(number) for number, _ in lines]
    assert numbers == sorted(set(numbers))
    listed = [f"docs/decisions/{page}" for _, text in lines for page in re.findall(r"\]\((\d+-\S+)\)", text)]
    assert listed == [page for page in navigation if re.match(r"docs/decisions/\d+-", page)]


def test_every_public_name_is_in_the_reference_and_every_name_of_it_exists() -> None:
    names = re.findall(r"^::: (.+)$", REFERENCE, flags=re.MULTILINE)
    public = {f"ldpbeam.{name}" for name in ldpbeam.__all__}
    assert public <= set(names)
    assert "ldpbeam.beam" in names
    assert len(names) == len(set(names))
    for name in names:
        module, _, own = name.rpartition(".")
        assert getattr(importlib.import_module(module), own).__doc__, name


def test_each_name_command_and_key_that_may_change_exists() -> None:
    rows = dict(
        re.findall(r"^\| (names|commands|keys of a study) \| (.+) \|$", REFERENCE, flags=re.MULTILINE)
    )
    listed = {kind: set(re.findall(r"`(\w+)`", text)) for kind, text in rows.items()}
    assert listed["names"] - {"ldpbeam"} <= set(ldpbeam.__all__)
    assert listed["commands"] <= set(COMMANDS)
    keys = set(re.findall(r'"(\w+)": ', json.dumps(study_schema())))
    assert listed["keys of a study"] <= keys


class _Fetched(HTMLParser):
    """What a browser fetches for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(given.get("href") or "")
        elif tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.found.append(given["src"] or "")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    reference = (tmp_path / "docs" / "api.html").read_text(encoding="utf-8")
    transforms = [name for name in ldpbeam.beam.__all__ if callable(getattr(ldpbeam.beam, name))]
    for name in (*ldpbeam.__all__, *(f"beam.{name}" for name in transforms)):
        assert f'id="ldpbeam.{name}"' in reference, name
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        parser = _Fetched()
        parser.feed(page.read_text(encoding="utf-8"))
        assert parser.found
        for target in parser.found:
            assert not re.match(r"[a-z]+:|//", target), (page.name, target)
            if not target.startswith("/"):
                assert (page.parent / target.partition("?")[0]).exists(), (page.name, target)
        shown = page.read_text(encoding="utf-8")
        assert ":class:" not in shown and "::: " not in shown, page.name
