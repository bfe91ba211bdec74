"""The Makefile takes the first Python that is there and new enough."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEW, OLD, BROKEN = "new", "old", "broken"
#: What a name on the PATH starts: this Python, one that says it is too old, or a shim that starts nothing.
PROGRAMS = {NEW: f'exec "{sys.executable}" "$@"', OLD: "exit 1", BROKEN: "echo no such version >&2; exit 127"}


def installed_with(
    folder: Path, pythons: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """What ``make install`` would do on a PATH with these Pythons and no other."""
    for program in ("make", "sh"):
        (folder / program).symlink_to(shutil.which(program) or pytest.skip(f"{program} is not here"))
    for name, kind in pythons.items():
        (folder / name).write_text(f"#!/bin/sh\n{PROGRAMS[kind]}\n")
        (folder / name).chmod(0o755)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTHON"))
    }
    return subprocess.run(
        ["make", "--dry-run", "install", f"VENV={folder}/venv", *arguments], cwd=ROOT,
        env={**environment, "PATH": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3.11": NEW, "python3.12": NEW, "python3.13": NEW, "python3": NEW}, "python3.11"),
        ({"python3.12": NEW, "python3": NEW}, "python3.12"),
        ({"python3.13": NEW}, "python3.13"),
        ({"python3": NEW}, "python3"),
        ({"python3.11": BROKEN, "python3.12": BROKEN, "python3.13": NEW, "python3": OLD}, "python3.13"),
    ],
)
def test_the_first_python_that_is_new_enough_is_taken(
    pythons: dict[str, str], taken: str, tmp_path: Path
) -> None:
    ran = installed_with(tmp_path, pythons)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == f"{taken} -m venv {tmp_path}/venv"


@pytest.mark.parametrize("pythons", [{}, {"python3": OLD}, {"python3.12": BROKEN, "python3": OLD}])
def test_without_one_make_says_so_in_one_sentence(pythons: dict[str, str], tmp_path: Path) -> None:
    ran = installed_with(tmp_path, pythons)
    (line,) = ran.stderr.splitlines()
    assert ran.returncode == 2
    assert "ldpbeam needs Python 3.11 or newer, and none of python3.11 python3.12 python3.13 python3" in line
    assert "make PYTHON=" in line
    assert not ran.stdout


def test_a_python_that_is_named_is_taken(tmp_path: Path) -> None:
    ran = installed_with(tmp_path, {"python3.11": NEW}, "PYTHON=/opt/python3.12")
    assert ran.stdout.startswith("/opt/python3.12 -m venv ")
