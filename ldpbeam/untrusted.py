"""Text that a client wrote, made safe for a terminal, a log and a table: escaped, and cut."""

from __future__ import annotations

import unicodedata

#: Marks that change the direction of the text after them, so that it can look like other text.
_TURNING = {*"\u061c\u200e\u200f", *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))}

#: The most characters of a sentence that may repeat a client's text.
MOST_REPEATED = 1_000
_CUT = " ..."


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


def cut_short(text: str) -> str:
    """A sentence that may repeat a client's text: its first 1,000 characters at most, escaped."""
    escaped = shown(text[: MOST_REPEATED + 1])
    return escaped if len(escaped) <= MOST_REPEATED else escaped[: MOST_REPEATED - len(_CUT)] + _CUT
