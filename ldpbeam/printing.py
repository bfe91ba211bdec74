"""What a command prints: results on stdout, and everything else on stderr.

``--json`` makes stdout one JSON document (``ldpbeam stream``: one per line), and then no part of a command
prints anything for people. ``--quiet`` leaves out notes and progress; ``--verbose`` adds the engine's log,
and how long each step took. Warnings and errors are always printed. With ``--log-json``, stderr is a log of
JSON lines (:mod:`ldpbeam.log_lines`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol

from ldpbeam.log_lines import lines
from ldpbeam.untrusted import shown

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Printing:
    """The output that the user wants to see.

    Attributes:
        json: the stream for JSON, stdout itself; None without ``--json``.
        quiet: whether notes and progress are left out.
        verbose: whether durations and the engine's log are added.
    """

    json: IO[str] | None = None
    quiet: bool = False
    verbose: bool = False


#: The printing that was set last; all threads of a command share it.
_asked = [Printing()]


@contextlib.contextmanager
def printing(options: argparse.Namespace) -> Iterator[None]:
    """Print as ``--json``, ``--quiet`` and ``--verbose`` say, as far as the options have them."""
    as_json = getattr(options, "json", False)
    verbose = getattr(options, "verbose", False)
    asked = Printing(sys.stdout if as_json else None, getattr(options, "quiet", False), verbose)
    _asked.append(asked)
    try:
        with contextlib.ExitStack() as until:
            if as_json:
                nowhere = until.enter_context(open(os.devnull, "w", encoding="utf-8"))
                until.enter_context(contextlib.redirect_stdout(nowhere))
            if verbose:
                until.enter_context(_engine_logs_shown())
            yield
    finally:
        _asked.pop()


@contextlib.contextmanager
def _engine_logs_shown() -> Iterator[None]:
    root, handler = logging.getLogger(), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    before = root.level
    # A log of JSON lines has them as it is.
    if lines() is None:
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


def document(value: Any) -> None:
    """Print a value as one line of JSON, if ``--json`` asks for it; then nothing is printed for people."""
    if (stream := _asked[-1].json) is not None:
        print(json.dumps(value), file=stream, flush=True)


def note(text: str, **fields: object) -> None:
    """Print on stderr what a user may want to know; not with ``--quiet``.

    Args:
        text: the sentence.
        fields: its numbers, for a log of JSON lines.
    """
    if not _asked[-1].quiet:
        _say("info", text, f"ldpbeam: {shown(text)}", fields)


def warn(text: str) -> None:
    """Print on stderr what a user must know."""
    _say("warning", text, f"ldpbeam: warning: {shown(text)}", {})


def fail(text: str, keep: str = "") -> None:
    """Print on stderr why a command ends; the characters in ``keep`` stay as they are."""
    _say("error", text, f"ldpbeam: {shown(text, keep)}", {})


def _say(level: str, text: str, printed: str, fields: Mapping[str, object]) -> None:
    log = lines()
    if log is None:
        print(printed, file=sys.stderr, flush=True)
    else:
        log.line(level, text, **fields)


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """With ``--verbose``, say on stderr how long the block took."""
    start = time.monotonic()
    yield
    if _asked[-1].verbose:
        print(f"ldpbeam: {what}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


class Show(Protocol):
    """Shows how many are done, of how many, and what is being done now; None leaves each as it was."""

    def __call__(self, done: int | None, of: int | None = None, now: str | None = None) -> None:
        """Show it."""


@contextlib.contextmanager
def progress_bar(what: str, total: int | Callable[[], int] | None) -> Iterator[Show]:
    """A bar with the number done, the total and the time left, on a terminal; not with ``--quiet``.

    Args:
        what: what is counted, such as trials.
        total: the total, or a function that counts it if the bar is shown; None if it is known only later.

    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = progress_console()
    disabled = console.quiet or not console.is_terminal
    text = TextColumn("{task.description}", markup=False)
    with Progress(
        text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=disabled,
    ) as progress:  # fmt: skip
        count = total() if callable(total) and not disabled else total
        task = progress.add_task(what, total=None if callable(count) else count)

        def show(done: int | None, of: int | None = None, now: str | None = None) -> None:
            progress.update(task, completed=done, total=of, description=now or what)

        yield show


def progress_console() -> Console:
    """The console on stderr for progress; with ``--quiet`` it shows nothing."""
    from rich.console import Console

    return Console(stderr=True, quiet=_asked[-1].quiet)
