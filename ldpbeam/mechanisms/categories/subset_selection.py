"""Subset selection: a report names a few categories (Ye and Barg, IEEE Trans. Information Theory 2018)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels import Channel, DenseChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.categories.unary_encoding import UnaryEncoding
from ldpbeam.mechanisms.registry import register


@register
@dataclasses.dataclass(frozen=True)
class SubsetSelection(UnaryEncoding):
    """Exactly m of the d categories: the person's own among them with probability p = mE/(mE + d - m).

    Here E = exp(epsilon). The others are drawn uniformly, so any other category is among them with
    probability q = (m - p)/(d - 1). With m = 1 it is GRR. A report is a row of bits with those of the m
    categories set; it is packed and counted like other unary encodings.

    Attributes:
        subset: the number m of categories in a report, from 1 to d - 1. 0 means d/(E + 1), rounded, but at
            least 1, which has the least variance where all categories are equally frequent.

    Raises:
        ValueError: if there are too few or too many categories in a report.
    """

    name = "subset_selection"
    summary = "subset selection: a few categories; least noise with some 2E to 12E of them"

    subset: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        number = isinstance(self.subset, int) and not isinstance(self.subset, bool)
        if not (number and 0 <= self.subset < self.size):
            raise ValueError(f"subset must be from 1 to {self.size - 1}, found {self.subset!r}")
        if self.subset == 0:
            share = self.size / (math.exp(self.epsilon) + 1.0)
            object.__setattr__(self, "subset", max(1, round(share)))

    @property
    def support_probabilities(self) -> tuple[float, float]:
        """(p, q): the probabilities that the category itself, and that any other one, is in the report."""
        weight = self.subset * math.exp(self.epsilon)
        p = weight / (weight + self.size - self.subset)
        return p, (self.subset - p) / (self.size - 1)

    def _drawn_bits(self, index: Integers, draws: Floats) -> NDArray[np.bool_]:
        """The categories with the least draws; the person's own comes before all others, or after them."""
        rows = np.arange(index.size)
        kept = draws[rows, index] < self.support_probabilities[0]
        draws[rows, index] = np.where(kept, -1.0, 1.0)
        bits = np.zeros(draws.shape, dtype=np.bool_)
        taken = np.argsort(draws, axis=1, kind="stable")[:, : self.subset]
        np.put_along_axis(bits, taken, True, axis=1)
        return bits

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads have ``subset`` bits set, and none after the last category."""
        many = np.bitwise_count(self._bytes(payloads)).sum(axis=1, dtype=np.int64)
        return np.asarray(super().is_report(payloads) & (many == self.subset))

    @functools.cached_property
    def _subsets(self) -> Integers:
        """The numbers whose binary digits are the bits of each report, ascending, shape (cells,)."""
        return np.flatnonzero(np.bitwise_count(np.arange(super().cells(0))) == self.subset)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: one per subset.

        Raises:
            ValueError: if there are more than 16 categories.
        """
        return len(self._subsets)

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The rank of the report's bits, category 0 lowest, among those of all reports."""
        return np.searchsorted(self._subsets, super().bucketise(payloads, resolution))

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(subset | category).

        Raises:
            ValueError: if there are more than 16 categories.
        """
        p, _ = self.support_probabilities
        of_value = p / math.comb(self.size - 1, self.subset - 1)
        named = self._subsets[:, None] >> np.arange(self.size) & 1
        return DenseChannel(np.where(named, of_value, of_value / math.exp(self.epsilon)))

    def output(self) -> str:
        """The number of categories, bits and bytes, in words."""
        return f"{self.subset} of {super().output()}"


def saving(mechanism: CategoricalMechanism) -> float:
    """The part of a mechanism's variance of shares that subset selection would save.

    All categories are taken to be equally frequent. It is zero or less if the mechanism is as good.
    """
    return 1.0 - SubsetSelection(mechanism.epsilon, mechanism.size).even_variance / mechanism.even_variance
