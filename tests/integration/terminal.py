"""Commands in a terminal of their own, as a person starts them: Ctrl-C goes to all that the terminal runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from support.waiting import PATIENCE, wait_until

CTRL_C = b"\x03"

#: Runs a command of ldpbeam that waits at a call of a function. Arguments: the function, a folder, and those
#: of the command. At the call it writes ``reached`` into the folder; it waits for ``go``.
_PAUSED = """
import importlib, pathlib, sys, time
place, folder, *arguments = sys.argv[1:]
module, _, path = place.partition(":")
*owners, name = path.split(".")
owner = importlib.import_module(module)
for step in owners:
    owner = getattr(owner, step)
function, folder = getattr(owner, name), pathlib.Path(folder)
def paused(*positional, **named):
    (folder / "reached").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    return function(*positional, **named)
setattr(owner, name, paused)
from ldpbeam.command_line.main import main
sys.exit(main(arguments))
"""


class Terminal:
    """A command in a terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self._said = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # At the end of a terminal there is an error.
        with contextlib.suppress(OSError):
            while part := os.read(self._master, 4096):
                self._said += part

    @property
    def said(self) -> str:
        """All it has printed so far."""
        return self._said.decode(errors="replace").replace("\r\n", "\n")

    def press(self, keys: bytes) -> None:
        """Type something."""
        os.write(self._master, keys)

    def wait_until(self, truth: Callable[[], bool]) -> None:
        """Wait for something that comes true while it runs."""

        def look() -> bool:
            true = truth()
            assert true or self.process.poll() is None, f"it has ended:\n{self.said}"
            return true

        wait_until(look, lambda: self.said)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(PATIENCE)
        self._reader.join(10)
        return code


@contextlib.contextmanager
def terminal(command: Sequence[object], environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Run a command in a terminal for the block."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        list(map(str, command)), stdin=slave, stdout=slave, stderr=slave,
        env={**os.environ, **(environment or {})}, start_new_session=True, preexec_fn=_begin,
    )  # fmt: skip
    os.close(slave)
    started = Terminal(process, master)
    try:
        yield started
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)


def _begin() -> None:
    """Make a new process what a shell in a terminal starts."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # Tests that run in the background of a script have been told to ignore it, and so would their children.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ldpbeam(*arguments: object) -> list[object]:
    """The command line of a command."""
    return [sys.executable, "-m", "ldpbeam.command_line.main", *arguments]


def paused(function: str, folder: Path, *arguments: object) -> list[object]:
    """The command line of a command that waits at a call of a function, as in ``module:name``."""
    return [sys.executable, "-c", _PAUSED, function, folder, *arguments]
