"""The tests beside busy processes: rounds, the exit code, and nothing that stays behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BUSY = Path(__file__).with_name("busy.py")
SUITE = """
import os
from pathlib import Path

def test_neighbours():
    here = Path(__file__)
    rounds = here.with_name("rounds")
    with rounds.open("a") as stream:
        stream.write("x")
    children = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()
    with here.with_name("spinning").open("a") as stream:
        stream.write(" ".join(own for own in children if own != str(os.getpid())) + "\\n")
    assert len(rounds.read_text()) != FAILS
"""


@pytest.mark.parametrize(("fails", "code", "rounds"), [(0, 0, 3), (2, 1, 2)])
def test_rounds_run_beside_busy_processes_until_one_fails(
    fails: int, code: int, rounds: int, tmp_path: Path
) -> None:
    suite = tmp_path / "test_small.py"
    suite.write_text(SUITE.replace("FAILS", str(fails)))
    ran = subprocess.run(
        [sys.executable, BUSY, "2", "3", "-q", "-p", "no:cacheprovider", suite],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == code, ran.stdout
    assert (tmp_path / "rounds").read_text() == "x" * rounds
    seen = [line.split() for line in (tmp_path / "spinning").read_text().splitlines()]
    assert [len(own) for own in seen] == [2] * rounds
    assert not any(Path(f"/proc/{own}").exists() for own in seen[0])
