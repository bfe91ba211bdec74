"""Untrusted text, escaped so that a terminal shows it safely."""

from __future__ import annotations

import unicodedata

#: Marks that change the direction of the text after them, so that it can look like other text.
_TURNING = {*"\u061c\u200e\u200f", *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))}


def shown(text: str, keep: str = "") -> str:
    """Escape control characters, line ends, direction marks and lone surrogates, as Python does.

    Args:
        text: text from a report, a study or a file's name.
        keep: the characters that stay as they are.
    """
    return "".join(
        letter
        if letter in keep
        or not (letter in _TURNING or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp"))
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
