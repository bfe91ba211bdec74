"""What a command prints reaches streams of any encoding, and a reader who leaves changes no exit code."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbeam.command_line.main import main
from ldpbeam.command_line.standard_streams import standard_streams

OUT = Path(__file__).parents[1] / "data" / "0.1.0" / "out"


@pytest.mark.parametrize(("encoding", "printed"), [("ascii", rb"\xb1 \u6771"), ("latin-1", b"\xb1 \\u6771")])
def test_what_an_encoding_does_not_have_is_escaped(
    encoding: str, printed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, raw in there.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(raw, encoding, errors="strict"))
    with standard_streams():
        print("± 東", flush=True)
        print("± 東", file=sys.stderr, flush=True)
    assert [raw.getvalue().rstrip() for raw in there.values()] == [printed] * 2


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_reader_who_leaves_is_no_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, name, stream)
        with standard_streams():
            for _ in range(3):
                print("lost", file=getattr(sys, name), flush=True)


def test_a_table_goes_nowhere_if_stdout_was_closed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["show", str(OUT), "--csv", "estimates"]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_an_error_of_stdout_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as out, Path("/dev/full").open("w") as err:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        with standard_streams():
            print("lost", file=sys.stderr, flush=True)
            with pytest.raises(OSError, match="No space left"):
                print("lost", flush=True)


@pytest.mark.parametrize(
    ("output", "code", "said"), [("closed", 0, b""), ("/dev/full", 2, b"ldpbeam: No space left on device\n")]
)
def test_a_whole_command(output: str, code: int, said: bytes) -> None:
    reading, stdout = os.pipe()
    os.close(reading)
    if output != "closed":
        os.close(stdout)
        stdout = os.open(output, os.O_WRONLY)
    # Buffered, as Python is by default: what fails then fails at the end.
    found = subprocess.run(
        [sys.executable, "-m", "ldpbeam", "explain", "--help"], env={**os.environ, "PYTHONUNBUFFERED": ""},
        stdout=stdout, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(stdout)
    assert (found.returncode, found.stderr) == (code, said)
