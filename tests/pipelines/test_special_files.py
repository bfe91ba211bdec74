"""FIFOs, sockets and devices in place of files: refused in a sentence, and never opened."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.folder import FolderFeed

#: Seconds after which somebody who waits at the FIFO is let go, so that the test fails instead of hanging.
PATIENCE = 20.0
REFUSED = "it is a FIFO, not a file: write its output to a file, and name that file"
REPORT = {"user_id": "u", "attribute": "x", "service": "a", "payload": 0.5}


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    """A FIFO to which nobody writes."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    over = threading.Event()

    def let_go() -> None:
        while not over.wait(PATIENCE):
            # Without a reader there is nobody to let go, and this is refused.
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue

    thread = threading.Thread(target=let_go)
    thread.start()
    yield path
    over.set()
    thread.join()


@pytest.fixture
def good(tmp_path: Path, write_lines: Any) -> Path:
    path: Path = write_lines(tmp_path / "good.jsonl", [{**REPORT, "user_id": f"u{i}"} for i in range(20)])
    return path


def test_a_fifo_among_the_input_is_refused_or_skipped(
    fifo: Path, good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path / "stop", small_text, [good, fifo])
    assert (found.code, f"{fifo}: {REFUSED}" in found.err) == (2, True)
    assert not found.path.exists()
    found = run_estimate(tmp_path / "skip", small_text, [good, fifo], "--on-bad-file", "skip")
    assert (found.code, found.accounting["used"], found.accounting["damaged_files"]) == (3, 20, 1)
    (letter,) = found.dead_letters
    assert (letter["file"], letter["detail"]) == (str(fifo), REFUSED)


@pytest.mark.parametrize("option", ["--truth", "--user-id-key-file"])
def test_a_fifo_beside_the_input_is_refused(
    option: str, fifo: Path, good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    columns = ("--value-column", "value") if option == "--truth" else ()
    found = run_estimate(tmp_path, small_text, [good], option, fifo, *columns)
    assert (found.code, REFUSED in found.err) == (2, True)
    assert str(fifo) in found.err


@pytest.mark.parametrize("command_name", ["explain", "estimate", "stream", "rollup", "perturb"])
def test_a_fifo_is_no_study_file(command_name: str, fifo: Path, tmp_path: Path, command: Any) -> None:
    needed = {
        "explain": (),
        "estimate": ("--input", "in"),
        "stream": ("--input", "in"),
        "rollup": ("--statistics", "in"),
        "perturb": ("--input", "in", "--attribute", "x", "--value-column", "value"),
    }[command_name]
    output = () if command_name == "explain" else ("--output", tmp_path / "out")
    found = command(command_name, "--study", fifo, *needed, *output)
    assert (found.code, found.err) == (2, f"ldpbeam: {fifo}: cannot be read: {REFUSED}\n")


def test_a_fifo_holds_no_people_and_no_statistics(
    fifo: Path, small_text: str, tmp_path: Path, command: Any
) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(small_text)
    given = ("--study", study, "--output", tmp_path / "out")
    found = command("perturb", *given, "--attribute", "x", "--input", fifo, "--value-column", "value")
    assert (found.code, found.err) == (2, f"ldpbeam: {fifo}: {REFUSED}\n")
    found = command("rollup", *given, "--statistics", fifo)
    assert (found.code, found.err) == (2, f"ldpbeam: {fifo}: {REFUSED}\n")


def test_a_fifo_in_the_folder_of_a_stream_is_a_dead_letter(fifo: Path, tmp_path: Path) -> None:
    own = tmp_path / "out" / "runs" / "run"
    own.mkdir(parents=True)
    opened = FolderFeed((str(tmp_path / "f*"),), Columns(), str(own), ()).open()
    feed_batch = opened.take()
    assert feed_batch is not None
    assert [(letter.file, letter.detail) for letter in feed_batch.letters] == [(str(fifo), REFUSED)]
    assert feed_batch.damaged == [str(fifo)]


def test_devices_and_sockets_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        found = files.sniff(str(path), 0)
    assert isinstance(found, files.BadFile)
    assert found.problem.startswith("it is a socket, not a file")
    found = files.sniff("/dev/zero", 0)
    assert isinstance(found, files.BadFile)
    assert found.problem.startswith("it is a device, not a file")
