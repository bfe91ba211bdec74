"""Options of estimators. Each is declared once, in the signature of the estimator's function.

An option is a keyword-only parameter with a default. Its annotation is its type, and :class:`Range` in an
``Annotated`` says which numbers it takes::

    def em(question: Question, *, tolerance: AboveZero | None = None) -> Estimate: ...

A type is ``bool``, ``int``, ``float`` or a ``Literal`` of words; ``| None`` lets a study write ``null``.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ldpbeam.mechanisms.options import Range

#: A parameter that is no option: where a function starts, if it takes a start.
START = "start"


AboveZero = Annotated[float, Range(above=0)]
#: A share of a whole, which is not nothing.
Share = Annotated[float, Range(above=0, most=1)]
#: How many iterations there may be.
Iterations = Annotated[int, Range(least=1)]


#: All finite numbers.
_ANY = Range()


@dataclass(frozen=True)
class Option:
    """One option of an estimator.

    Attributes:
        name: as study files have it.
        kind: ``bool``, ``int`` or ``float``; ``str`` is one of ``choices``.
        default: the value where a study does not give it.
        optional: whether it may be None.
        range: the numbers it takes.
        choices: the words it takes.
    """

    name: str
    kind: type
    default: Any
    optional: bool = False
    range: Range = _ANY
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The values it takes, in words."""
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return f"one of {', '.join(self.choices)}"
        return f"a {'whole number' if self.kind is int else 'number'} {self.range}".rstrip()

    def takes(self, value: object) -> bool:
        """Whether a value is allowed."""
        if value is None:
            return self.optional
        if self.kind is bool:
            return isinstance(value, bool)
        if self.kind is str:
            return value in self.choices
        kinds = int if self.kind is int else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and self.range.holds(value)


def options_of(function: Callable[..., Any]) -> Mapping[str, Option]:
    """The options of an estimator's function by name, in the order of its parameters.

    Raises:
        TypeError: if a parameter after the first is not an option.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())
    return {
        parameter.name: _option(parameter, hints.get(parameter.name))
        for parameter in parameters[1:]
        if parameter.name != START
    }


def _option(parameter: inspect.Parameter, hint: Any) -> Option:
    name = parameter.name
    if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
        raise TypeError(f"the option {name!r} must be keyword-only, with a default")
    optional, numbers = False, Range()
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        optional = len(kinds) < len(get_args(hint))
        hint = kinds[0] if len(kinds) == 1 else None
    if get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        numbers = next((extra for extra in more if isinstance(extra, Range)), numbers)
    choices: tuple[str, ...] = ()
    if get_origin(hint) is Literal:
        choices, hint = get_args(hint), str
    words = choices and all(isinstance(choice, str) for choice in choices)
    if hint not in (bool, int, float) and not words:
        raise TypeError(f"the type of option {name!r} must be bool, int, float or a Literal of words")
    option = Option(name, hint, parameter.default, optional, numbers, choices)
    if not option.takes(option.default):
        raise TypeError(f"the default of option {name!r} must be {option.allowed}, found {option.default!r}")
    return option
