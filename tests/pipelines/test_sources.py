"""The list of what can be read: each entry has its module, and its options name what they should."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

import pytest

from ldpbeam.errors import UserError
from ldpbeam.pipelines.options.sources import BOUNDED, PUBLISHED, STREAMED, Option, Source, named

ONE = Source("", "--one", ("--one",), (Option("--one", "A", ""), Option("--of-one", "A", "")))
TWO = Source("", "--two A --shared B", ("--two",), (Option("--two", "A", ""),), shares=("--shared",))
THREE = Source("", "--shared", ("--shared",), (Option("--shared", "A", ""),))


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{**dict.fromkeys(("one", "of_one", "two", "shared")), **given})


@pytest.mark.parametrize(
    ("given", "source"),
    [({"one": 1, "of_one": 1}, ONE), ({"two": 1, "shared": 1}, TWO), ({"shared": 1}, THREE)],
)
def test_one_thing_is_named_by_its_option(given: dict[str, Any], source: Source) -> None:
    assert named((ONE, TWO, THREE), options(**given)) == source


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "name one thing to read: --one, --two A --shared B, or --shared"),
        ({"one": 1, "two": 1}, "name one thing to read: --one, --two A --shared B, or --shared"),
        ({"shared": 1, "of_one": 1}, "--of-one goes with --one"),
    ],
)
def test_what_names_no_one_thing_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        named((ONE, TWO, THREE), options(**given))
    assert str(caught.value) == said


def test_an_option_of_what_is_published_to_may_be_given() -> None:
    given = options(shared=1, of_one=1)
    assert named((ONE, THREE), given, allowed=("--of-one",)) == THREE


def test_every_source_and_destination_has_a_module() -> None:
    wanted = [(source.module, "opening") for source in STREAMED]
    wanted += [(module, "publishing") for module, _ in PUBLISHED.values()]
    for module, function in wanted:
        assert callable(getattr(import_module(f"ldpbeam.pipelines.sources.{module}"), function))


@pytest.mark.parametrize("sources", [STREAMED, BOUNDED])
def test_what_names_a_thing_is_an_option(sources: tuple[Source, ...]) -> None:
    every = [option.name for source in sources for option in source.options]
    assert len(every) == len(set(every))
    assert {name for source in sources for name in (*source.names, *source.shares)} <= set(every)
