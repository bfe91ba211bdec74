"""Text that may hold anything, as a terminal shows it."""

from __future__ import annotations

import unicodedata

#: Marks that turn the direction of the text after them, and so can make it look like another.
_TURNING = {*"\u061c\u200e\u200f", *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))}


def shown(text: str, keep: str = "") -> str:
    """Text in which control characters, line ends and halves of characters are escaped as in Python.

    Args:
        text: from a report, a study or a file's name.
        keep: characters that stay as they are.
    """
    return "".join(
        letter
        if letter in keep
        or not (letter in _TURNING or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp"))
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
