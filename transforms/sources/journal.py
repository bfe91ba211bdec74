"""What a run of a stream promises in writing before its reports are acknowledged.

Open windows live in the engine's state, which on a local engine is memory. So before reports are
acknowledged, and can never be had again, the windows they are in are named in a file of the run. If the run
ends before such a window has its pane, the next run knows that the window is incomplete.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from apache_beam.io.filesystems import FileSystems

from ldpbeam.transforms.storage import literal, make_folder, read_json, replacing, write_bytes

#: Below the output folder, a folder a run.
RUNS = "runs"
#: In a run's folder, when it has been asked to stop.
STOP = "stop.json"


class OpenWindow(NamedTuple):
    """An attribute's window, [start, end) in epoch milliseconds."""

    attribute: str
    start: int
    end: int


class Journal:
    """The journal of one reader of a run.

    Args:
        output: the run's output folder.
        run: the run.
        reader: which of the run's readers.
        kept: how long after its end a window stays in the journal, in milliseconds of event time.
    """

    def __init__(self, output: str, run: str, reader: int, kept: int) -> None:
        self.folder = FileSystems.join(output, RUNS, run)
        self.path = FileSystems.join(self.folder, f"journal-{reader}.json")
        self.kept = kept
        # Marks are finalised on other threads than the one that stops.
        self._lock = threading.Lock()
        self._stopped_at: int | None = None
        # A reader that is made again in the same run goes on with its journal.
        found = _entry(self.path) if FileSystems.exists(self.path) else {"windows": []}
        self._windows = {OpenWindow(*window) for window in found["windows"]}

    def name(self, windows: Iterable[OpenWindow], watermark: int | None) -> None:
        """These windows are open; when this returns it stands in the file."""
        passed = -(2**62) if watermark is None else watermark - self.kept
        with self._lock:
            new = {window for window in windows if window.end > passed} - self._windows
            if new:
                self._write({window for window in self._windows | new if window.end > passed})

    def stop(self, watermark: int | None) -> None:
        """The run is asked to stop: windows that end after the watermark will not be complete."""
        with self._lock:
            self._stopped_at = -(2**62) if watermark is None else watermark
            self._write(self._windows)

    def _write(self, windows: set[OpenWindow]) -> None:
        make_folder(self.folder)
        with replacing(self.path) as stream:
            entry = {"stopped_at": self._stopped_at, "windows": sorted(windows)}
            stream.write(json.dumps(entry).encode() + b"\n")
        self._windows = windows


def ask_to_stop(output: str, run: str) -> None:
    """Ask the readers of a run to take no more, wherever they are."""
    folder = FileSystems.join(output, RUNS, run)
    make_folder(folder)
    write_bytes(FileSystems.join(folder, STOP), b"{}\n")


def asked_to_stop(output: str, run: str) -> bool:
    """Whether they were asked to."""
    found: bool = FileSystems.exists(FileSystems.join(output, RUNS, run, STOP))
    return found


def stopped_at(output: str, run: str) -> int | None:
    """The watermark at which a run was asked to stop, the earliest of its readers'; None while it goes on."""
    found = [entry["stopped_at"] for entry in _entries(FileSystems.join(output, RUNS, run))]
    return min((time for time in found if time is not None), default=None)


def named_windows(output: str, run: str) -> set[OpenWindow]:
    """The windows in a run's journals."""
    return {
        OpenWindow(*window)
        for entry in _entries(FileSystems.join(output, RUNS, run))
        for window in entry["windows"]
    }


def _entries(folder: str) -> Iterator[dict[str, Any]]:
    pattern = FileSystems.join(literal(folder), "journal-*.json")
    for entry in FileSystems.match([pattern])[0].metadata_list:
        yield _entry(entry.path)


def _entry(path: str) -> dict[str, Any]:
    found: dict[str, Any] = read_json(path)
    return found
