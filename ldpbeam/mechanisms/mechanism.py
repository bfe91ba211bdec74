"""What every mechanism says of itself."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Categories, Domain, Floats, Integers, KeyValues, Numeric, Vector

#: Clients compute in their own language and precision: a report may stand this far (relative to the
#: mechanism's range) outside of it, as a 32-bit float does, and is then taken for the nearest one.
SLACK = 1e-6

#: Beyond, a report protects nothing, and differences of densities have no digits left in doubles.
LARGEST_EPSILON = 20.0
#: Below, a report says nothing, and the constants' own differences have no digits left.
SMALLEST_EPSILON = 1e-6

#: Sums of reports are exact integers on a grid of this many steps from zero to the largest report.
FIXED_POINT_STEPS = 2**30


class Uniforms(Protocol):
    """A source of uniform draws in [0, 1): ``numpy.random.Generator`` or :class:`SecureUniforms`."""

    def random(self, size: int) -> Floats:
        """An array of ``size`` draws."""
        ...


@dataclasses.dataclass(frozen=True)
class Mechanism(ABC):
    """The randomised function a client runs before it sends anything.

    Attributes:
        epsilon: the privacy budget of one report, from 1e-6 to 20.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    domain_type: ClassVar[type[Numeric] | type[Categories] | type[KeyValues] | type[Vector]]
    #: Whether a histogram counts several cells a report, so that its likelihood is a composite one.
    composite: ClassVar[bool] = False

    epsilon: float

    def __post_init__(self) -> None:
        if not SMALLEST_EPSILON < self.epsilon <= LARGEST_EPSILON:
            limits = f"above {SMALLEST_EPSILON:g} and at most {LARGEST_EPSILON:g}"
            raise ValueError(f"epsilon must be {limits}, found {self.epsilon}")

    @classmethod
    @abstractmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
        """The mechanism for an attribute's domain, as a study file asks for it."""

    @property
    def delta(self) -> float:
        """The chance that epsilon does not hold; 0 for all but the Gaussian mechanism."""
        return 0.0

    @property
    def granularity(self) -> int:
        """How many bins of a numeric range the mechanism tells apart: value buckets are a multiple of it."""
        return 1

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """What a report is: a number, or bytes of one length (a structured dtype, little-endian)."""
        return np.dtype(np.float64)

    @property
    def parameters(self) -> dict[str, Any]:
        """What the channel depends on, for fingerprints and explanations."""
        return {"mechanism": self.name, **dataclasses.asdict(self)}

    @abstractmethod
    def perturb(self, values: Any, uniforms: Uniforms) -> NDArray[Any]:
        """One report a value (or person), shape (n,) of ``payload_dtype``.

        Args:
            values: numbers scaled to [0, 1], category indexes, :class:`~ldpbeam.domains.KeyValuePairs`, or
                a matrix of (person, coordinate) scaled to [0, 1], as the domain is.
            uniforms: the source of randomness.
        """

    @abstractmethod
    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads this mechanism can have sent, within :data:`SLACK`. Never true for NaN."""

    @abstractmethod
    def cells(self, resolution: int) -> int:
        """The number of report buckets at a resolution."""

    @abstractmethod
    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The report bucket of each payload, in 0 .. ``cells(resolution) - 1``."""

    @abstractmethod
    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(report bucket | value bucket), shape (``cells(resolution)``, ``value_buckets``)."""

    def histogram_cells(self, resolution: int) -> int:
        """The length of a histogram; other than ``cells`` only where it is ``composite``."""
        return self.cells(resolution)

    def histogram(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """Reports counted by bucket, shape (``histogram_cells(resolution)``,)."""
        cells = self.bucketise(payloads, resolution)
        return np.bincount(cells, minlength=self.cells(resolution)).astype(np.int64)

    def histogram_channel(self, value_buckets: int, resolution: int) -> Channel:
        """What one count of a histogram says of the value; its columns sum to one."""
        return self.channel(value_buckets, resolution)

    @abstractmethod
    def output(self) -> str:
        """What a report's payload is, in words."""


@dataclasses.dataclass(frozen=True)
class NumericMechanism(Mechanism):
    """A mechanism for values x in [0, 1] whose reports are numbers, unbiased after an affine map.

    All of them share three facts that estimators of the mean use: ``slope * payload + intercept`` is
    an unbiased estimate of x, its variance given x is a quadratic in x, and reports lie in
    ``report_range``.
    """

    domain_type = Numeric

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
        """The mechanism, which sees values scaled to [0, 1] whatever their range."""
        return cls(epsilon=epsilon, **options)

    @property
    @abstractmethod
    def report_range(self) -> tuple[float, float]:
        """The smallest and the largest report."""

    @property
    def unbiased_map(self) -> tuple[float, float]:
        """(slope, intercept) such that E[slope * report + intercept | x] = x.

        Most mechanisms' reports are unbiased for v = 2x - 1 as they are, so x' = (report + 1) / 2.
        """
        return 0.5, 0.5

    @property
    @abstractmethod
    def variance_polynomial(self) -> tuple[float, float, float]:
        """(c0, c1, c2): the unbiased report's variance given x is c0 + c1 x + c2 x^2."""

    def unbiased(self, payloads: ArrayLike) -> Floats:
        """An unbiased estimate of x from each report."""
        slope, intercept = self.unbiased_map
        return slope * np.asarray(payloads, dtype=np.float64) + intercept

    def variance(self, x: ArrayLike) -> Floats:
        """The variance of an unbiased report of a value x in [0, 1]."""
        values = np.asarray(x, dtype=np.float64)
        c0, c1, c2 = self.variance_polynomial
        return c0 + values * (c1 + values * c2)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads lie in the report range."""
        low, high = self.report_range
        slack = SLACK * (high - low)
        return (payloads >= low - slack) & (payloads <= high + slack)

    def cells(self, resolution: int) -> int:
        """As many equal buckets of the report range as the resolution says."""
        return resolution

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """Equal buckets of the report range."""
        low, high = self.report_range
        position = (payloads - low) * (resolution / (high - low))
        return np.clip(np.floor(position), 0, resolution - 1).astype(np.int64)

    def representatives(self, resolution: int) -> Floats:
        """One report that stands for each report bucket: its midpoint."""
        low, high = self.report_range
        middles = low + (np.arange(resolution) + 0.5) * ((high - low) / resolution)
        return np.asarray(middles, dtype=np.float64)

    @property
    def fixed_point_step(self) -> float:
        """The step of the grid on which reports are summed exactly."""
        return max(abs(end) for end in self.report_range) / FIXED_POINT_STEPS

    def fixed_point(self, payloads: NDArray[Any]) -> Integers:
        """Reports as integers on the grid, within +-2^30."""
        low, high = self.report_range
        steps: Integers = np.rint(np.clip(payloads, low, high) / self.fixed_point_step).astype(np.int64)
        return steps

    def output(self) -> str:
        """The report range."""
        low, high = self.report_range
        return f"a number in [{low:.6g}, {high:.6g}]"


@dataclasses.dataclass(frozen=True)
class FrequencyMechanism(Mechanism):
    """A mechanism whose counts give unbiased shares of categories, or of equal bins of a numeric range."""

    @property
    @abstractmethod
    def bins(self) -> int:
        """How many categories or bins it tells apart."""

    @abstractmethod
    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """Unbiased shares from a histogram, shape (bins,); they may be negative.

        Args:
            histogram: at the mechanism's own resolution, of ``reports`` reports.
            reports: how many they are, above zero.
        """

    @property
    @abstractmethod
    def frequency_variance(self) -> float:
        """The number of reports times the variance of an unbiased share, for a rare category."""


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

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
        """The mechanism over the domain's categories."""
        assert isinstance(domain, Categories)
        return cls(epsilon=epsilon, size=domain.size, **options)

    @property
    def bins(self) -> int:
        """The categories."""
        return self.size
