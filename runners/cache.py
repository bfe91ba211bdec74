"""Where ldpbeam keeps what it fetched and built, and how it fills a folder there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

#: The environment variable that names the cache.
CACHE = "LDPBEAM_CACHE"


def cache() -> Path:
    """The cache: ``LDPBEAM_CACHE``, or ``~/.cache/ldpbeam``."""
    named = os.environ.get(CACHE)
    return (Path(named) if named else Path.home() / ".cache" / "ldpbeam").absolute()


def make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder that is there when it is filled, and not before.

    Args:
        folder: its parent must be there.
        fill: writes the content into the empty folder that it is given.
    """
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        new = Path(temporary) / folder.name
        new.mkdir()
        fill(new)
        try:
            new.rename(folder)
        except OSError:
            # Another process was faster.
            if not folder.is_dir():
                raise
