"""CFO with binning: a categorical mechanism over equal bins (Li et al., SIGMOD 2020, section 4.1)."""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import BinnedChannel, Channel
from ldpbeam.domains import Categories, Floats, Integers, Numeric
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.mechanism import FrequencyMechanism, Uniforms
from ldpbeam.mechanisms.registry import AUTO, build_mechanism, register
from ldpbeam.options import Range

#: The most bins; every bin needs a value bucket, so more would be a mistake.
MOST_BINS = 2**16


def oracle_over(size: int, name: str, epsilon: float) -> CategoricalMechanism:
    """The categorical mechanism called ``name``, for reports of one of ``size`` bins or nodes.

    Raises:
        ValueError: for an unknown name, or a mechanism that is not for categories.
    """
    numbered = Categories(tuple(map(str, range(size))))
    oracle = build_mechanism(name, numbered, epsilon)
    assert isinstance(oracle, CategoricalMechanism)
    return oracle


def check_leaves(leaves: object, branching: int) -> None:
    """Check that a tree of this branching can have this number of leaves.

    Raises:
        ValueError: if not.
    """
    powers = [branching**k for k in range(1, MOST_BINS.bit_length()) if branching**k <= MOST_BINS]
    if type(leaves) is not int or leaves not in powers:
        would_do = ", ".join(map(str, powers))
        raise ValueError(f"leaves must be a power of {branching}, found {leaves!r}; {would_do} would do")


@dataclasses.dataclass(frozen=True)
class BinMechanism(FrequencyMechanism):
    """A frequency mechanism for equal bins of a numeric range."""

    domain_type = Numeric

    @property
    def granularity(self) -> int:
        """The number of bins."""
        return self.bins

    @property
    def reporters(self) -> tuple[CategoricalMechanism, ...]:
        """The categorical mechanisms that reports come from; none if they have a form of their own."""
        return ()

    @property
    def hashes_per_report(self) -> int:
        """Those of the reporter with the most."""
        return max((reporter.hashes_per_report for reporter in self.reporters), default=0)

    @property
    def lookups_per_product(self) -> int:
        """Those of all reporters."""
        return sum(reporter.lookups_per_product for reporter in self.reporters)

    def bin_of(self, values: ArrayLike) -> Integers:
        """The index of the bin of each value in [0, 1]; the value 1 is in the last bin."""
        position = np.floor(np.asarray(values, dtype=np.float64) * self.bins)
        return np.clip(position, 0, self.bins - 1).astype(np.int64)

    @abstractmethod
    def bin_channel(self, resolution: int) -> Channel:
        """P(report bucket | bin), shape (``cells(resolution)``, ``bins``)."""

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(report bucket | value bucket): each bin's column, repeated for the bin's value buckets.

        Raises:
            ValueError: if the number of value buckets is not a multiple of the number of bins.
        """
        return BinnedChannel(self.bin_channel(resolution), value_buckets)


@register
@dataclasses.dataclass(frozen=True)
class Binned(BinMechanism):
    """A report of the value's bin by a categorical mechanism (the oracle) over the bins.

    Fewer bins mean less noise and more bias; the paper uses 16, 32 and 64. A bin's share is divided equally
    among its value buckets. With Norm-Sub of the shares this is the paper's CFO with binning.

    Attributes:
        bins: the number of equal bins of the range, 2 to 2^16.
        oracle: any mechanism for categories, or "auto": GRR or OLH, whichever has the lower variance.
    """

    name = "binned"
    summary = "CFO with binning: a categorical mechanism over equal bins"

    bins: Annotated[int, Range(least=2, most=MOST_BINS)] = 32
    oracle: str = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.reporter  # raises an error if the oracle is not for categories

    @functools.cached_property
    def reporter(self) -> CategoricalMechanism:
        """The oracle over the bins."""
        return oracle_over(self.bins, self.oracle, self.epsilon)

    @property
    def reporters(self) -> tuple[CategoricalMechanism]:
        """The oracle over the bins."""
        return (self.reporter,)

    @property
    def composite(self) -> bool:  # type: ignore[override]
        """Whether the oracle's histogram counts each report in several cells."""
        return self.reporter.composite

    @property
    def parameters(self) -> dict[str, Any]:
        """The number of bins, and the parameters of the oracle (of the one that "auto" chose)."""
        return {
            "mechanism": self.name,
            "epsilon": self.epsilon,
            "bins": self.bins,
            "oracle": self.reporter.parameters,
        }

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """The dtype of the oracle's reports."""
        return self.reporter.payload_dtype

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """The oracle's reports of the bins of values in [0, 1], shape (n,)."""
        return self.reporter.perturb(self.bin_of(values), uniforms)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads are possible reports of the oracle."""
        return self.reporter.is_report(payloads)

    def cells(self, resolution: int) -> int:
        """The oracle's number of report buckets."""
        return self.reporter.cells(resolution)

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The oracle's bucket of each payload."""
        return self.reporter.bucketise(payloads, resolution)

    def bin_channel(self, resolution: int) -> Channel:
        """The oracle's channel, P(report bucket | bin)."""
        return self.reporter.channel(self.bins, resolution)

    def histogram_cells(self, resolution: int) -> int:
        """The length of the oracle's histogram."""
        return self.reporter.histogram_cells(resolution)

    def histogram(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The oracle's histogram of the payloads."""
        return self.reporter.histogram(payloads, resolution)

    def histogram_channel(self, value_buckets: int, resolution: int) -> Channel:
        """The oracle's histogram channel, each bin's column repeated for the bin's value buckets."""
        return BinnedChannel(self.reporter.histogram_channel(self.bins, resolution), value_buckets)

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """The oracle's unbiased shares of the bins, shape (bins,)."""
        return self.reporter.unbiased_frequencies(histogram, reports)

    @property
    def frequency_variance(self) -> float:
        """The oracle's variance of a rare bin's share, times the number of reports."""
        return self.reporter.frequency_variance

    @property
    def bits(self) -> int:
        """Those of the oracle."""
        return self.reporter.bits

    @property
    def seed_family(self) -> int:
        """That of the oracle."""
        return self.reporter.seed_family

    def output(self) -> str:
        """The oracle's name and its payload, in words."""
        return f"{self.reporter.name} of one of {self.bins} bins: {self.reporter.output()}"
