"""What the machine refuses (memory, room, depth) is one line; a mistake of ours keeps its traceback."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.errors import machine_problem
from ldpbeam.transforms.outputs import snapshots

FULL = OSError(errno.ENOSPC, "No space left on device", "/out/f")
TRACEBACK = (
    "bundle inst001 failed: Traceback (most recent call last):\n"
    '  File "x.py", line 3, in <lambda>\n'
    "OSError: [Errno 5] earlier\n\nDuring handling of the above exception, another occurred:\n\n"
    "RuntimeError: OSError: [Errno 28] No space left on device: '/a/b' [while running 'Map(boom)']\n"
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "there is not enough memory; give the process more, or read less at once"),
        (RecursionError("so deep"), "something in the input is nested too deeply to be read (so deep)"),
        (FULL, "No space left on device: '/out/f'"),
        # In the text of a worker's traceback.
        (RuntimeError(TRACEBACK), "No space left on device: '/a/b'"),
        (RuntimeError("x\nMemoryError [while running 'Map']\n"),
         "there is not enough memory; give the process more, or read less at once"),
        (RuntimeError("x\nTypeError: OSError is not callable\n"), None),
        (TypeError("ours"), None),
    ],
)  # fmt: skip
def test_errors_of_the_machine_are_told_from_ours(error: Exception, said: str | None) -> None:
    assert machine_problem(error) == said


def test_a_mistake_of_ours_in_the_handling_of_an_error_is_ours() -> None:
    try:
        try:
            raise FULL
        except OSError as error:
            raise TypeError("ours") from error
    except TypeError as error:
        assert machine_problem(error) is None


@pytest.fixture
def given(tmp_path: Path, small_text: str, write_lines: Any) -> list[object]:
    """A command with two hundred reports."""
    (tmp_path / "study.yaml").write_text(small_text)
    record = {"attribute": "x", "service": "a", "event_time": 1_800_000_000_000, "payload": 0.5}
    reports = write_lines(tmp_path / "in.jsonl", [{**record, "user_id": f"u{i}"} for i in range(200)])
    return ["estimate", "--study", tmp_path / "study.yaml", "--input", reports, "--output", tmp_path / "out"]


def test_an_error_of_a_worker_and_ctrl_c_are_one_line_and_a_mistake_of_ours_is_raised(
    given: list[object], command: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    raised: list[BaseException] = [FULL]

    def fail(*_: object, **__: object) -> None:
        raise raised[0]

    monkeypatch.setattr(snapshots, "write_encoded", fail)
    ran = command(*given)
    assert (ran.code, ran.err) == (2, "ldpbeam: No space left on device: '/out/f'\n")
    assert "Traceback" not in "".join(capfd.readouterr())
    raised[0] = KeyboardInterrupt()
    ran = command(*given)
    assert (ran.code, ran.err) == (
        130,
        "\nldpbeam: estimate was interrupted; run the same command to start it again\n",
    )
    raised[0] = KeyError("ours")
    with pytest.raises(KeyError, match="ours"):
        command(*given)


def test_a_disk_that_takes_no_more_is_one_line_and_no_half_output(
    given: list[object], tmp_path: Path
) -> None:
    temporary, study = tmp_path / "temporary", tmp_path / "study.yaml"
    temporary.mkdir()
    text = study.read_text().replace("estimator: ule", "estimator: ua")
    study.write_text(text + "duplicates: keep\n")

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

    ran = subprocess.run(
        [sys.executable, "-m", "ldpbeam.command_line.main", *map(str, given)], preexec_fn=small_files,
        env={**os.environ, "TMPDIR": str(temporary)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert ran.stderr.startswith("ldpbeam: File too large")
    assert not list((tmp_path / "out").rglob("*.avro"))
    assert not list(temporary.iterdir())
