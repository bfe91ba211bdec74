"""A page of measurements: shown line by line as they come, and kept where asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def show(lines: Iterable[str], path: Path | None) -> None:
    """Print each line as soon as it is there; write all of them to ``path``, where given."""
    shown = []
    for line in lines:
        print(line, flush=True)
        shown.append(line)
    if path is not None:
        path.write_text("\n".join(shown) + "\n", encoding="utf-8")
