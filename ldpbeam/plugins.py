"""Mechanisms and estimators by name: ours, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from ldpbeam.errors import UserError

T = TypeVar("T")


class Registry(Generic[T]):
    """Objects by their names in study files.

    Args:
        kind: the word for such an object.
        checked: returns the name of an object that a package adds and the object, or raises an error.
    """

    def __init__(self, kind: str, checked: Callable[[object], tuple[str, T]]) -> None:
        self.kind, self._checked = kind, checked
        self._known: dict[str, T] = {}
        self._loaded = False

    def add(self, name: str, item: T) -> None:
        """Let study files use an object by a name.

        It replaces one that the program itself defined, because a notebook runs its cells again.

        Raises:
            ValueError: if another object has this name.
        """
        before = self._known.get(name)
        if before is not None and getattr(before, "function", before).__module__ != "__main__":
            raise ValueError(f"two {self.kind}s are called {name!r}")
        self._known[name] = item

    def all(self) -> dict[str, T]:
        """Every object by name: ours, then those of the entry point group ``ldpbeam.KINDs``.

        Raises:
            UserError: if an installed package adds one that cannot be used.
        """
        if not self._loaded:
            # A package that uses the registry while it is being imported gets the objects found so far.
            self._loaded = True
            for entry_point in entry_points(group=f"ldpbeam.{self.kind}s"):
                self._load(entry_point)
        return dict(self._known)

    def _load(self, entry_point: EntryPoint) -> None:
        try:
            name, registered = self._checked(entry_point.load())
            # A plugin may have registered itself when it was imported.
            if self._known.get(name) is not registered:
                self.add(name, registered)
        except Exception as error:  # an import may raise any
            self._loaded = False
            package = entry_point.dist.name if entry_point.dist else entry_point.value
            raise UserError(
                f"the {self.kind} {entry_point.name!r} of the installed package {package} cannot be used "
                f"({type(error).__name__}: {error}); repair or uninstall the package"
            ) from error
