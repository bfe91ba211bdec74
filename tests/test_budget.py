"""The budget of lines refuses what is above it, and counts code alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, with a budget of its own."""
    spec = importlib.util.spec_from_file_location("budget", ROOT / ".ci" / "budget.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BUDGET", tmp_path / "budget.csv")
    monkeypatch.setattr(sys, "argv", ["budget.py"])
    monkeypatch.setattr(module, "counted", lambda: {"transforms/sources": 2_000, "tests": 10})
    return module


def test_a_line_of_code_is_no_comment_docstring_or_blank_line(budget: Any) -> None:
    head = '"""A module."""\n\n# Why.\nimport os\n\n\n'
    body = 'def f():\n    """Does it.\n\n    Twice.\n    """\n    return 1\n'
    assert budget.python_lines(head + body) == 3


@pytest.mark.parametrize(("path", "part"), [
    ("transforms/sources/read.py", "transforms/sources"),
    ("transforms/tally.py", "transforms"),
    ("tests/spool/test_commits.py", "tests"),
    ("setup.py", "."),
    ("docs/study.md", "docs, words"),
    ("README.md", None),
    ("clients/javascript/src/study.js", "clients, js"),
])  # fmt: skip
def test_each_file_counts_to_one_part(budget: Any, path: str, part: str | None) -> None:
    assert budget.part_of(Path(path)) == part


def test_a_part_above_its_budget_or_without_one_is_refused(budget: Any) -> None:
    budget.BUDGET.write_text("transforms/sources,2000\ntests,10\n")
    budget.main()
    budget.BUDGET.write_text("transforms/sources,1999\n")
    with pytest.raises(SystemExit, match="transforms/sources: 2,000, and 1,999 are allowed") as refused:
        budget.main()
    assert "tests: 10, and 0 are allowed" in str(refused.value)


def test_a_budget_is_lowered_and_never_raised(budget: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    budget.BUDGET.write_text("transforms/sources,2500\ntests,7\ngone,3\n")
    monkeypatch.setattr(sys, "argv", ["budget.py", "--write"])
    budget.main()
    assert budget.BUDGET.read_text() == "tests,7\ntransforms/sources,2000\n"
