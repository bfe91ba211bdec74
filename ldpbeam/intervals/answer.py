"""The intervals that an estimate should have."""

from __future__ import annotations

from dataclasses import dataclass

#: How the intervals of sums over reports are computed, in words.
UNBIASED_SUMS = "unbiased reports and their variance, within the domain"


@dataclass(frozen=True)
class WantedIntervals:
    """The intervals that an estimate should have.

    Attributes:
        level: the share of all samples in which an interval contains the truth, above 0 and below 1.
        simultaneous: whether all intervals of shares (of frequencies, of means of keys) contain the truth at
            once in that share of all samples; otherwise each does so alone.
        quantiles: the levels of the quantiles that get an interval, each above 0 and below 1.
        ranges: the ranges (low, high) whose shares get an interval, in the attribute's unit.
        any_look: the number of reports near which the intervals that hold at every look are narrowest.
        liars: the largest share of the people of an estimate who may send anything; certain intervals then
            cover the honest people alone. In [0, 0.5).
        named_only: whether only the mean, the ``quantiles`` and the ``ranges`` have certain intervals, which
            hold together and are narrower for it.
    """

    level: float = 0.95
    simultaneous: bool = False
    quantiles: tuple[float, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()
    any_look: int = 10_000
    liars: float = 0.0
    named_only: bool = False


def each_level(level: float, many: int, simultaneous: bool) -> float:
    """The level of each of ``many`` intervals; it is higher if all must hold at once (Bonferroni)."""
    return 1.0 - (1.0 - level) / many if simultaneous else level
