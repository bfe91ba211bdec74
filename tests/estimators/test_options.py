"""Options of estimators: declared in the signature of the function, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest

from ldpbeam.estimators import AboveZero, Iterations, Question, Range, Share, registered_estimators
from ldpbeam.estimators.estimator import options_of
from ldpbeam.options import Kind, Option


def example(
    question: Question,
    *,
    often: Iterations = 10,
    part: Share = 0.25,
    far: AboveZero | None = None,
    level: Annotated[int, Range(least=2, most=5)] = 3,
    any_number: float = -1.5,
    even: bool = True,
    perhaps: bool | None = None,
    way: Literal["fast", "slow"] = "fast",
) -> None: ...


OPTIONS = options_of(example)


def test_options_are_the_keyword_parameters_with_their_types_ranges_and_defaults() -> None:
    nothing = Kind(type(None))
    assert {
        "often": Option("often", 10, (Kind(int, Range(least=1)),)),
        "part": Option("part", 0.25, (Kind(float, Range(above=0, most=1)),)),
        "far": Option("far", None, (Kind(float, Range(above=0)), nothing)),
        "level": Option("level", 3, (Kind(int, Range(least=2, most=5)),)),
        "any_number": Option("any_number", -1.5, (Kind(float),)),
        "even": Option("even", True, (Kind(bool),)),
        "perhaps": Option("perhaps", None, (Kind(bool), nothing)),
        "way": Option("way", "fast", (Kind(str, choices=("fast", "slow")),)),
    } == OPTIONS


@pytest.mark.parametrize(
    ("name", "allowed", "taken", "refused"),
    [
        ("often", "a whole number from 1", [1, 10**400], [0, -1, 1.0, True, None, "2", math.nan]),
        ("part", "a number above 0 and at most 1", [1, 0.5, 5e-324], [0, 0.0, 1.0001, True, None, math.nan]),
        ("far", "a number above 0", [1e300, 3, None], [0, -1.0, math.inf, math.nan, "1", False]),
        ("level", "a whole number from 2 to 5", [2, 5], [1, 6, 2.5]),
        ("any_number", "a number", [0, -1e9], [math.inf, -math.inf, "", None]),
        ("even", "true or false", [True, False], [0, 1, "true", None]),
        ("perhaps", "true or false", [True, None], [1, "null"]),
        ("way", "fast or slow", ["fast", "slow"], ["Fast", "", None, 1, ["fast"]]),
    ],
)
def test_an_option_takes_what_it_says(name: str, allowed: str, taken: list[Any], refused: list[Any]) -> None:
    option = OPTIONS[name]
    assert option.allowed == allowed
    assert [value for value in taken if not option.takes(value)] == []
    assert [value for value in refused if option.takes(value)] == []


def positional(question: Question, often: int = 1) -> None: ...
def needed(question: Question, *, often: int) -> None: ...
def untyped(question: Question, *, often=1) -> None: ...  # type: ignore[no-untyped-def]
def listed(question: Question, *, often: list[int] = []) -> None: ...  # noqa: B006
def either(question: Question, *, often: int | str = 1) -> None: ...
def numbered(question: Question, *, often: Literal[1, 2] = 1) -> None: ...
def outside(question: Question, *, often: Iterations = 0) -> None: ...
def not_optional(question: Question, *, often: Iterations = None) -> None: ...  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (positional, "the option 'often' must be keyword-only, with a default"),
        (needed, "the option 'often' must be keyword-only, with a default"),
        (untyped, "the type of option 'often' must be bool, int, float or a Literal of words"),
        (listed, "the type of option 'often' must be"),
        (either, "the type of option 'often' must be"),
        (numbered, "the type of option 'often' must be"),
        (outside, "the default of option 'often' must be a whole number from 1, found 0"),
        (not_optional, "the default of option 'often' must be a whole number from 1, found None"),
    ],
)
def test_a_signature_that_declares_no_option_is_refused(function: Callable[..., None], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        options_of(function)


def test_the_options_of_our_estimators() -> None:
    """As studies may have them: a name that goes, or a default that moves, changes what studies mean."""
    declared = {
        name: {option.name: option.default for option in estimator.options.values()}
        for name, estimator in registered_estimators().items()
        if estimator.options
    }
    iteration = {"tolerance": None, "max_iterations": 10_000, "accelerated": None}
    assert declared == {
        "em": iteration,
        "ems": iteration,
        "ule": {"smooth": True, "tolerance": 1e-3, "max_iterations": 10_000, "accelerated": False},
        "mr": {
            "strategy": None, "pre_merge": False, "keep": None, "deviations": None, **iteration,
        },
        "iiw": {"correction": True},
        "admm": {"tolerance": 1e-8, "max_iterations": 10_000},
        "base_cut": {"deviations": 2.0},
        "threshold": {"significance": 0.05},
        "privkv_em": {"precision": 1e-4, "max_iterations": 10_000},
        "pckv_em": {"tolerance": 1e-3, "max_iterations": 10_000},
        "pckv_mr": {"deviations": 2.0, "keep": 0.25, "tolerance": 1e-3, "max_iterations": 10_000},
    }  # fmt: skip
