"""Which processes a cluster has, in a file of its folder, so that they can be ended later, and no others."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: In a cluster's folder.
STATE = "cluster.json"
#: Seconds until a process that was asked to end is killed.
ENDING_SECONDS = 15.0


class Process(NamedTuple):
    """A process of a cluster: its number, and what it is."""

    pid: int
    name: str


def mark(folder: Path, name: str) -> str:
    """What stands in the command line of a process of a cluster, and of no other: where it logs."""
    return f"-Dlog.file={folder.absolute() / 'log' / name}.log"


def remember(folder: Path, process: Process) -> None:
    """Write down that a process belongs to the cluster of a folder."""
    _write(folder, [*_known(folder), process])


def drop(folder: Path, process: Process) -> None:
    """Write down that a process no longer belongs to the cluster of a folder."""
    _write(folder, [known for known in _known(folder) if known != process])


def forget(folder: Path) -> None:
    """Forget all processes of a folder's cluster."""
    (folder / STATE).unlink(missing_ok=True)


def _write(folder: Path, processes: Sequence[Process]) -> None:
    entries = [process._asdict() for process in processes]
    new = folder / f".{STATE}"
    new.write_text(json.dumps({"processes": entries}, indent=2) + "\n")
    new.replace(folder / STATE)


def _known(folder: Path) -> list[Process]:
    """What was started in a folder; nothing where nothing was, or the file is not one of ours."""
    try:
        entries = json.loads((folder / STATE).read_text())["processes"]
        return [Process(int(entry["pid"]), str(entry["name"])) for entry in entries]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def running(folder: Path) -> list[Process]:
    """The processes of a folder's cluster that still run."""
    # A number may be another process's by now.
    return [process for process in _known(folder) if mark(folder, process.name) in _command_line(process.pid)]


def lost(folder: Path) -> list[str]:
    """The names of a cluster's processes that have ended, though nobody ended them."""
    left = running(folder)
    return [process.name for process in _known(folder) if process not in left]


def _command_line(pid: int) -> str:
    """Of a process, empty if there is none."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True).stdout


def end(folder: Path) -> int:
    """End the processes of a folder's cluster, and wait until they are gone; gives how many there were."""
    # Task managers first: without a job manager they would try to find it again.
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
