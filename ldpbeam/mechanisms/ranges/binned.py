"""CFO with binning: a categorical mechanism over equal bins (Li et al., SIGMOD 2020, section 4.1)."""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import BinnedChannel, Channel
from ldpbeam.domains import Categories, Domain, Floats, Integers, Numeric
from ldpbeam.mechanisms.categories.choice import AUTO
from ldpbeam.mechanisms.mechanism import CategoricalMechanism, FrequencyMechanism, Mechanism, Uniforms
from ldpbeam.mechanisms.registry import build_mechanism, register

#: More bins than this are a mistake: each would need as many value buckets.
MOST_BINS = 2**16


def oracle_over(size: int, name: str, epsilon: float) -> CategoricalMechanism:
    """The categorical mechanism that reports one of ``size`` bins or nodes.

    Raises:
        ValueError: for an unknown name, or a mechanism that is not for categories.
    """
    if not isinstance(name, str):
        raise ValueError(f"oracle is the name of a mechanism, found {name!r}")
    numbered = Categories(tuple(map(str, range(size))))
    oracle = build_mechanism(name, numbered, epsilon)
    assert isinstance(oracle, CategoricalMechanism)
    return oracle


@dataclasses.dataclass(frozen=True)
class BinMechanism(FrequencyMechanism):
    """A frequency mechanism that tells equal bins of a numeric range apart."""

    domain_type = Numeric
    #: The option of study files that says how many bins there are.
    bins_option: ClassVar[str]

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
        """The mechanism, which sees values scaled to [0, 1] whatever their range."""
        return cls(epsilon=epsilon, **options)

    @property
    def granularity(self) -> int:
        """The bins."""
        return self.bins

    def bin_of(self, values: ArrayLike) -> Integers:
        """The bin of each value in [0, 1]; 1 itself is in the last one."""
        position = np.floor(np.asarray(values, dtype=np.float64) * self.bins)
        return np.clip(position, 0, self.bins - 1).astype(np.int64)

    @abstractmethod
    def bin_channel(self, resolution: int) -> Channel:
        """P(report bucket | bin), shape (``cells(resolution)``, ``bins``)."""

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """The bins' channel, each bin as many value buckets.

        Raises:
            ValueError: if the value buckets are no multiple of the bins.
        """
        return self._in_buckets(self.bin_channel(resolution), value_buckets)

    def _in_buckets(self, channel: Channel, value_buckets: int) -> Channel:
        if value_buckets < 1 or value_buckets % self.bins:
            near = max(1, value_buckets // self.bins) * self.bins
            raise ValueError(
                f"mechanism {self.name!r} with {self.bins_option} {self.bins} needs buckets a multiple of "
                f"that, found {value_buckets}; buckets {near} or {near + self.bins} would do"
            )
        return BinnedChannel(channel, value_buckets)


@register
@dataclasses.dataclass(frozen=True)
class Binned(BinMechanism):
    """The bin of the value, reported by a categorical mechanism (the oracle) over the bins.

    Fewer bins have less noise and more bias; the paper takes 16, 32 and 64. A bin's share is spread evenly
    over its value buckets; with Norm-Sub of the shares it is the paper's CFO with binning.

    Attributes:
        bins: how many equal bins of the range.
        oracle: any mechanism for categories, or "auto": GRR or OLH, whichever has the lower variance.
    """

    name = "binned"
    summary = "CFO with binning: a categorical mechanism over equal bins"
    bins_option = "bins"

    bins: int = 32
    oracle: str = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (type(self.bins) is int and 2 <= self.bins <= MOST_BINS):
            raise ValueError(f"bins must be a whole number from 2 to {MOST_BINS}, found {self.bins!r}")
        _ = self.reporter  # an oracle that does not fit is found here

    @functools.cached_property
    def reporter(self) -> CategoricalMechanism:
        """The oracle over the bins."""
        return oracle_over(self.bins, self.oracle, self.epsilon)

    @property
    def composite(self) -> bool:  # type: ignore[override]
        """As the oracle."""
        return self.reporter.composite

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the oracle that was chosen."""
        return {
            "mechanism": self.name,
            "epsilon": self.epsilon,
            "bins": self.bins,
            "oracle": self.reporter.parameters,
        }

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """The oracle's own."""
        return self.reporter.payload_dtype

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """The oracle's reports of the values' bins."""
        return self.reporter.perturb(self.bin_of(values), uniforms)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads the oracle can have sent."""
        return self.reporter.is_report(payloads)

    def cells(self, resolution: int) -> int:
        """The oracle's."""
        return self.reporter.cells(resolution)

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The oracle's."""
        return self.reporter.bucketise(payloads, resolution)

    def bin_channel(self, resolution: int) -> Channel:
        """The oracle's."""
        return self.reporter.channel(self.bins, resolution)

    def histogram_cells(self, resolution: int) -> int:
        """The oracle's."""
        return self.reporter.histogram_cells(resolution)

    def histogram(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The oracle's."""
        return self.reporter.histogram(payloads, resolution)

    def histogram_channel(self, value_buckets: int, resolution: int) -> Channel:
        """The oracle's, each bin as many value buckets."""
        return self._in_buckets(self.reporter.histogram_channel(self.bins, resolution), value_buckets)

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """The oracle's."""
        return self.reporter.unbiased_frequencies(histogram, reports)

    @property
    def frequency_variance(self) -> float:
        """The oracle's."""
        return self.reporter.frequency_variance

    def output(self) -> str:
        """The oracle's reports of bins."""
        return f"{self.reporter.name} of one of {self.bins} bins: {self.reporter.output()}"
