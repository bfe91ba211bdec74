"""Mechanisms and estimators by name: ours, and those of other packages; a broken one is only a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

T = TypeVar("T")


class BrokenPlugin(UserWarning):
    """An installed package adds a mechanism or an estimator that cannot be used."""


class Registry(Generic[T]):
    """Objects by the names that study files have for them.

    Args:
        kind: the word for such an object.
        checked: gives the name of an object that a package adds and the object, or raises an error.
    """

    def __init__(self, kind: str, checked: Callable[[object], tuple[str, T]]) -> None:
        self.kind, self._checked = kind, checked
        self._known: dict[str, T] = {}
        self._broken: tuple[str, ...] | None = None

    def add(self, name: str, item: T) -> None:
        """Let study files use an object by a name.

        It takes the place of one that the program itself defines: a notebook runs its cells again.

        Raises:
            ValueError: if another object has this name.
        """
        known = self._known.get(name)
        if known is not None and getattr(known, "function", known).__module__ != "__main__":
            raise ValueError(f"two {self.kind}s are called {name!r}")
        self._known[name] = item

    def all(self) -> dict[str, T]:
        """Every object by name: ours, then those of the entry point group ``ldpbeam.KINDs``.

        Warns:
            BrokenPlugin: once for each plugin that cannot be used.
        """
        self.broken()
        return dict(self._known)

    def broken(self) -> tuple[str, ...]:
        """One sentence about each plugin that cannot be used; all are loaded at the first call.

        Warns:
            BrokenPlugin: once for each of these sentences.
        """
        if self._broken is None:
            # A package that asks for the registry while it is being imported gets the objects known so far.
            self._broken = ()
            entries = entry_points(group=f"ldpbeam.{self.kind}s")
            self._broken = tuple(filter(None, map(self._problem, entries)))
            for sentence in self._broken:
                warnings.warn(sentence, BrokenPlugin, stacklevel=4)
        return self._broken

    def _problem(self, entry_point: EntryPoint) -> str:
        """Add the object that an entry point names; return why it cannot be used, or empty text."""
        before = dict(self._known)
        try:
            name, registered = self._checked(entry_point.load())
            # A plugin may have registered itself when it was imported.
            if self._known.get(name) is not registered:
                self.add(name, registered)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an import may raise any error, and even exit
            # Everything that the package added before it failed is removed again.
            self._known = before
            package = entry_point.dist.name if entry_point.dist else entry_point.value
            problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return (
                f"the {self.kind} {entry_point.name!r} of the installed package {package} cannot be used "
                f"({problem}); repair or uninstall the package"
            )
        return ""
