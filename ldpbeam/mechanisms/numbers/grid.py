"""Samplers of numbers in integer arithmetic, which give each report an exact probability.

Values are rounded to a grid first. A report is a function of its place on a grid, and depends on the value
only through that place. Draws are uniform integers below 2^53; a sampler decides how many of them lead to
each place (decision 26).
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

#: The number of possible draws, which are integers from 0: a uniform double has this many values.
DRAWS = 2**53
#: The number of steps of the grid to which values in [0, 1] are rounded.
STEPS = 2**30
#: A cell of a lattice is spread over 2 to this power places.
SPREAD_BITS = 14


def whole_draws(uniforms: Uniforms, size: int) -> Integers:
    """Uniform integers from 0 to ``DRAWS`` - 1, shape (size,)."""
    return (uniforms.random(size) * float(DRAWS)).astype(np.int64)


def exponential(epsilon: float) -> Fraction:
    """A lower bound of exp(epsilon), accurate to about fifty digits."""
    context = decimal.Context(prec=60)
    return Fraction(context.exp(decimal.Decimal(epsilon))) * (1 - Fraction(1, 10**50))


def places(x: ArrayLike, steps: int) -> Integers:
    """The nearest of ``steps`` + 1 places on [0, 1], 0 .. ``steps``; values outside are clipped."""
    unit = np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0)
    return np.floor(unit * steps + 0.5).astype(np.int64)


def rounded_at_random(x: ArrayLike, steps: int, draws: Integers) -> Integers:
    """One of the two places around each value in [0, 1], drawn with the value as its mean, shape (n,)."""
    scaled = np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0) * steps
    below = np.floor(scaled)
    up = draws < (scaled - below) * float(DRAWS)
    return below.astype(np.int64) + up


def spread(cells: Integers, draws: Integers) -> Floats:
    """Uniform numbers in [cell, cell + 1): the midpoints of ``2**SPREAD_BITS`` equal parts of the cell."""
    parts = (draws >> (53 - SPREAD_BITS)) + 0.5
    return np.asarray(cells + parts * 2.0**-SPREAD_BITS, dtype=np.float64)


@dataclass(frozen=True)
class Wave:
    """A distribution of places 0 .. ``size`` - 1: a wave around the value's place and a uniform part.

    A draw m below ``width * excess`` moves the value's place up by floor(m / ``excess``), so each of the
    ``width`` places from the value's place on has ``excess`` draws. Any other draw leads to the place
    (m - ``width * excess``) mod ``size``, which does not depend on the value. So the numbers of draws of a
    place for two values differ at most by the excess. The excess is at most exp(epsilon) - 1 times the fewest
    draws that any place has without it.

    A slope, in places, makes the wave a trapezoid: a second draw moves the place further up, by 0 to
    ``slope`` - 1 places with equal chances. If ``slope`` does not divide the number of draws, the few second
    draws left over lead to a place that does not depend on the value.

    Attributes:
        steps: the value's place is from 0 to ``steps``.
        width: the number of places of the wave without its slope.
        slope: the number of places from which the second draw chooses; 1 for no slope.
        excess: the number of draws per place of the wave.
        draws: the number of possible draws; a draw is from 0 to ``draws`` - 1.
    """

    steps: int
    width: int
    slope: int
    excess: int
    draws: int = DRAWS

    @property
    def size(self) -> int:
        """The number of places."""
        return self.steps + self.width + self.slope - 1

    @property
    def even(self) -> int:
        """The fewest draws that any place has for any value."""
        return (self.draws - self.width * self.excess) // self.size

    @property
    def middle(self) -> float:
        """The distance from the value's place to the middle of its wave, in places."""
        return (self.width + self.slope - 2) / 2.0

    def sample(self, values: Integers, first: Integers, second: Integers | None = None) -> Integers:
        """The places of reports, shape (n,).

        Args:
            values: the values' places, from 0 to ``steps``, shape (n,).
            first: one draw per value, shape (n,).
            second: a second draw per value, shape (n,); needed only if the wave has a slope.
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
    """Numbers modulo a divisor; in numpy a division is faster than a remainder."""
    return numbers - (numbers // divisor) * divisor


def wave(
    epsilon: float, share: float, width: float, slope: float = 0.0, *, steps: int = STEPS, draws: int = DRAWS
) -> Wave:
    """The wave of a mechanism.

    Args:
        epsilon: the budget of a report, which the wave never exceeds.
        share: the probability of the wave, without the uniform part.
        width: the width of the wave without its slope, relative to the range of values.
        slope: the width that the slope adds, relative to the range of values.
        steps: the number of steps of the values' grid.
        draws: the number of possible draws.
    """
    wide, sloped = math.ceil(width * steps), max(1, round(slope * steps))
    excess = fitting_excess(epsilon, share, wide, steps + wide + sloped - 1, draws)
    return Wave(steps, wide, sloped, excess, draws)


def fitting_excess(epsilon: float, share: float, width: int, size: int, draws: int = DRAWS) -> int:
    """The number of draws per place of a wave, beyond the uniform part.

    Args:
        epsilon: the budget of a report, which the wave never exceeds.
        share: the probability of the wave, without the uniform part.
        width: the number of places of the wave.
        size: the number of all places.
        draws: the number of possible draws.
    """
    growth = exponential(epsilon) - 1
    wanted = math.floor(share * draws / width)
    # The uniform part has a whole number of draws per place. If that is small, one draw more costs less than
    # one draw fewer.
    fewest = (draws - width * wanted) // size
    return max(
        min(wanted, (draws - size * even) // width, math.floor(growth * even))
        for even in (fewest, fewest + 1)
    )
