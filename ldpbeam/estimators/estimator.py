"""An estimator as study files name it: a pure function, its options, and what it cannot answer.

Each option is declared once, as a keyword-only parameter with a default of the estimator's function
(:mod:`ldpbeam.options` has the rest)::

    def em(question: Question, *, tolerance: AboveZero | None = None) -> Estimate: ...
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Domain
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.mechanisms import Mechanism
from ldpbeam.options import Option, kinds_of

#: Raises a ValueError with the reason if an estimator cannot answer for an attribute and services.
Check = Callable[[Attribute, Sequence[str]], None]


def of_domains(kinds: Any, otherwise: str) -> Check:
    """A check that the domain is of some kind; ``otherwise`` says what is needed, and what to use instead."""

    def check(attribute: Attribute, services: Sequence[str]) -> None:
        if not isinstance(attribute.domain, kinds):
            raise ValueError(otherwise)

    return check


def of_mechanisms(kind: type[Any], problem: str) -> Check:
    """A check that every mechanism has a base, by :meth:`Attribute.mechanisms_of`."""

    def check(attribute: Attribute, services: Sequence[str]) -> None:
        attribute.mechanisms_of(services, kind, problem)

    return check


def every(*checks: Check) -> Check:
    """A check that several others hold, in their order."""

    def check(attribute: Attribute, services: Sequence[str]) -> None:
        for part in checks:
            part(attribute, services)

    return check


def of_one_channel(fits: Callable[[Any], object], what: str, otherwise: str) -> Check:
    """A check for one service with one epsilon, whose mechanism fits; ``what`` says which ones do."""

    def check(attribute: Attribute, services: Sequence[str]) -> None:
        versions = [attribute.versions[index] for index in attribute.versions_of(services)]
        if len(versions) != 1 or not fits(versions[0].mechanism):
            named = ", ".join(f"{version.label} ({version.mechanism.name})" for version in versions)
            raise ValueError(
                f"it is for one service with {what} and one epsilon, found {named}; name one service, or use "
                f"{otherwise}"
            )

    return check


def options_of(function: Callable[..., Any]) -> Mapping[str, Option]:
    """The options of an estimator's function by name, in the order of its parameters.

    Raises:
        TypeError: if a parameter after the first is not an option.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())
    return {parameter.name: _option(parameter, hints.get(parameter.name)) for parameter in parameters[1:]}


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


@dataclass(frozen=True)
class Estimator:
    """An estimator as study files name it.

    Attributes:
        name: the name in study files.
        summary: one line about the method.
        function: a pure function of a question and options that returns an estimate. Its signature declares
            the options.
        check: raises an error for what it cannot answer.
        joins: whether it needs the joint histogram of users' services.
        joins_where: whether an estimator that can do without a joint histogram asks for one: a function of
            the domain and of the mechanisms of two or more services. None if it never asks.

    Raises:
        TypeError: if the function's signature does not declare options.
    """

    name: str
    summary: str
    function: Callable[..., Estimate]
    check: Check
    joins: bool = False
    joins_where: Callable[[Domain, Sequence[Mechanism]], bool] | None = None

    def __post_init__(self) -> None:
        self.options  # noqa: B018 - raises where one is declared wrongly

    @functools.cached_property
    def options(self) -> Mapping[str, Option]:
        """The estimator's options by name."""
        return options_of(self.function)

    def explain(self, services: Sequence[str], options: Mapping[str, Any]) -> str:
        """The method, the services and the options, in words."""
        given = "".join(f", {key} {value}" for key, value in options.items())
        return f"{self.name} ({self.summary}) from {', '.join(services)}{given}"

    def asks_to_join(self, domain: Domain, services: Sequence[str], mechanisms: Sequence[Mechanism]) -> bool:
        """Whether the reports of these services are to be joined by user for this estimator.

        Args:
            domain: the attribute's domain.
            services: the services of the estimate.
            mechanisms: the mechanisms of the services, one or more for each.
        """
        if self.joins or self.joins_where is None or len(services) < 2:
            return self.joins
        return self.joins_where(domain, mechanisms)

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Check that every option is known and has an allowed value.

        Raises:
            ValueError: for the first option that is unknown or has another value.
        """
        for name, value in given.items():
            if name not in self.options:
                allowed = ", ".join(self.options) or "none"
                raise ValueError(f"estimator {self.name!r} has no option {name!r}; it takes: {allowed}")
            if not self.options[name].takes(value):
                raise ValueError(f"option {name!r} is {self.options[name].allowed}, found {value!r}")
