"""What ends a command: a person's mistake is one message and an exit code, never a traceback."""

from __future__ import annotations

import builtins
import re

#: The command did what was asked.
DONE = 0
#: Something was asked that cannot be: nothing was started, or nothing was written.
WRONG = 2
#: Outputs are written, but more of the input was bad than allowed, or files of it were damaged.
WITH_CARE = 3
#: The command was interrupted with Ctrl-C, as shells number it.
INTERRUPTED = 130


#: Of what an engine says of its failure, the end has the reason.
_MOST_CHARACTERS = 2000


def end_of(error: Exception) -> str:
    """What an engine said of its failure, as much of the end as a person reads."""
    return str(error).strip()[-_MOST_CHARACTERS:]


#: What the machine refuses to any program, however correct it is.
OF_THE_MACHINE = (MemoryError, RecursionError, OSError)
_NAMES = [
    "BeamIOError",
    *(n for n, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, OF_THE_MACHINE)),
]
#: The last line of a traceback, as an engine hands it on from a worker: the error's name and what it says.
_LAST_LINE = re.compile(
    rf"^(?:RuntimeError: )?(?:[\w.]+\.)?({'|'.join(_NAMES)})(?:: (.*?))?(?: \[while running '[^\n]*'\])?$",
    re.MULTILINE,
)


def machine_problem(error: BaseException) -> str | None:
    """What the machine refused, in one sentence; None where the error is another.

    An engine wraps what its workers raise: in an error of which the worker's is the context, or in text.
    """
    # Only from what Beam wrapped: a bug in the handling of an error is a bug.
    while "[while running '" in str(error) and error.__context__ is not None:
        error = error.__context__
    if isinstance(error, OF_THE_MACHINE):
        return _sentence(type(error).__name__, _said_by(error))
    lines = _LAST_LINE.findall(str(error))
    return _sentence(*lines[-1]) if lines else None


def _said_by(error: BaseException) -> str:
    # Beam's own error has those of each file.
    details = getattr(error, "exception_details", None)
    return "; ".join(f"{path}: {cause}" for path, cause in details.items()) if details else str(error)


def _sentence(name: str, said: str) -> str:
    said = re.sub(r" \[while running '.*'\]$", "", said.strip())
    if name == "MemoryError":
        return (
            f"there is not enough memory{said and f' ({said})'}; give the process more, or read less at once"
        )
    if name == "RecursionError":
        return f"something in the input is nested too deeply to be read{said and f' ({said})'}"
    return re.sub(r"^\[Errno -?\d+\] ", "", said) or name


class UserError(Exception):
    """A mistake of the person who started the command; its text says what, where and what to do."""
