"""How a command ends: a user's mistake gives one message and an exit code, never a traceback."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ldpbeam.nearest import did_you_mean

#: The command did what was asked.
DONE = 0
#: ``ldpbeam stream --log-json``: a bug of ldpbeam, whose traceback is in the log; as Python ends with one.
BUG = 1
#: ``ldpbeam diff``: what it compared differs.
DIFFERS = 1
#: ``ldpbeam check``: a number is beyond a threshold.
BEYOND = 1
#: The command could not do what was asked: it started nothing, or wrote nothing.
WRONG = 2
#: Outputs are written, but more of the input was bad than allowed, or input files were damaged.
WITH_CARE = 3
#: The command was interrupted with Ctrl-C, as shells number it.
INTERRUPTED = 130


#: The command that installs Apache Beam.
INSTALLS_BEAM = "pip install 'ldpbeam[beam]'"

#: The most characters of an engine's error message that are shown: its end, which has the reason.
_MOST_CHARACTERS = 2000


def end_of(error: Exception) -> str:
    """The last 2,000 characters of an engine's error message."""
    return str(error).strip()[-_MOST_CHARACTERS:]


def meant_or_known(name: str, known: Iterable[str], most: int | None = None) -> str:
    """The end of a sentence about an unknown name: the probably meant one, else the first ``most`` known."""
    names = list(known)
    listed = ", ".join([*names[:most], *(["..."] if most is not None and len(names) > most else [])])
    return did_you_mean(name, names, f"there are: {listed or 'none'}")


#: Errors of the machine (memory, files, network), which a correct program can meet.
OF_THE_MACHINE = (MemoryError, RecursionError, OSError)
_NAMES = [
    n for n, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, OF_THE_MACHINE)
]
#: The last line of a worker's traceback in an engine's message: the name of the error and its text.
_LAST_LINE = re.compile(
    rf"^(?:RuntimeError: )?(?:[\w.]+\.)?({'|'.join(_NAMES)})(?:: (.*?))?(?: \[while running '[^\n]*'\])?$",
    re.MULTILINE,
)


def machine_problem(error: BaseException) -> str | None:
    """One sentence on an error of the machine; None if the error is of another kind.

    An engine wraps the errors of its workers: it makes the worker's error the context of its own, or quotes
    its traceback as text.
    """
    # Only errors that Beam wrapped: any other context is an error that our code was handling.
    while "[while running '" in str(error) and error.__context__ is not None:
        error = error.__context__
    if isinstance(error, OF_THE_MACHINE):
        return _sentence(type(error).__name__, str(error))
    lines = _LAST_LINE.findall(str(error))
    return _sentence(*lines[-1]) if lines else None


def _sentence(name: str, said: str) -> str:
    said = re.sub(r" \[while running '.*'\]$", "", said.strip())
    if name == "MemoryError":
        return (
            f"there is not enough memory{said and f' ({said})'}; give the process more, or read less at once"
        )
    if name == "RecursionError":
        return f"something in the input is nested too deeply to be read{said and f' ({said})'}"
    return without_number(said) or name


def without_number(said: str) -> str:
    """The system's words for an error, without its number."""
    return re.sub(r"\[Errno -?\d+\] ", "", said)


class UserError(Exception):
    """A mistake of the user; its text says what is wrong, where, and what to do."""


class StudyError(ValueError):
    """A study file that is wrong; its text says where, what was found and what is allowed."""


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn errors of the file system and of a file's content into one sentence that begins with its name.

    Raises:
        UserError: for an OSError or ValueError inside.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def check_charts(what: str, otherwise: str = "") -> None:
    """Check that the libraries that draw charts are installed.

    Raises:
        UserError: if they are not: what needs them, how to install them, and what to do otherwise.
    """
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        raise UserError(f"{what} the extra [report]: pip install 'ldpbeam[report]'{otherwise}") from None
