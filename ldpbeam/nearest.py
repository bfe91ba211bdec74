"""The existing name that an unknown name probably means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The existing name that an unknown name probably means, ignoring case; None if none is near.

    Args:
        name: the unknown name.
        names: the existing names. One with the same letters comes before one with a similar spelling.
        cutoff: how similar two names must be, as for :func:`difflib.get_close_matches`.
    """
    lowered = {existing.lower(): existing for existing in reversed(list(names))}
    letters = _letters(name.lower())
    for same, existing in reversed(lowered.items()):
        if letters and _letters(same) == letters:
            return existing
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
