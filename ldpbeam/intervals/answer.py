"""Which intervals are wanted."""

from __future__ import annotations

from dataclasses import dataclass

#: How the intervals of sums over reports are computed, in words.
UNBIASED_SUMS = "unbiased reports and their variance, within the domain"


@dataclass(frozen=True)
class WantedIntervals:
    """Which intervals an estimate is to have.

    Attributes:
        level: the share of all samples in which an interval holds the truth, above 0 and below 1.
        simultaneous: whether all shares of an estimate (and all frequencies, and all means of keys) lie in
            their intervals at once in that share of all samples; otherwise each lies in its own.
        quantiles: the levels of the quantiles of a number that get an interval, each above 0 and below 1.
        ranges: the ranges (low, high) of a number whose shares get an interval, in the attribute's unit.
        any_look: near this many reports, the intervals that hold at every look are narrowest.
        liars: the largest share of the people of an estimate who may send anything; certain intervals hold
            the numbers of the others. In [0, 0.5).
        named_only: whether the mean of a number, and its ``quantiles`` and ``ranges``, hold together, and
            nothing else has certain intervals, which makes these narrower.
    """

    level: float = 0.95
    simultaneous: bool = False
    quantiles: tuple[float, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()
    any_look: int = 10_000
    liars: float = 0.0
    named_only: bool = False


def each_level(level: float, many: int, simultaneous: bool) -> float:
    """The level of each of ``many`` intervals; higher if all are to hold at once (Bonferroni)."""
    return 1.0 - (1.0 - level) / many if simultaneous else level
