"""Both steps of a client that remembers its noise, in whole numbers, so that every probability is exact.

A draw is a uniform integer from 0 to U - 1, as in :mod:`ldpbeam.mechanisms.numbers.grid`. Some draws of a
step, its *excess*, lead to the input of the step, and all others to an answer that does not depend on it. So
the excess of both steps together is the product of theirs, and the rest of a window's channel does not depend
on the value (decision 53).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms import (
    LocalHashing,
    OptimisedUnaryEncoding,
    Piecewise,
    RandomisedResponse,
    StochasticRounding,
    SymmetricUnaryEncoding,
)
from ldpbeam.mechanisms.numbers.grid import DRAWS, STEPS, exponential
from ldpbeam.memoised.lifetime import Lifetime


@dataclass(frozen=True)
class Steps(ABC):
    """The permanent and the instant step of a client.

    Attributes:
        answers: the number of permanent answers; 2 if each bit has one.
        kept: the number of draws of the instant step that keep the permanent answer. Any other draw m leads
            to the answer (m - ``kept``) mod ``answers``.
        draws: the number U of possible draws.
    """

    answers: int
    kept: int
    draws: int

    def __post_init__(self) -> None:
        if self.draws - self.kept < self.answers:
            raise ValueError(
                "lifetime_epsilon is too near to epsilon: reports would be the permanent answers"
            )

    @property
    @abstractmethod
    def constants(self) -> tuple[int, ...]:
        """What the permanent step depends on, besides its input."""

    @property
    def draws_of_answer(self) -> int:
        """The number of draws of a permanent answer, and of an instant answer."""
        return 1

    @property
    def loss(self) -> float:
        """The largest epsilon of the instant step between two permanent answers, or slightly more.

        Two answers may differ in all their draws, if there is one bit per category.
        """
        other = (self.draws - self.kept) // self.answers
        # The margin is above the rounding errors of the quotient, its logarithm and the product.
        return self.draws_of_answer * math.log1p(self.kept / other) * (1.0 + 2.0**-50)

    @abstractmethod
    def permanent(self, inputs: Integers, draws: Integers) -> Integers:
        """The permanent answers, shape (n, ``draws_of_answer``).

        Args:
            inputs: categories, hash values or memo buckets, from 0, shape (n,).
            draws: the draws, shape (n, ``draws_of_answer``).
        """

    def instant(self, permanent: Integers, draws: Integers) -> Integers:
        """The instant answers; all have the shape (n, ``draws_of_answer``)."""
        return np.where(draws < self.kept, permanent, (draws - self.kept) % self.answers)


@dataclass(frozen=True)
class CellSteps(Steps):
    """Randomised response over ``answers`` categories or hash values.

    Attributes:
        excess: the number of draws of the permanent step that lead to its input.
    """

    excess: int

    @property
    def constants(self) -> tuple[int, ...]:
        """The number of answers, and the excess."""
        return self.answers, self.excess

    def permanent(self, inputs: Integers, draws: Integers) -> Integers:
        """The input, or any answer."""
        return np.where(draws < self.excess, inputs[:, None], (draws - self.excess) % self.answers)


@dataclass(frozen=True)
class BitSteps(Steps):
    """One bit per category.

    Attributes:
        size: the number of categories.
        own: the number of draws that set the bit of the person's category.
        other: the number of draws that set the bit of another category.
    """

    size: int
    own: int
    other: int

    @property
    def constants(self) -> tuple[int, ...]:
        """The number of bits, and the two numbers of draws."""
        return self.size, self.own, self.other

    @property
    def draws_of_answer(self) -> int:
        """One for each bit."""
        return self.size

    def permanent(self, inputs: Integers, draws: Integers) -> Integers:
        """The bits, 0 or 1."""
        is_value = inputs[:, None] == np.arange(self.size)
        return (draws < np.where(is_value, self.own, self.other)).astype(np.int64)


@dataclass(frozen=True)
class Inputs:
    """Where the inputs of a number lie on the range: at the values of a step, or in the middles of buckets.

    Attributes:
        buckets: the number of memo buckets.
        values: the number of values of a domain with a step; else 0.
    """

    buckets: int
    values: int = 0

    @property
    def parts(self) -> int:
        """The number of equal parts of the range whose ends are the possible places of inputs."""
        return self.values - 1 if self.values else 2 * self.buckets

    def at(self, inputs: Integers) -> Integers:
        """The place of each input, from 0 to ``parts``."""
        return inputs if self.values else 2 * inputs + 1

    def of(self, x: Floats) -> Integers:
        """The input of values scaled to [0, 1], shape (n,)."""
        if self.values:
            return np.rint(x * (self.values - 1.0)).astype(np.int64)
        return np.minimum(np.floor(x * float(self.buckets)).astype(np.int64), self.buckets - 1)


@dataclass(frozen=True)
class SignSteps(Steps):
    """A sign whose probability is linear in the input's place: 1 for plus.

    Attributes:
        places: where the inputs lie.
        fewest: the number of draws that lead to plus at the low end of the range, and to minus at the other.
    """

    places: Inputs
    fewest: int

    @property
    def constants(self) -> tuple[int, ...]:
        """The number of memo buckets, and the fewest draws."""
        return self.places.buckets, self.fewest

    def permanent(self, inputs: Integers, draws: Integers) -> Integers:
        """The signs, 0 or 1, which include the rounding to an end."""
        places, parts = self.places.at(inputs[:, None]), self.places.parts
        whole, rest = divmod(self.draws - 2 * self.fewest, parts)
        up = self.fewest + places * whole + places * rest // parts
        return (draws < up).astype(np.int64)


@dataclass(frozen=True)
class WaveSteps(Steps):
    """A wave around the input's place; the places of reports are grouped into ``answers`` report buckets.

    Attributes:
        inputs: where the inputs lie.
        steps: the place of the high end of the range of values.
        width: the number of places of the wave.
        excess: the number of draws of a place of the wave, beyond those of any place.
    """

    inputs: Inputs
    steps: int
    width: int
    excess: int

    @property
    def size(self) -> int:
        """The number of places."""
        return self.steps + self.width

    @property
    def constants(self) -> tuple[int, ...]:
        """The numbers of memo and report buckets, of places of the wave, and of draws of each place."""
        return self.answers, self.width, self.excess

    def permanent(self, inputs: Integers, draws: Integers) -> Integers:
        """The report buckets."""
        parts = self.inputs.parts
        middles = (2 * self.steps * self.inputs.at(inputs[:, None]) + parts) // (2 * parts)
        in_wave = self.width * self.excess
        near = middles + draws // max(self.excess, 1)
        cells = np.where(draws < in_wave, near, (draws - in_wave) % self.size)
        return cells * self.answers // self.size


def excess_of(growth: Fraction, size: int, width: int, draws: int) -> int:
    """The number P of draws that ``width`` of ``size`` answers have beyond those of any answer.

    P is at most (E - 1) times the fewest draws of the other answers: (U - wP - size + 1) / size or more.

    Args:
        growth: E, exp of an epsilon.
        size: the number of answers.
        width: the number of answers with an excess.
        draws: the number U of draws.
    """
    more = growth - 1
    return math.floor(more * (draws - size + 1) / (more * width + size))


def kept_of(growth: Fraction, answers: int, excess: int, even: int, draws: int) -> int:
    """The number K of draws of the instant step that keep the permanent answer.

    Of the U^2 pairs of draws, an answer has at most P K more for one value than for another, and at least
    K e + U (U - K - N + 1)/N for any value. K is the largest number for which the first is at most E - 1
    times the second.

    Args:
        growth: E, exp of the epsilon of a window.
        answers: the number N of answers.
        excess: P: the most draws that the value adds to a permanent answer.
        even: e: the fewest draws that such an answer has for any value.
        draws: the number U of draws.
    """
    more = growth - 1
    apart = max(answers * (excess - more * even), Fraction(0))
    return math.floor(more * draws * (draws - answers + 1) / (more * draws + apart))


def kept_bits(growth: Fraction, other: int, draws: int) -> int:
    """The same number for a bit, whose other draws are as many for 0 as for 1.

    Args:
        growth: E: the bit of another category is set in 1 of E + 1 reports, or slightly more.
        other: the number of draws of the permanent step that set it.
        draws: the number U of draws.
    """
    wanted = Fraction(draws) ** 2 / (growth + 1) - other * draws
    turned = max(math.ceil(wanted / (draws - 2 * other)), 0)
    return draws - 2 * turned


def published_kept(lifetime: Fraction, growth: Fraction, answers: int, draws: int) -> int:
    """The number of draws that keep an answer, with the published constants of L-GRR and LOLOHA.

    The permanent answer is c = (E_inf E_1 - 1)/(E_inf - E_1) times as likely as any other one.
    """
    apart = lifetime - growth
    ratio = (lifetime * growth - 1) / apart
    return math.floor(draws * (ratio - 1) / (ratio + answers - 1))


def steps_of(lifetime: Lifetime, *, draws: int = DRAWS, steps: int = STEPS) -> Steps:
    """The steps of a service's clients.

    Args:
        lifetime: what the clients remember.
        draws: the number of possible draws, fewer for tests.
        steps: the number of steps of the grid of waves, fewer for tests.

    Raises:
        ValueError: if the instant step would change too few permanent answers.
    """
    named = lifetime.named
    life, window = exponential(lifetime.epsilon), exponential(named.epsilon)
    if isinstance(named, RandomisedResponse | LocalHashing):
        cells = named.hashes if isinstance(named, LocalHashing) else named.size
        excess = excess_of(life, cells, 1, draws)
        kept = kept_of(window, cells, excess, (draws - excess) // cells, draws)
        if lifetime.as_published:
            # Never above the exact number: with two answers, both are the same up to rounding.
            kept = min(kept, published_kept(life, window, cells, draws))
        return CellSteps(cells, kept, draws, excess)
    if isinstance(named, OptimisedUnaryEncoding):
        other = math.ceil(draws / (life + 1))
        return BitSteps(2, kept_bits(window, other, draws), draws, named.size, draws // 2, other)
    if isinstance(named, SymmetricUnaryEncoding):
        life, window = exponential(lifetime.epsilon / 2.0), exponential(named.epsilon / 2.0)
        other = math.ceil(draws / (life + 1))
        return BitSteps(2, kept_bits(window, other, draws), draws, named.size, draws - other, other)
    buckets, inputs = lifetime.memo_buckets, Inputs(lifetime.memo_buckets, lifetime.values)
    if isinstance(named, StochasticRounding):
        fewest = math.ceil(draws / (life + 1))
        kept = kept_of(window, 2, draws - 2 * fewest, fewest, draws)
        return SignSteps(2, kept, draws, inputs, fewest)
    width = math.ceil(_wave_width(lifetime) * steps)
    size = steps + width
    excess = excess_of(life, size, width, draws)
    # The wave covers a report bucket at most.
    places = -(-size // buckets)
    even = (draws - width * excess) // size
    kept = kept_of(window, buckets, places * excess, places * even, draws)
    return WaveSteps(buckets, kept, draws, inputs, steps, width, excess)


def _wave_width(lifetime: Lifetime) -> Fraction:
    """The width 2b of the permanent wave, to forty digits or more."""
    if isinstance(lifetime.named, Piecewise):
        return 1 / exponential(lifetime.epsilon / 2.0)
    growth, epsilon = exponential(lifetime.epsilon), Fraction(lifetime.epsilon)
    return (epsilon * growth - growth + 1) / (growth * (growth - 1 - epsilon))


def reports_of(lifetime: Lifetime, answers: Integers, seeds: Integers | None) -> NDArray[Any]:
    """The payloads of instant answers, shape (n,).

    Args:
        lifetime: what the clients remember.
        answers: permanent answers, as :meth:`Steps.instant` takes them, shape (n, ``draws_of_answer``).
        seeds: the seed of each report of ``olh``, shape (n,); else None.
    """
    named = lifetime.named
    if isinstance(named, LocalHashing):
        assert seeds is not None
        reports = np.zeros(len(answers), dtype=named.payload_dtype)
        reports["seed"], reports["hash"] = seeds, answers[:, 0]
        return reports
    if isinstance(named, RandomisedResponse):
        return answers[:, 0].astype(np.uint32)
    if isinstance(named, OptimisedUnaryEncoding | SymmetricUnaryEncoding):
        packed = np.packbits(answers.astype(np.uint8), axis=1, bitorder="little")
        return packed.view(named.payload_dtype).ravel()
    if isinstance(named, StochasticRounding):
        return np.where(answers[:, 0] > 0, named.bound, -named.bound)
    low = -lifetime.half_width
    width = 1.0 + 2.0 * lifetime.half_width
    return np.asarray(low + (answers[:, 0] + 0.5) * (width / lifetime.memo_buckets), dtype=np.float64)
