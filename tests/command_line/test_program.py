"""The program itself: its version, and the two ways to start it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SETUP = Path(__file__).parents[2] / "setup.py"
PROGRAM = [str(Path(sys.executable).with_name("ldpbeam"))]
MODULE = [sys.executable, "-m", "ldpbeam"]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_version_is_the_packages(command: Any) -> None:
    (version,) = re.findall(r'^    version="([^"]+)",$', SETUP.read_text(), flags=re.MULTILINE)
    assert command("--version") == (0, f"ldpbeam {version}\n", "")


@pytest.mark.parametrize("arguments", [["explain", "--estimators"], ["estimat"]])
def test_the_module_does_what_the_program_does(arguments: list[str]) -> None:
    module, program = run(*MODULE, *arguments), run(*PROGRAM, *arguments)
    assert (module.returncode, module.stdout, module.stderr) == (
        program.returncode,
        program.stdout,
        program.stderr,
    )
    assert module.stdout + module.stderr


def test_a_shell_without_completion_is_refused_with_those_that_have_it(command: Any) -> None:
    ran = command("--completion", "csh")
    assert (ran.code, ran.out) == (2, "")
    said = "ldpbeam: argument SHELL: invalid choice: 'csh' (choose from 'bash', 'zsh', "
    assert ran.err.startswith(said)
