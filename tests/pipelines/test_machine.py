"""What the machine refuses (memory, room, depth) is one line; a mistake of ours keeps its traceback."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.filesystem import BeamIOError

from ldpbeam.pipelines.errors import machine_problem
from ldpbeam.pipelines.estimates import run_estimates
from ldpbeam.pipelines.graphs import engines
from ldpbeam.runners import direct
from ldpbeam.transforms.outputs import snapshots

FULL = OSError(errno.ENOSPC, "No space left on device", "/out/f")


@pytest.fixture
def given(tmp_path: Path, small_text: str, write_lines: Callable[..., Path]) -> list[object]:
    """A command with two hundred reports."""
    (tmp_path / "study.yaml").write_text(small_text)
    record = {"attribute": "x", "service": "a", "event_time": 1_800_000_000_000, "payload": 0.5}
    records = [{**record, "user_id": f"u{i}"} for i in range(200)]
    reports = write_lines(tmp_path / "in.jsonl", records)
    study = tmp_path / "study.yaml"
    return ["estimate", "--study", study, "--input", reports, "--output", tmp_path / "out"]


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "there is not enough memory; give the process more, or read less at once"),
        (RecursionError("so deep"), "something in the input is nested too deeply to be read (so deep)"),
        (FULL, "No space left on device: '/out/f'"),
        (BeamIOError("Create failed", {"gs://b/f": FULL}), "gs://b/f: No space left on device"),
    ],
)
@pytest.mark.parametrize("place", ["worker", "driver"])
def test_what_the_machine_refuses_is_one_line(
    place: str,
    error: Exception,
    said: str,
    given: list[object],
    command: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if place == "worker":
        monkeypatch.setattr(snapshots, "write_snapshots", failing(error))
    else:
        monkeypatch.setattr(run_estimates, "compute_all", failing(error))
    found = command(*given)
    assert found.code == 2
    assert found.err.startswith(f"ldpbeam: {said}")
    assert found.err.count("\n") == 1
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("kind", [AttributeError, TypeError, KeyError])
def test_a_mistake_of_ours_keeps_its_traceback(
    kind: type[Exception], given: list[object], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engines.direct, "runner", failing(kind("ours")))
        with pytest.raises(kind, match="ours"):
            command(*given)
    with monkeypatch.context() as patch:
        patch.setattr(direct.FnApiRunner, "is_fnapi_compatible", failing(kind("ours")))
        with pytest.raises(kind, match="ours"):
            command(*given)
    monkeypatch.setattr(snapshots, "write_snapshots", failing(kind("ours")))
    with pytest.raises(kind, match="ours"):
        command(*given)


def test_an_error_is_found_in_the_text_of_a_workers_traceback() -> None:
    text = (
        "bundle inst001 failed: Traceback (most recent call last):\n"
        '  File "x.py", line 3, in <lambda>\n'
        "OSError: [Errno 5] earlier\n\nDuring handling of the above exception, another occurred:\n\n"
        "RuntimeError: OSError: [Errno 28] No space left on device: '/a/b' [while running 'Map(boom)']\n"
    )
    assert machine_problem(RuntimeError(text)) == "No space left on device: '/a/b'"
    assert machine_problem(RuntimeError("x\nMemoryError [while running 'Map']\n"))
    assert machine_problem(RuntimeError("x\nTypeError: OSError is not callable\n")) is None
    assert machine_problem(TypeError("ours")) is None


def test_a_mistake_of_ours_in_the_handling_of_an_error_is_ours() -> None:
    try:
        try:
            raise FULL
        except OSError as error:
            raise TypeError("ours") from error
    except TypeError as error:
        assert machine_problem(error) is None


def test_a_disk_that_takes_no_more_is_one_line_and_no_half_output(
    given: list[object], tmp_path: Path
) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

    ran = subprocess.run(
        [sys.executable, "-m", "ldpbeam.pipelines.main", *map(str, given)],
        preexec_fn=small_files,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert ran.stderr.startswith("ldpbeam: File too large")
    assert not list((tmp_path / "out").rglob("*.avro"))
