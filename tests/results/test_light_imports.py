"""Commands start at once: those that read results import neither Beam nor SciPy, and a small run no Beam."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbeam.errors import BEYOND, DONE
from ldpbeam.schemas.study.yaml_file import read_study

KEPT = Path(__file__).parents[1] / "data" / "0.1.0"
PROGRAM = """
import sys
from ldpbeam.command_line.main import main
code = main()
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that a released version wrote, with its study beside it."""
    copy = tmp_path_factory.mktemp("kept") / "out"
    shutil.copytree(KEPT / "out", copy)
    (copy / "study.json").write_text(read_study(KEPT / "study.yaml").text)
    report = '{"user_id": "u", "payload": 0.5, "event_time": "2026-01-01T00:00:00Z", "region": "n"}\n'
    (copy / "one.jsonl").write_text(report)
    return copy


#: The arguments of a command, its exit code, and what it must not import.
COMMANDS = {
    "check": (["check", "OUT", "mean > 0"], BEYOND, {"apache_beam", "scipy"}),
    "show": (["show", "OUT"], DONE, {"apache_beam", "scipy"}),
    "show --csv": (["show", "OUT", "--csv", "distribution"], DONE, {"apache_beam", "scipy"}),
    "diff": (["diff", "OUT", "OUT"], DONE, {"apache_beam", "scipy"}),
    "dead-letters": (["dead-letters", "OUT"], DONE, {"apache_beam", "scipy"}),
    "explain": (["explain", "--study", str(KEPT / "study.yaml")], DONE, {"apache_beam"}),
    "estimate": (
        ["estimate", "--study", str(KEPT / "study.yaml"), "--input", "OUT/one.jsonl", "--output", "OUT/one"]
        + ["--attribute", "minutes", "--service", "maps"], DONE, {"apache_beam", "pandas"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_nothing_that_it_does_not_need(name: str, folder: Path) -> None:
    arguments, code, unwanted = COMMANDS[name]
    given = [argument.replace("OUT", str(folder)) for argument in arguments]
    ran = subprocess.run([sys.executable, "-c", PROGRAM, *given], capture_output=True, text=True)
    assert (ran.returncode, bool(ran.stdout)) == (code, True), ran.stderr
    imported = set(ran.stderr.split())
    assert "ldpbeam.command_line.main" in imported
    assert unwanted & imported == set()
