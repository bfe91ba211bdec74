"""Numbers as tables have them."""

from __future__ import annotations


def short(value: float) -> str:
    """Three digits that count."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def size(value: float) -> str:
    """Bytes as MB, GB or TB."""
    unit, name = next(((u, n) for u, n in ((1e12, "TB"), (1e9, "GB")) if value >= u), (1e6, "MB"))
    return f"{short(value / unit)} {name}"
