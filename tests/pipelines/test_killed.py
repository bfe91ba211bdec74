"""A batch run that is killed at any moment: the same command again leaves the bytes of an undisturbed one.

``LDPBEAM_KILLS=30`` kills at thirty moments, half of them while a file is written or renamed.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.output_folders import contents
from support.studies import SMALL

KILLS = int(os.environ.get("LDPBEAM_KILLS", "2"))
START, HOUR = 1_795_132_800_000, 3_600_000
#: The command, which says when it is about to make, rename or delete a file of its output, and then waits.
SLOW = """
import os, sys, time
from ldpbeam.command_line.main import main

pause, command = float(sys.argv[1]), sys.argv[2:]
output = command[command.index("--output") + 1]

def slowed(event, arguments):
    makes = event == "open" and arguments[2] & os.O_CREAT
    if (makes or event in ("os.rename", "os.remove")) and str(arguments[0]).startswith(output):
        print("@", event, arguments[0], flush=True)
        time.sleep(pause)

sys.addaudithook(slowed)
sys.exit(main(command))
"""


@pytest.fixture
def given(tmp_path: Path, write_lines: Any) -> list[str]:
    """A command with reports of six hours, some of them bad."""
    (tmp_path / "study.yaml").write_text(f"{SMALL}windows: {{size: 1h}}\n")
    records = [
        {
            "user_id": f"u{place}", "attribute": "x", "service": "ab"[place % 2],
            "event_time": START + place * 6 * HOUR // 900, "payload": 0.5 if place % 90 else "bad",
        }
        for place in range(900)
    ]  # fmt: skip
    reports = write_lines(tmp_path / "in.jsonl", records)
    study = str(tmp_path / "study.yaml")
    given = ["estimate", "--study", study, "--input", str(reports), "--output", str(tmp_path / "out")]
    return [*given, "--max-bad-fraction", "1"]


def start(given: list[str], pause: float) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", SLOW, str(pause), *given]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_leaves_the_same_bytes_when_it_is_run_again(
    given: list[str], tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, temporary, draw = tmp_path / "out", tmp_path / "temporary", random.Random(5)
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    began = time.monotonic()
    with start(given, 0) as process:
        assert process.stdout is not None
        events = sum(line.startswith("@") for line in process.stdout)
    assert process.returncode == 0
    lasted = time.monotonic() - began
    whole = contents(out)
    assert events > 40
    assert len([name for name in whole if name.startswith("statistics")]) == 6
    assert any(name.startswith("dead_letters") for name in whole)
    killed = while_writing = 0
    for place in range(KILLS):
        shutil.rmtree(out)
        # Every second time while a file is written, renamed or deleted.
        with start(given, 0.05 if place % 2 else 0) as process:
            assert process.stdout is not None
            if place % 2:
                for _ in range(draw.randrange(1, events)):
                    process.stdout.readline()
                while_writing += 1
            else:
                time.sleep(draw.uniform(0, lasted))
            process.kill()
            process.stdout.close()
        assert process.returncode in (-9, 0)
        killed += process.returncode == -9
        left, spilled = contents(out) if out.exists() else {}, list(temporary.iterdir())
        complete = b'"complete": true' in left.get("run.json", b"")
        assert not complete or whole.items() <= left.items()
        again = command(*given)
        assert again.code == 0, again.err
        assert contents(out) == whole, place
        assert not list(temporary.iterdir())
        moment = "while writing" if place % 2 else "at a moment"
        print(f"{place}: {moment}, {len(left)} files and {len(spilled)} temporary folders were left")
    assert killed >= KILLS // 2
    assert while_writing == KILLS // 2
