"""The interface of mechanisms for keys with values."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.domains import Floats, Integers, KeyValuePairs, KeyValues
from ldpbeam.mechanisms.mechanism import Mechanism, Uniforms


@dataclasses.dataclass(frozen=True)
class KeySums:
    """What a histogram says of each key; arrays have the shape (size,).

    A person with a key draws it with probability 1/``padding``, and reports on the draw.

    Attributes:
        asked: the number of reports that could have named the key.
        present: the number of those that name it.
        sums: the sum of the values on [-1, 1] that these report.
        squares: the sum of the squares of these values.
        own: the probability that a report names the key that was drawn.
        other: the probability that it names another key.
        gain: the mean of the value that is reported with the drawn key if its value is 1.
        square_by_chance: the mean square of the value that is reported with a key that was not drawn.
        padding: one, or the number of pairs of which a person draws one.
        sampled: whether the people who could have named a key are a random sample of all people, each of
            whom draws the key to be asked for, all keys alike.
    """

    asked: Floats
    present: Floats
    sums: Floats
    squares: Floats
    own: float
    other: float
    gain: float
    square_by_chance: float = 1.0
    padding: int = 1
    sampled: bool = False


@dataclasses.dataclass(frozen=True)
class KeyValueMechanism(Mechanism):
    """A mechanism for the keys 0 .. size - 1, each with a value x in [0, 1]; papers' values are v = 2x - 1.

    A person with several pairs reports one of them. The columns of the channel are the possibilities for that
    one, such as a key and the sign to which its value was rounded, or no key. A person is a distribution over
    the columns.

    Attributes:
        size: the number of keys, two or more.
    """

    domain_type = KeyValues

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 2:
            raise ValueError(f"size must be two keys or more, found {self.size}")

    @abstractmethod
    def perturb(self, values: KeyValuePairs, uniforms: Uniforms) -> NDArray[Any]:
        """One report per person, with or without a pair, shape (people,) and dtype ``payload_dtype``."""

    @abstractmethod
    def key_sums(self, histogram: Integers, reports: int) -> KeySums:
        """What a histogram of ``reports`` reports, at any resolution, says of each key."""

    def key_values(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """(frequencies, means on [0, 1]) as the mechanism's paper estimates them, both of shape (size,).

        By default they are unbiased numbers from :meth:`key_sums`, clipped to [1/n, 1] and to [0, 1]: the
        frequency ell (N/n - b)/(a - b) and the mean on [-1, 1] ell S/(n f a g), for N of n reports that name
        a key, of which the values sum to S.

        Args:
            histogram: the histogram of ``reports`` reports, at any resolution.
            reports: the number of reports, above zero.
        """
        key_sums = self.key_sums(histogram, reports)
        asked = np.maximum(key_sums.asked, 1.0)
        shares = (key_sums.present / asked - key_sums.other) / (key_sums.own - key_sums.other)
        frequencies = np.clip(key_sums.padding * shares, 1.0 / asked, 1.0)
        means = key_sums.padding * key_sums.sums / (asked * key_sums.own * key_sums.gain * frequencies)
        return frequencies, np.clip((1.0 + means) / 2.0, 0.0, 1.0)

    @abstractmethod
    def precisions(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """Weights of the frequency and of the mean of each key, both of shape (size,).

        The first is one over the variance of a rare key's frequency; the second is proportional to one over
        the variance of its mean. Only their ratios between services matter. They are 0 for a key without
        reports.
        """


def shares_of(parts: Floats, wholes: Floats) -> Floats:
    """``parts / wholes`` clipped to [0, 1]; 1/2, the middle of the range, if the whole is not above 0."""
    middle = np.full(np.shape(wholes), 0.5)
    shares: Floats = np.divide(parts, wholes, out=middle, where=np.asarray(wholes) > 0.0)
    return np.clip(shares, 0.0, 1.0)
