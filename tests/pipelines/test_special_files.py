"""FIFOs, sockets and devices in place of files: refused in a sentence, and never opened."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.answers.people import PeopleColumns, read_people
from ldpbeam.command_line.checks import study_of
from ldpbeam.domains import Numeric
from ldpbeam.errors import StudyError, UserError
from ldpbeam.folders.written import read_all
from ldpbeam.inputs.files import find_input
from ldpbeam.inputs.key_files import read_key
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.folder import FolderFeed

#: Seconds after which somebody who waits at the FIFO is let go, so that the test fails instead of hanging.
PATIENCE = 20.0
REFUSED = "it is a FIFO, not a file: write its output to a file, and name that file"


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


@pytest.mark.parametrize(
    "read",
    [
        study_of, read_key, lambda path: read_people(path, PeopleColumns("value"), Numeric(0, 1)),
        lambda path: read_all([path]), lambda path: find_input([path], "stop"),
    ],
    ids=["a study", "a key", "people", "statistics", "reports"],
)  # fmt: skip
def test_a_fifo_is_refused_by_whatever_reads_a_file(read: Callable[[str], Any], fifo: Path) -> None:
    with pytest.raises((UserError, StudyError)) as caught:
        read(str(fifo))
    assert f"{fifo}: " in str(caught.value) and REFUSED in str(caught.value)


def test_a_fifo_in_the_folder_of_a_stream_is_a_dead_letter(fifo: Path, tmp_path: Path) -> None:
    feed_batch = FolderFeed((str(tmp_path / "f*"),), Columns()).open_at(None).take()
    assert feed_batch is not None
    assert [(letter.file, letter.detail) for letter in feed_batch.letters] == [(str(fifo), REFUSED)]
    assert feed_batch.damaged == [str(fifo)]


def test_devices_and_sockets_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        for special, kind in ((path, "a socket"), (Path("/dev/zero"), "a device")):
            sniffed = files.sniff(str(special), 0)
            assert isinstance(sniffed, files.BadFile)
            assert sniffed.problem.startswith(f"it is {kind}, not a file")
