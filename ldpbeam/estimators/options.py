"""Options of estimators. Each is declared once, in the signature of the estimator's function.

An option is a keyword-only parameter with a default (:mod:`ldpbeam.options` has the rest)::

    def em(question: Question, *, tolerance: AboveZero | None = None) -> Estimate: ...
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from ldpbeam.options import Option, kinds_of

#: A parameter that is no option: where a function starts, if it takes a start.
START = "start"


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
    option = Option(name, parameter.default, kinds_of(hint))
    some = [kind for kind in option.kinds if kind.type is not types.NoneType]
    if len(some) != 1 or (some[0].type is str and not some[0].choices):
        raise TypeError(f"the type of option {name!r} must be bool, int, float or a Literal of words")
    if not option.takes(option.default):
        raise TypeError(f"the default of option {name!r} must be {option.allowed}, found {option.default!r}")
    return option
