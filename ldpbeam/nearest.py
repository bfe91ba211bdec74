"""Which of the names that there are is probably meant by one that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of some names that is probably meant by another, whatever the case of its letters, or None.

    Args:
        name: the name that is not there.
        names: those that are there. One with the same letters goes before one that is spelled much alike.
        cutoff: how much alike two names must be, as :func:`difflib.get_close_matches` takes it.
    """
    lowered = {known.lower(): known for known in reversed(list(names))}
    letters = _letters(name.lower())
    for same, known in reversed(lowered.items()):
        if letters and _letters(same) == letters:
            return known
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[near[0]] if near else None


def did_you_mean(
    name: str, names: Iterable[str], otherwise: str = "", before: str = "", after: str = ""
) -> str:
    """The question whether the nearest name is meant, between two texts; ``otherwise`` if none is near."""
    near = nearest(name, names)
    return otherwise if near is None else f"{before}did you mean {near!r}?{after}"


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name))
