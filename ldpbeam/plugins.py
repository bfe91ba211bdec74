"""Loading of other packages' mechanisms and estimators by entry point; a broken one is only a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint
from typing import Any

#: The kinds of plugins that are being loaded at the moment.
_loading: set[str] = set()


class BrokenPlugin(UserWarning):
    """An installed package adds a mechanism or an estimator that cannot be used."""


def load_plugins(
    kind: str, found: Iterable[EntryPoint], registry: dict[str, Any], add: Callable[[Any], None]
) -> tuple[str, ...]:
    """Add the objects that entry points name to a registry, and warn about those that cannot be used.

    Args:
        kind: the word for such an object in warnings.
        found: the entry points.
        registry: the known objects by name. Everything that a package adds before it fails is removed again.
        add: adds an object to the registry, or raises an error.

    Returns:
        One sentence about each entry point that cannot be used.

    Warns:
        BrokenPlugin: once for each of these sentences.
    """
    # A package that asks for the registry while it is being imported gets the objects known so far.
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
    """Add the object that an entry point names; return why it cannot be used, or empty text."""
    before = dict(registry)
    try:
        add(entry_point.load())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an import may raise any error, and even exit
        registry.clear()
        registry.update(before)
        package = entry_point.dist.name if entry_point.dist else entry_point.value
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return (
            f"the {kind} {entry_point.name!r} of the installed package {package} cannot be used "
            f"({problem}); repair or uninstall the package"
        )
    return ""
