"""How outputs are called: names depend on what the contents are of alone, so a retry writes the same file."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ldpbeam.times import milliseconds
from ldpbeam.windows import Bounds


def window_name(study: str, attribute: str, window: Bounds | None) -> str:
    """How the files of an attribute's window are called, without an ending."""
    return f"{study}-{attribute}-{span_name(*window) if window else 'all'}"


def snapshot_name(study: str, attribute: str, window: Bounds | None, run: str = "") -> str:
    """The name of the file of an attribute's snapshots of a window; with a run, of that run's."""
    return f"{window_name(study, attribute, window)}{run and f'.{run}'}.avro"


def span_name(start: int, stop: int) -> str:
    """Two moments in epoch milliseconds, as they stand in names of files."""
    return f"{_compact(start)}-{_compact(stop)}"


def window_in(name: str) -> Bounds | None:
    """The window that stands at the end of a file's name, None if there is none."""
    found = re.search(r"-(\d{8}T\d{6}(?:\.\d{3})?Z)-(\d{8}T\d{6}(?:\.\d{3})?Z)\.[a-z]+$", name)
    return (milliseconds(found[1]), milliseconds(found[2])) if found else None


def _compact(time: int) -> str:
    moment = datetime.fromtimestamp(time / 1000, tz=UTC)
    fraction = f".{time % 1000:03d}" if time % 1000 else ""
    return f"{moment:%Y%m%dT%H%M%S}{fraction}Z"
