"""Options of mechanisms: each is a field of the mechanism's dataclass.

Its description comes from the attributes in the class's docstring; the rest is in :mod:`ldpbeam.options`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Mapping
from typing import get_type_hints

from ldpbeam.options import Option, Range, kinds_of

#: The fields of every mechanism, which are not options.
_NO_OPTIONS = ("epsilon", "size")
#: An attribute's text in a docstring, up to the next attribute or section.
_ATTRIBUTE = r"^    {name}: (.*?)(?=^    \w+: |^\S|\Z)"


@functools.cache
def options_of(mechanism: type) -> Mapping[str, Option]:
    """The options of a mechanism by name, in the order of its fields."""
    try:
        hints = get_type_hints(mechanism, include_extras=True)
    except NameError:
        # A plugin's annotations may name what it imports for type checkers only.
        hints = {}
    return {
        field.name: Option(
            field.name, field.default, kinds_of(hints.get(field.name)), meaning(mechanism, field.name)
        )
        for field in dataclasses.fields(mechanism)
        if field.name not in _NO_OPTIONS
    }


def check_option(option: Option, value: object) -> None:
    """Check a value against the declaration, if that restricts the values of every type.

    The mechanism itself checks what depends on other options.

    Raises:
        ValueError: if it is not.
    """
    some = [kind for kind in option.kinds if kind.type is not types.NoneType]
    described = bool(some) and all(kind.choices or kind.range != Range() for kind in some)
    if described and not option.takes(value):
        raise ValueError(f"{option.name} must be {option.allowed}, found {value!r}")


def meaning(kind: type, name: str) -> str:
    """The first sentence about a field in the docstring of a class or of its nearest base that has one."""
    for base in kind.__mro__:
        match = re.search(_ATTRIBUTE.format(name=name), inspect.cleandoc(base.__doc__ or ""), re.M | re.S)
        if match:
            return re.split(r"[.;] ", " ".join(match[1].split()).replace("``", ""))[0].rstrip(".")
    return ""
