"""Packages of other people that add to ours by an entry point; a broken one costs a warning and its part."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint
from typing import Any

#: The kinds that are being loaded just now.
_loading: set[str] = set()


class BrokenPlugin(UserWarning):
    """A package that is installed adds a mechanism or an estimator that cannot be used."""


def load_plugins(
    kind: str, found: Iterable[EntryPoint], registry: dict[str, Any], add: Callable[[Any], None]
) -> tuple[str, ...]:
    """Add what other packages name, and warn of what cannot be used.

    Args:
        kind: what the packages add, as warnings call it.
        found: the entry points.
        registry: what is known, by name. What a package adds to it before it fails is taken out again.
        add: takes what an entry point names into the registry, or raises.

    Returns:
        What is wrong with each one that cannot be used, a sentence each.

    Warns:
        BrokenPlugin: for each of these.
    """
    # A package that asks for the registry while it is imported gets what is known so far.
    if kind in _loading:
        return ()
    _loading.add(kind)
    try:
        problems = (_problem(kind, entry_point, registry, add) for entry_point in found)
        broken = tuple(filter(None, problems))
    finally:
        _loading.remove(kind)
    for sentence in broken:
        warnings.warn(sentence, BrokenPlugin, stacklevel=4)
    return broken


def _problem(kind: str, entry_point: EntryPoint, registry: dict[str, Any], add: Callable[[Any], None]) -> str:
    """Add what an entry point names; gives why it cannot be used, or empty text where it can."""
    before = dict(registry)
    try:
        add(entry_point.load())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an import may raise anything, and even exit
        registry.clear()
        registry.update(before)
        package = entry_point.dist.name if entry_point.dist else entry_point.value
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return (
            f"the {kind} {entry_point.name!r} of the installed package {package} cannot be used "
            f"({problem}); repair or uninstall the package"
        )
    return ""
