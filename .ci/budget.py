"""Count the lines of each part of the project, and refuse a part that has more than its budget.

    python .ci/budget.py            compare with .ci/budget.csv
    python .ci/budget.py --write    lower each budget to what there is; none is raised

Who raises a budget in the file says in the commit what left elsewhere.
"""

from __future__ import annotations

import ast
import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

BUDGET = Path(__file__).with_name("budget.csv")
#: Folders whose own folders are parts by themselves.
DIVIDED = {"ldpbeam", "schemas", "transforms", "pipelines", "runners"}
#: Parts of which words are counted, those of which lines are that are not blank, and those of Python.
WORDS = {".md"}
LINES = {".js", ".mjs", ".ts", ".java", ".css", ".html"}


def python_lines(source: str) -> int:
    """How many lines hold code: no blank line, comment or docstring."""
    lines = {
        number
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
            continue
        if isinstance(first.value.value, str):
            lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def part_of(path: Path) -> str | None:
    """The part to which a file counts; None if it is not counted."""
    top = path.parts[0] if len(path.parts) > 1 else "."
    if path.suffix == ".py":
        return "/".join(path.parts[:2]) if top in DIVIDED and len(path.parts) > 2 else top
    if path.suffix in WORDS and top == "docs":
        return "docs, words"
    if path.suffix in LINES:
        return f"{top}, {path.suffix[1:]}"
    return None


def counted() -> Counter[str]:
    """The lines, or words, of each part."""
    listed = subprocess.run(["git", "ls-files", "-s"], capture_output=True, text=True, check=True).stdout
    parts: Counter[str] = Counter()
    for entry in listed.splitlines():
        about, _, name = entry.partition("\t")
        path, is_link = Path(name), about.startswith("120000")
        part = part_of(path)
        if part is None or is_link or not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            parts[part] += python_lines(text)
        elif path.suffix in WORDS:
            parts[part] += len(text.split())
        else:
            parts[part] += sum(bool(line.strip()) for line in text.splitlines())
    return parts


def main() -> None:
    """Compare what there is with the budget, or lower the budget."""
    there = counted()
    if not BUDGET.exists():
        budget = dict(there)
    else:
        with BUDGET.open(encoding="utf-8", newline="") as file:
            budget = {part: int(most) for part, most in csv.reader(file)}
    if "--write" in sys.argv:
        rows = sorted((part, min(n, budget.get(part, n))) for part, n in there.items())
        with BUDGET.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        return
    over = [
        f"{part}: {count:,}, and {budget.get(part, 0):,} are allowed"
        for part, count in sorted(there.items())
        if count > budget.get(part, 0)
    ]
    if over:
        raise SystemExit("over budget (.ci/budget.csv):\n  " + "\n  ".join(over))


if __name__ == "__main__":
    main()
