"""Texts as charts hold them, whatever a study or a report says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ldpbeam.untrusted import shown

#: Names that every object of JavaScript has; Vega looks groups up in objects.
_OF_OBJECTS = frozenset(
    ("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__proto__")
    + ("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString")
    + ("toString", "valueOf")
)


@lru_cache(maxsize=2**12)
def _spelled(text: str) -> str:
    """A text as charts hold it: control characters are escaped, and no name means something to JavaScript."""
    text = shown(text, keep="\n")
    return f"\u2060{text}" if text in _OF_OBJECTS else text


def safe(value: Any) -> Any:
    """A value of JSON, with every text in it spelled as charts hold it."""
    if isinstance(value, str):
        return _spelled(value)
    if isinstance(value, Mapping):
        return {name: safe(inner) for name, inner in value.items()}
    return [safe(inner) for inner in value] if isinstance(value, list | tuple) else value
