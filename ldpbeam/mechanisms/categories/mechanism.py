"""The interface of mechanisms for categories."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels import DiagonalChannel
from ldpbeam.domains import Categories, Floats, Integers
from ldpbeam.mechanisms.mechanism import FrequencyMechanism

#: Up to this many pairs of a cell and a category, variances are computed from what each cell says.
MOST_ENTRIES = 2**20
#: Up to this many pairs of a kind of report and a category, all reports are tried.
MOST_TRIED = 2**22


@dataclasses.dataclass(frozen=True)
class CategoricalMechanism(FrequencyMechanism):
    """A mechanism for the categories 0 .. size - 1.

    Attributes:
        size: the number of categories, two or more.
    """

    domain_type = Categories

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 2:
            raise ValueError(f"size must be two categories or more, found {self.size}")

    @property
    def bins(self) -> int:
        """The number of categories."""
        return self.size

    @property
    def support_probabilities(self) -> tuple[float, float] | None:
        """(p, q): the probabilities that a report supports the person's category, and any other one.

        The unbiased share is (C/n - q)/(p - q) for C supports of n reports. None if reports do not support
        categories; the noise of the shares is then taken to be normal.
        """
        return None

    @property
    def rare_supports(self) -> float:
        """The value q (1 - q)/(p - q)^2: the number of reports times the variance of a rare category's share.

        It assumes independent supports, and needs ``support_probabilities``.
        """
        return float(self._spread(np.zeros(())))

    @property
    def frequency_variance(self) -> float:
        """The value of ``rare_supports``: q (1 - q)/(p - q)^2."""
        return self.rare_supports

    def _spread(self, shares: Floats) -> Floats:
        """The variances of shares, times reports: people with and without a category report independently."""
        assert self.support_probabilities is not None, f"{self.name} needs its own frequency_variance"
        p, q = self.support_probabilities
        return (shares * p * (1.0 - p) + (1.0 - shares) * q * (1.0 - q)) / (p - q) ** 2

    @property
    def even_variance(self) -> float:
        """The variance of a share of 1/size, times the number of reports, ignoring a family's collisions."""
        return float(self._spread(np.array(1.0 / self.size)))

    @property
    def collisions(self) -> float:
        """The factor by which a family of seeds raises the variances of shares; 1 without a family."""
        return self.frequency_variance / self.rare_supports

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """(C/n - q)/(p - q), where C is how many reports name each category, shape (size,)."""
        assert self.support_probabilities is not None, f"{self.name} needs its own unbiased_frequencies"
        p, q = self.support_probabilities
        return (self.named(histogram) / reports - q) / (p - q)

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which categories each report supports, shape (n, size), where there are ``support_probabilities``.

        Raises:
            NotImplementedError: if the mechanism does not say it of single reports.
        """
        raise NotImplementedError(f"{self.name} does not say which categories a report supports")

    @property
    def tells_supports(self) -> bool:
        """Whether there are ``support_probabilities``, and :meth:`supported` is implemented."""
        overridden = type(self).supported is not CategoricalMechanism.supported
        return overridden and self.support_probabilities is not None

    @property
    def name_channel(self) -> DiagonalChannel | None:
        """P(named category | category) for a category that a report names; None if reports name none.

        A report of a ``composite`` mechanism may name several; each is then taken for a report.
        """
        return None

    def named(self, histogram: Integers) -> Integers:
        """How many reports name each category, shape (size,); needs a ``name_channel``."""
        return histogram

    @property
    def cells_of_each(self) -> int:
        """How many cells of a histogram each category has, in their order; 0 if categories are not all alike.

        If they are alike, the cells of two categories can be exchanged, and the mechanism stays the same.
        """
        return 0

    @property
    def names_one(self) -> bool:
        """Whether a report names one category at most, and says nothing else."""
        return self.name_channel is not None and not self.composite

    def shares_of_reports(self) -> Floats:
        """The unbiased shares that one report of each kind gives, shape (cells, size)."""
        ones = np.eye(self.cells(0), dtype=np.int64)
        return np.stack([self.unbiased_frequencies(report, 1) for report in ones])

    @property
    def extremes(self) -> tuple[float, float]:
        """The least and the greatest unbiased share of any category that one report gives.

        Both are infinite if there are too many kinds of reports to try.
        """
        if (self.composite or self.names_one) and self.support_probabilities is not None:
            # A report may support any categories.
            p, q = self.support_probabilities
            return -q / (p - q), (1.0 - q) / (p - q)
        if self.composite or self.cells(0) * self.size > MOST_TRIED:
            return -np.inf, np.inf
        said = self.shares_of_reports()
        return float(said.min()), float(said.max())

    def share_variances(self, shares: Floats, histogram: Integers) -> Floats:
        """The variance of each unbiased share, times the number of reports, given what people have.

        Args:
            shares: about the share of people who have each category, in [0, 1], shape (size,). Noisy shares
                may have any sum, so the variance of one share does not use the others.
            histogram: the counts of the report buckets, with sum above zero.
        """
        # Supports of a family of seeds are not independent; ``collisions`` accounts for it among many
        # categories.
        few = self.seed_family and self.cells(0) * self.size <= MOST_ENTRIES
        if self.support_probabilities is None or few:
            return self._variances_of_reports(shares, histogram)
        return self._spread(shares) * self.collisions

    def _variances_of_reports(self, shares: Floats, histogram: Integers) -> Floats:
        """The same from the mean square of what each report says; of a rare category if cells are many.

        What a report says of a category has the mean 1 if its person has the category, else 0.
        """
        if self.composite or self.cells(0) * self.size > MOST_ENTRIES:
            return np.full(len(shares), self.frequency_variance)
        said = np.ascontiguousarray(self.shares_of_reports().T)
        channel = self.channel(self.size, 0).dense()
        of_people: Floats = said**2 @ channel - (said @ channel) ** 2
        squares: Floats = said**2 @ histogram / histogram.sum()
        # The mean square of few reports may be less, or more, than any people have.
        return np.clip(squares - shares, of_people.min(axis=1), of_people.max(axis=1))
