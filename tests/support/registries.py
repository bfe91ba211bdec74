"""Registries of mechanisms and estimators, for tests that change them."""

from __future__ import annotations

from typing import Any

from ldpbeam.plugins import Registry


def fresh(registry: Registry[Any]) -> Registry[Any]:
    """A registry with what this one has, which will load plugins when it is asked."""
    found: Registry[Any] = Registry(registry.kind, registry._checked)
    found._known = dict(registry._known)
    return found
