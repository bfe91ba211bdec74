"""The files of a stream's state: their names, what they say, and that one module knows them."""

from __future__ import annotations

import ast
import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.transforms.offsets import Checksum
from ldpbeam.transforms.outputs import names
from ldpbeam.transforms.state import files
from ldpbeam.transforms.state.counted import RunningAccounting
from ldpbeam.transforms.state.files import INCOMPLETE, JOURNAL, STOP, Kind, run_folder
from ldpbeam.transforms.state.records import Claims, Incomplete, JournalRecord, OpenWindow, Step, Steps

ROOT = Path(__file__).parents[3]
KINDS: dict[str, Kind[Any]] = {each.name: each for each in vars(files).values() if isinstance(each, Kind)}
WINDOW = OpenWindow("x", 0, 10)
#: A file of each kind: what tells it from others, its value, and its text.
EXAMPLES: dict[str, tuple[tuple[int, ...], Any, str]] = {
    "run.json": (
        (),
        {"kind": "stream", "run": "r", "reads": "t at h:1", "topic": "t"},
        '{\n  "kind": "stream",\n  "run": "r",\n  "reads": "t at h:1",\n  "topic": "t"\n}\n',
    ),
    "incomplete.json": (
        (),
        Incomplete(frozenset([WINDOW]), 7, True),
        '{\n  "windows": [\n    {\n      "attribute": "x",\n      "start": 0,\n      "end": 10\n    }\n  ],\n'
        '  "before": 7,\n  "lost": true\n}\n',
    ),
    "journal-*.json": (
        (3,),
        JournalRecord(
            frozenset([WINDOW]), 4, None, {1: 9, 0: 5}, 6, {(0, 10): {1: 8}}, {1: [Checksum(8, 99)]}, 2
        ),
        '{"stopped_at": 4, "ended_at": null, "windows": [["x", 0, 10]], "positions": [[0, 5], [1, 9]], '
        '"watermark": 6, "needs": [[0, 10, [[1, 8]]]], "checksums": [[1, [[8, 99]]]], "lost_before": 2}\n',
    ),
    "steps-*-*.json": (
        (3, 1),
        Steps(1, (Step(7, None, 5), Step(9, 6, 8, (1, 2)))),
        '{"partition": 1, "steps": [[7, null, 5, []], [9, 6, 8, [1, 2]]]}\n',
    ),
    "claims-*.json": (
        (3,),
        Claims((4, 6), 4, False, 0),
        '{"each": [4, 6], "least": 4, "waits": false, "idle": 0}\n',
    ),
    "decoding-*.json": ((3,), ["a", "b"], '{"messages": ["a", "b"]}\n'),
    "files.json": ((), ["in/a#0-9", "in/b"], '["in/a#0-9", "in/b"]\n'),
    "counted.json": (
        (),
        RunningAccounting(
            Counter(used=5),
            {0: 9},
            {0: {9: (11, Counter({"in": 2}))}},
            {(0, 10): Counter(used=1)},
            8,
            True,
        ),
        '{"settled": 8, "ended": true, "positions": [[0, 9]], "final": {"used": 5}, '
        '"batches": [[0, 9, 11, {"in": 2}]], "open": [[0, 10, {"used": 1}]]}\n',
    ),
    "accounting.json": ((), {"in": 5, "used": 5}, '{\n  "in": 5,\n  "used": 5\n}\n'),
    "checkpoints.json": ((), "file:/c", '{\n  "folder": "file:/c"\n}\n'),
    "stop.json": ((), None, "{}\n"),
}
#: Readable by the owner alone.
OF_OWNER = {"decoding-*.json"}


def test_every_kind_has_an_example() -> None:
    assert EXAMPLES.keys() == KINDS.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_says_what_was_written(name: str, tmp_path: Path) -> None:
    kind, (parts, value, text) = KINDS[name], EXAMPLES[name]
    folder = run_folder(str(tmp_path), "r")
    assert kind.read(folder, *parts) is None
    kind.write(folder, value, *parts)
    (path,) = (tmp_path / "runs" / "r").iterdir()
    assert re.fullmatch(name.replace("*", r"\d"), path.name)
    assert path.read_text() == text
    assert (stat.S_IMODE(path.stat().st_mode) == 0o600) == (name in OF_OWNER)
    assert kind.read(folder, *parts) == value
    assert kind.each(folder) == {str(path): value}
    assert list(kind.of_all_runs(str(tmp_path))) == [value]
    assert kind.runs(str(tmp_path)) == ["r"]
    kind.delete(folder)
    assert not path.exists()


@pytest.mark.parametrize("content", ["[1]", '{"windows": 5}', '{"windows": [[1]]}', "{"])
def test_a_damaged_file_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "journal-0.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(f"{path}: ")):
        JOURNAL.read(str(tmp_path), 0)


@pytest.mark.parametrize("output", ["out[1]", "out*", "a b?"])
def test_runs_of_another_folder_are_not_read(output: str, tmp_path: Path) -> None:
    for folder, run in ((output, "1"), (output, "2"), ("out1", "3")):
        INCOMPLETE.write(run_folder(str(tmp_path / folder), run), Incomplete(before=int(run)))
    assert INCOMPLETE.runs(str(tmp_path / output)) == ["1", "2"]
    INCOMPLETE.change(str(tmp_path / output), lambda value: Incomplete(before=9))
    assert [value.before for value in INCOMPLETE.of_all_runs(str(tmp_path / output))] == [9, 9]
    assert [value.before for value in INCOMPLETE.of_all_runs(str(tmp_path / "out1"))] == [3]
    STOP.delete(run_folder(str(tmp_path / output), "1"))
    INCOMPLETE.delete(run_folder(str(tmp_path / output), "1"))
    assert INCOMPLETE.runs(str(tmp_path / output)) == ["2"]


def test_the_page_on_streams_has_a_row_for_each_kind_and_no_other() -> None:
    page = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
    section = page.partition("### The state of a run\n")[2].partition("\n#")[0]
    rows = [re.split(r" ?\| ?", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    assert {name.strip("`"): before for name, _, _, before, _, _ in rows} == {
        name: kind.before for name, kind in KINDS.items()
    }
    assert len(rows) == len(KINDS)
    assert all(all(cells) for cells in rows)


def texts(path: Path) -> Iterator[str]:
    """The texts in a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def modules() -> set[Path]:
    """Those of the product."""
    folders = ("ldpbeam", "pipelines", "runners", "schemas", "transforms")
    return {path.resolve() for folder in folders for path in (ROOT / folder).rglob("*.py")}


def test_no_module_of_streams_makes_the_name_of_a_runs_folder() -> None:
    named = {
        str(path.relative_to(ROOT)) for path in modules() if re.search(r"\bRUNS\b", path.read_text("utf-8"))
    }
    # Output folders have folders of scheduled runs, too.
    of_all_runs = {f"pipelines/runs/{name}.py" for name in ("ledger_folder", "ownership", "scheduled")}
    of_all_runs |= {"transforms/outputs/names.py", "transforms/state/files.py"}
    assert {name for name in named if not name.startswith("ldpbeam/folders/")} == of_all_runs


def test_no_other_module_names_a_file_of_the_state() -> None:
    stem = re.compile("|".join(rf"(?<!\w){re.escape(name.partition('*')[0])}" for name in KINDS))
    naming = {
        str(path.relative_to(ROOT))
        for path in modules()
        if any(re.fullmatch(r"[\w*/.-]*", text) and stem.search(text) for text in texts(path))
    }
    # The run and its accounting are files of every kind of run.
    assert naming == {"transforms/outputs/names.py", "transforms/state/files.py"}
    shared = {names.RUN, names.ACCOUNTING}
    assert {name for name in KINDS if name in texts(ROOT / "transforms/outputs/names.py")} == shared
