"""Modules that ldpbeam does not require."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, package: str = "") -> Any:
    """Import a module that ldpbeam does not require.

    Raises:
        ImportError: if it is not installed; the text says what to install.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise ImportError(f"this needs {module}: pip install '{package or module}'", name=module) from None
