"""What every mechanism for keys with values says of itself."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.domains import Domain, Floats, Integers, KeyValuePairs, KeyValues
from ldpbeam.mechanisms.mechanism import Mechanism, Uniforms


@dataclasses.dataclass(frozen=True)
class KeyValueMechanism(Mechanism):
    """A mechanism for the keys 0 .. size - 1, each with a value x in [0, 1]; papers' values are v = 2x - 1.

    A person of many pairs tells of one of them. The columns of its channel are what that one can be, such as
    a key and the sign its value was rounded to, or no key; a person is a distribution over them.

    Attributes:
        size: the number of keys, two or more.
    """

    domain_type = KeyValues

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 2:
            raise ValueError(f"size must be two keys or more, found {self.size}")

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
        """The mechanism over the domain's keys, which sees values scaled to [0, 1]."""
        assert isinstance(domain, KeyValues)
        return cls(epsilon=epsilon, size=domain.size, **options)

    @abstractmethod
    def perturb(self, values: KeyValuePairs, uniforms: Uniforms) -> NDArray[Any]:
        """One report a person, shape (people,) of ``payload_dtype``; people without a pair send one too."""

    @abstractmethod
    def key_values(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """(frequencies, means on [0, 1]) as the mechanism's paper estimates them, both of shape (size,).

        Args:
            histogram: at any resolution, of ``reports`` reports.
            reports: how many they are, above zero.
        """

    @abstractmethod
    def precisions(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """One over the variance of a rare key's frequency, and what the mean's goes with, both by key.

        They weight services, so only their ratios matter; 0 where nothing was reported of a key.
        """

    @abstractmethod
    def key_values_of(self, weights: Floats) -> tuple[Floats, Floats]:
        """(frequencies, means on [0, 1]) that a distribution over the channel's columns implies."""


def shares_of(parts: Floats, wholes: Floats) -> Floats:
    """``parts / wholes`` within [0, 1], and 1/2, the middle of the range, where the whole is nothing."""
    middle = np.full(np.shape(wholes), 0.5)
    shares: Floats = np.divide(parts, wholes, out=middle, where=np.asarray(wholes) > 0.0)
    return np.clip(shares, 0.0, 1.0)
