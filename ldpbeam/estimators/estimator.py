"""An estimator as study files name it: a pure function, its options, and what it cannot answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbeam.attributes import Attribute
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.options import Option, options_of


@dataclass(frozen=True)
class Estimator:
    """An estimator as study files name it.

    Attributes:
        name: the name.
        summary: one line on what it does.
        function: question and options to estimate; pure. Its signature declares the options
            (:mod:`ldpbeam.estimators.options`).
        check: raises ValueError, saying why, where it cannot answer for an attribute and services.
        joins: whether it needs the joint histogram of a user's services.
        fixed_point: whether with some options its answer is the same from every start, so that ``function``
            takes a ``start``; None where it is with none.

    Raises:
        TypeError: if the function's signature does not declare options.
    """

    name: str
    summary: str
    function: Callable[..., Estimate]
    check: Callable[[Attribute, Sequence[str]], None]
    joins: bool = False
    fixed_point: Callable[[Mapping[str, Any]], bool] | None = None

    def __post_init__(self) -> None:
        self.options  # noqa: B018 - raises where one is declared wrongly

    @functools.cached_property
    def options(self) -> Mapping[str, Option]:
        """Its options by name."""
        return options_of(self.function)

    def explain(self, services: Sequence[str], options: Mapping[str, Any]) -> str:
        """What is estimated from which services, with which options, in words."""
        given = "".join(f", {key} {value}" for key, value in options.items())
        return f"{self.name} ({self.summary}) from {', '.join(services)}{given}"

    def check_options(self, given: Mapping[str, Any]) -> None:
        """See that every option is known and has a value that it takes.

        Raises:
            ValueError: for the first that is not.
        """
        for name, value in given.items():
            if name not in self.options:
                allowed = ", ".join(self.options) or "none"
                raise ValueError(f"estimator {self.name!r} has no option {name!r}; it takes: {allowed}")
            if not self.options[name].takes(value):
                raise ValueError(f"option {name!r} is {self.options[name].allowed}, found {value!r}")
