"""Options in a study file: the values that each takes, as an annotation declares them.

A mechanism declares its options as fields of its dataclass, an estimator as keyword parameters of its
function. The annotation is the type, and :class:`Range` in an ``Annotated`` says which numbers it takes::

    bins: Annotated[int, Range(least=2, most=2**16)] = 32

A type is ``bool``, ``int``, ``float``, ``str``, a ``Literal`` of words, a ``tuple`` (in a study a list), or
several of them with ``|``, also with ``None``. The JSON Schema of studies is made of these declarations.
"""

from __future__ import annotations

import math
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin


@dataclass(frozen=True)
class Range:
    """The numbers that an option takes; all of them are finite.

    Attributes:
        above: they are greater than this.
        least: they are at least this.
        most: they are at most this.
        below: they are less than this.
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
        ends = {"above": self.above, "from": self.least, "at most": self.most, "below": self.below}
        words = [f"{word} {_shown(end)}" for word, end in ends.items() if end is not None]
        return (" and " if self.least is None else " to ").join(words)


def _shown(end: float) -> str:
    return str(end) if isinstance(end, int) else f"{end:g}"


AboveZero = Annotated[float, Range(above=0)]
#: A share of a whole, above 0.
Share = Annotated[float, Range(above=0, most=1)]
#: The most iterations, at least 1.
Iterations = Annotated[int, Range(least=1)]


@dataclass(frozen=True)
class Kind:
    """One type of an option's values.

    Attributes:
        type: ``bool``, ``int``, ``float``, ``str``, ``list`` or the type of None.
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
        named = {
            list: "a list",
            bool: "true or false",
            int: "a whole number",
            float: "a number",
            types.NoneType: "nothing",
        }
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


def kinds_of(hint: Any) -> tuple[Kind, ...]:
    """The types that an annotation declares, without those that no option can have."""
    kinds = []
    for arm in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        numbers = Range()
        if get_origin(arm) is Annotated:
            arm, *more = get_args(arm)
            numbers = next((extra for extra in more if isinstance(extra, Range)), numbers)
        if get_origin(arm) is Literal and all(isinstance(word, str) for word in get_args(arm)):
            kinds.append(Kind(str, choices=get_args(arm)))
        elif get_origin(arm) is tuple:
            kinds.append(Kind(list))
        elif arm in (bool, int, float, str, types.NoneType):
            kinds.append(Kind(arm, numbers))
    return tuple(kinds)


@dataclass(frozen=True)
class Option:
    """One option of a mechanism or an estimator.

    Attributes:
        name: as study files have it.
        default: the value if a study does not give one.
        kinds: the types of its values.
        text: what it is, in words.
    """

    name: str
    default: Any
    kinds: tuple[Kind, ...]
    text: str = ""

    @property
    def allowed(self) -> str:
        """The values it takes, in words."""
        return " or ".join(kind.allowed for kind in self.kinds if kind.type is not types.NoneType)

    def takes(self, value: object) -> bool:
        """Whether a value is allowed."""
        return any(kind.takes(value) for kind in self.kinds)
