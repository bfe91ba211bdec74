"""Numbers and tables as the page writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def short(value: float) -> str:
    """Three digits that count."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def rate(microseconds: float) -> str:
    """How many a second."""
    return short(1e6 / microseconds)


def size(value: float) -> str:
    """Bytes as MB, GB or TB."""
    unit, name = next(((u, n) for u, n in ((1e12, "TB"), (1e9, "GB")) if value >= u), (1e6, "MB"))
    return f"{short(value / unit)} {name}"


def table(heads: str, rows: Iterable[Sequence[str]]) -> str:
    """Rows below their heads, which bars part."""
    names = heads.split("|")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [names, ["---"] * len(names), *rows])
