"""The cache of files that ldpbeam downloads and builds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

#: The environment variable that names the cache.
CACHE = "LDPBEAM_CACHE"


def cache() -> Path:
    """The folder of the cache: ``LDPBEAM_CACHE``, or ``~/.cache/ldpbeam``."""
    named = os.environ.get(CACHE)
    return (Path(named) if named else Path.home() / ".cache" / "ldpbeam").absolute()


def make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder that appears only when its content is complete.

    If another process makes the folder at the same time, one of the two contents is kept.

    Args:
        folder: the folder to make; its parent must exist.
        fill: a function that writes the content into the empty folder it is given.
    """
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        new = Path(temporary) / folder.name
        new.mkdir()
        fill(new)
        try:
            new.rename(folder)
        except OSError:
            # Another process made the folder first.
            if not folder.is_dir():
                raise
