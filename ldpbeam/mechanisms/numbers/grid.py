"""Samplers of numbers in whole-number arithmetic, so that each report's probability is known exactly.

A report is a function of a place on a grid, and the place is all of it that depends on the value. Values are
put on a grid first. Draws are even whole numbers below 2^53, and a sampler says how many of them lead to each
place (docs/decisions/26-grid-of-reports.md).
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import Uniforms

#: A draw is one of so many whole numbers, from 0 up: what a uniform double has.
DRAWS = 2**53
#: Values in [0, 1] are put on a grid of so many steps.
STEPS = 2**30
#: A cell of a lattice is spread over so many places.
SPREAD_BITS = 14


def whole_draws(uniforms: Uniforms, size: int) -> Integers:
    """Even whole numbers from 0 to ``DRAWS`` - 1, shape (size,)."""
    return (uniforms.random(size) * float(DRAWS)).astype(np.int64)


def exponential(epsilon: float) -> Fraction:
    """The exponential of a number, from below, to fifty digits."""
    context = decimal.Context(prec=60)
    return Fraction(context.exp(decimal.Decimal(epsilon))) * (1 - Fraction(1, 10**50))


def places(x: ArrayLike, steps: int) -> Integers:
    """The nearest of ``steps`` + 1 places on [0, 1]; values outside are taken for the nearer end."""
    unit = np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0)
    return np.floor(unit * steps + 0.5).astype(np.int64)


def rounded_at_random(x: ArrayLike, steps: int, draws: Integers) -> Integers:
    """One of the two places next to a value, drawn such that its mean is the value."""
    scaled = np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0) * steps
    below = np.floor(scaled)
    up = draws < (scaled - below) * float(DRAWS)
    return below.astype(np.int64) + up


def spread(cells: Integers, draws: Integers) -> Floats:
    """Even numbers in [cell, cell + 1), in the middles of ``2**SPREAD_BITS`` parts of it."""
    parts = (draws >> (53 - SPREAD_BITS)) + 0.5
    return np.asarray(cells + parts * 2.0**-SPREAD_BITS, dtype=np.float64)


@dataclass(frozen=True)
class Wave:
    """Places 0 .. ``size`` - 1 around a value's place: a wave over an even distribution.

    A draw m below ``width * excess`` moves the value's place up by floor(m / ``excess``), so each of the
    ``width`` places from the value's on has ``excess`` draws. Any other draw leads to (m - ``width *
    excess``) mod ``size``, whatever the value is. So a place has as many draws for one value as for another,
    but for the excess, which is at most exp(epsilon) - 1 times the fewest that any place has without it.

    A slope, in places, makes the wave a trapezoid: a second draw moves the place up further, evenly over so
    many places. The few draws that do not share out evenly lead to a place that the value has no part in.

    Attributes:
        steps: n; a value's place is from 0 to n.
        width: how many places a wave has without its slope.
        slope: how many places the second draw chooses from; 1 for none.
        excess: draws a place.
        draws: how many a draw is one of.
    """

    steps: int
    width: int
    slope: int
    excess: int
    draws: int = DRAWS

    @property
    def size(self) -> int:
        """How many places there are."""
        return self.steps + self.width + self.slope - 1

    @property
    def even(self) -> int:
        """How many draws each place has at least, whatever the value is."""
        return (self.draws - self.width * self.excess) // self.size

    @property
    def middle(self) -> float:
        """How far the middle of a value's wave is above the value's place."""
        return (self.width + self.slope - 2) / 2.0

    def sample(self, values: Integers, first: Integers, second: Integers | None = None) -> Integers:
        """The places of reports.

        Args:
            values: the values' places, from 0 to ``steps``.
            first: a draw each.
            second: likewise; needed where there is a slope.
        """
        in_wave = self.width * self.excess
        up = first // self.excess if self.excess else first
        where = values + up
        elsewhere = remainder(first - in_wave, self.size)
        if self.slope > 1:
            assert second is not None
            share = self.draws // self.slope
            where = where + second // share
            left_over = second - share * self.slope
            where = np.where(left_over < 0, where, remainder(left_over, self.size))
        return np.where(first < in_wave, where, elsewhere)


def remainder(numbers: Integers, divisor: int) -> Integers:
    """Numbers modulo a divisor; numpy divides faster than it takes remainders."""
    return numbers - (numbers // divisor) * divisor


def wave(
    epsilon: float, share: float, width: float, slope: float = 0.0, *, steps: int = STEPS, draws: int = DRAWS
) -> Wave:
    """The wave of a mechanism.

    Args:
        epsilon: the budget that it keeps to.
        share: how much of the reports' probability lies in the wave, above what is even.
        width: of the wave without its slope, relative to the range of values.
        slope: what the slope adds to that.
        steps: the values' grid.
        draws: how many a draw is one of.
    """
    wide, sloped = math.ceil(width * steps), max(1, round(slope * steps))
    growth, size = exponential(epsilon) - 1, steps + wide + sloped - 1
    wanted = math.floor(share * draws / wide)
    # What is even is whole draws a place: where those are few, one more costs less than to go below.
    fewest = (draws - wide * wanted) // size
    kept = [
        min(wanted, (draws - size * even) // wide, math.floor(growth * even)) for even in (fewest, fewest + 1)
    ]
    return Wave(steps, wide, sloped, max(kept), draws)
