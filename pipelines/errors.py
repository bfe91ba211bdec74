"""What ends a command: a person's mistake is one message and an exit code, never a traceback."""

from __future__ import annotations

#: The command did what was asked.
DONE = 0
#: Something was asked that cannot be: nothing was started, or nothing was written.
WRONG = 2
#: Outputs are written, but more of the input was bad than allowed.
TOO_MANY_BAD = 3


#: Of what an engine says of its failure, the end has the reason.
_MOST_CHARACTERS = 2000


def end_of(error: Exception) -> str:
    """What an engine said of its failure, as much of the end as a person reads."""
    return str(error).strip()[-_MOST_CHARACTERS:]


class UserError(Exception):
    """A mistake of the person who started the command; its text says what, where and what to do."""
