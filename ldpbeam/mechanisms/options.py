"""Options of mechanisms. Each is declared once, as a field of the mechanism's dataclass.

The field's annotation is its type, and :class:`Range` in an ``Annotated`` says which numbers it takes::

    bins: Annotated[int, Range(least=2, most=2**16)] = 32

A type is ``int``, ``float``, ``str``, a ``Literal`` of words, or several of them with ``|``, also with
``None``.
The JSON Schema of studies is made of these declarations, and of the attributes in the class's docstring.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

#: Fields that are no options: what every mechanism has.
_NO_OPTIONS = ("epsilon", "size")
#: An attribute's text in a docstring, up to the next attribute or section.
_ATTRIBUTE = r"^    {name}: (.*?)(?=^    \w+: |^\S|\Z)"


@dataclass(frozen=True)
class Range:
    """The numbers that an option takes; all of them are finite.

    Attributes:
        above: they are greater than this one.
        least: they are this one or greater.
        most: they are this one or less.
        below: they are less than this one.
    """

    above: float | None = None
    least: float | None = None
    most: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a number is one of them."""
        return (
            -math.inf < value < math.inf
            and (self.above is None or value > self.above)
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """As in: above 0 and at most 1; from 2 to 65536."""
        if self.least is not None and self.most is not None:
            return f"from {_shown(self.least)} to {_shown(self.most)}"
        if self.least is not None and self.below is not None:
            return f"from {_shown(self.least)} to below {_shown(self.below)}"
        ends = [
            "" if self.above is None else f"above {_shown(self.above)}",
            "" if self.least is None else f"from {_shown(self.least)}",
            "" if self.most is None else f"at most {_shown(self.most)}",
            "" if self.below is None else f"below {_shown(self.below)}",
        ]
        return " and ".join(filter(None, ends))


def _shown(end: float) -> str:
    return str(end) if isinstance(end, int) else f"{end:g}"


@dataclass(frozen=True)
class Kind:
    """One type of an option's values.

    Attributes:
        type: ``int``, ``float``, ``str`` or the type of None.
        range: the numbers it takes.
        choices: the words it takes; empty for any.
    """

    type: type
    range: Range = Range()
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The values it takes, in words."""
        if self.choices:
            words = ", ".join(self.choices)
            return {1: repr(words), 2: " or ".join(self.choices)}.get(len(self.choices), f"one of {words}")
        named = {int: "a whole number", float: "a number"}
        return f"{named.get(self.type, 'a text')} {self.range}".rstrip()

    def takes(self, value: object) -> bool:
        """Whether a value is allowed."""
        if self.type is float:
            return isinstance(value, int | float) and not isinstance(value, bool) and self.range.holds(value)
        if type(value) is not self.type:
            return False
        if self.type is int:
            return self.range.holds(value)  # type: ignore[arg-type]
        return not self.choices or value in self.choices


@dataclass(frozen=True)
class MechanismOption:
    """One option of a mechanism.

    Attributes:
        name: as study files have it.
        default: the value where a study does not give it.
        kinds: the types of its values.
        text: what it is, in words.
    """

    name: str
    default: Any
    kinds: tuple[Kind, ...]
    text: str

    def check(self, value: object) -> None:
        """See that a value is allowed, if the declaration says of each type which values it takes.

        The mechanism itself checks what depends on other options.

        Raises:
            ValueError: if it is not.
        """
        some = [kind for kind in self.kinds if kind.type is not types.NoneType]
        told = bool(some) and all(kind.choices or kind.range != Range() for kind in some)
        if told and not any(kind.takes(value) for kind in self.kinds):
            allowed = " or ".join(kind.allowed for kind in some)
            raise ValueError(f"{self.name} must be {allowed}, found {value!r}")


@functools.cache
def options_of(mechanism: type) -> Mapping[str, MechanismOption]:
    """The options of a mechanism by name, in the order of its fields."""
    try:
        hints = get_type_hints(mechanism, include_extras=True)
    except NameError:
        # A plugin's annotations may name what it imports for type checkers only.
        hints = {}
    return {
        field.name: MechanismOption(
            field.name, field.default, _kinds(hints.get(field.name)), _text(mechanism, field.name)
        )
        for field in dataclasses.fields(mechanism)
        if field.name not in _NO_OPTIONS
    }


def _kinds(hint: Any) -> tuple[Kind, ...]:
    arms = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kinds = []
    for arm in arms:
        numbers = Range()
        if get_origin(arm) is Annotated:
            arm, *more = get_args(arm)
            numbers = next((extra for extra in more if isinstance(extra, Range)), numbers)
        if get_origin(arm) is Literal:
            kinds.append(Kind(str, choices=get_args(arm)))
        elif arm in (int, float, str, types.NoneType):
            kinds.append(Kind(arm, numbers))
    return tuple(kinds)


def _text(mechanism: type, name: str) -> str:
    """The first sentence that the docstring of the mechanism, or of what it inherits from, has on a field."""
    for own in mechanism.__mro__:
        found = re.search(_ATTRIBUTE.format(name=name), inspect.cleandoc(own.__doc__ or ""), re.M | re.S)
        if found:
            return re.split(r"[.;] ", " ".join(found[1].split()).replace("``", ""))[0].rstrip(".")
    return ""
