"""The processes of a cluster, recorded in a file of its folder, so that exactly these can be ended later."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: The name of this file in the cluster's folder.
STATE = "cluster.json"
#: The seconds after which a process that was asked to end is killed.
ENDING_SECONDS = 15.0


class Process(NamedTuple):
    """A process of a cluster: its process id, and its name, such as ``jobmanager``."""

    pid: int
    name: str


def mark(folder: Path, name: str) -> str:
    """An argument that only the command line of this process of this cluster has: the path of its log."""
    return f"-Dlog.file={folder.absolute() / 'log' / name}.log"


def remember(folder: Path, process: Process) -> None:
    """Record that a process belongs to a folder's cluster."""
    _write(folder, [*_known(folder), process])


def drop(folder: Path, process: Process) -> None:
    """Record that a process no longer belongs to a folder's cluster."""
    _write(folder, [known for known in _known(folder) if known != process])


def forget(folder: Path) -> None:
    """Delete the record of all processes of a folder's cluster."""
    (folder / STATE).unlink(missing_ok=True)


def _write(folder: Path, processes: Sequence[Process]) -> None:
    entries = [process._asdict() for process in processes]
    new = folder / f".{STATE}"
    new.write_text(json.dumps({"processes": entries}, indent=2) + "\n")
    new.replace(folder / STATE)


def _known(folder: Path) -> list[Process]:
    """The recorded processes of a folder's cluster; none if the file is missing or malformed."""
    try:
        entries = json.loads((folder / STATE).read_text())["processes"]
        return [Process(int(entry["pid"]), str(entry["name"])) for entry in entries]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def running(folder: Path) -> list[Process]:
    """The processes of a folder's cluster that still run."""
    # Another process may have the same id by now.
    return [process for process in _known(folder) if mark(folder, process.name) in _command_line(process.pid)]


def lost(folder: Path) -> list[str]:
    """The names of a cluster's recorded processes that have ended unexpectedly."""
    left = running(folder)
    return [process.name for process in _known(folder) if process not in left]


def _command_line(pid: int) -> str:
    """The command line of a process; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def end(folder: Path) -> int:
    """End the processes of a folder's cluster, wait until they have ended, and return their number."""
    # Task managers end first: without a job manager they would try to find it again.
    processes = running(folder)[::-1]
    _signal(processes, signal.SIGTERM)
    patience = time.monotonic() + ENDING_SECONDS
    while left := running(folder):
        if time.monotonic() > patience:
            _signal(left, signal.SIGKILL)
        time.sleep(0.1)
    forget(folder)
    return len(processes)


def _signal(processes: Sequence[Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
