"""The interfaces of mechanisms: of all, of those for numbers, and of those with unbiased shares."""

from __future__ import annotations

import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Band, Channel
from ldpbeam.domains import Categories, Domain, Floats, Integers, KeyValues, Numeric, Pair, Vector
from ldpbeam.mechanisms.mechanism_options import check_option, options_of

#: A report may be this far outside the mechanism's range, relative to the range's length, because clients
#: compute in other precisions, such as 32-bit floats. It is then treated as the nearest possible report.
SLACK = 1e-6

#: Above this epsilon a report protects nothing, and differences of densities lose all digits in doubles.
LARGEST_EPSILON = 20.0
#: Below this epsilon a report has no information, and differences of constants lose all digits in doubles.
SMALLEST_EPSILON = 1e-6

#: Sums of reports are exact integers on a grid of this many steps from zero to the largest report.
FIXED_POINT_STEPS = 2**30


class Uniforms(Protocol):
    """A source of uniform draws in [0, 1): ``numpy.random.Generator`` or :class:`SecureUniforms`."""

    def random(self, size: int) -> Floats:
        """An array of ``size`` draws."""
        ...


class SecureUniforms:
    """Uniform draws in [0, 1) of 53 bits from ``os.urandom``; real clients must use such a source."""

    def random(self, size: int) -> Floats:
        """An array of draws, shape (size,)."""
        bits = np.frombuffer(os.urandom(8 * size), dtype="<u8") >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53


def in_cache(rows: int, least: int = 0) -> Iterator[slice]:
    """Slices of rows, each of ``least`` rows or more, small enough that work on one stays in cache."""
    size = max(2**14, least)
    return (slice(start, start + size) for start in range(0, rows, size))


@dataclasses.dataclass(frozen=True)
class Mechanism(ABC):
    """The randomised function that a client applies to its value before it sends a report.

    Attributes:
        epsilon: the privacy budget of one report, above 1e-6 and at most 20.

    Raises:
        ValueError: if epsilon or an option is out of range.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    domain_type: ClassVar[type[Numeric] | type[Categories] | type[KeyValues] | type[Vector]]
    #: Whether a histogram counts each report in several cells, so that its likelihood is a composite one.
    composite: ClassVar[bool] = False
    #: Whether EM stops at a gain of 1e-3 exp(epsilon), as published for waves, instead of 1e-3.
    stops_early: ClassVar[bool] = False

    epsilon: float

    def __post_init__(self) -> None:
        if not SMALLEST_EPSILON < self.epsilon <= LARGEST_EPSILON:
            limits = f"above {SMALLEST_EPSILON:g} and at most {LARGEST_EPSILON:g}"
            raise ValueError(f"epsilon must be {limits}, found {self.epsilon}")
        for name, option in options_of(type(self)).items():
            check_option(option, getattr(self, name))

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
        """The mechanism for an attribute's domain, with a study file's options.

        It does not depend on a range of numbers, because values are scaled to [0, 1].
        """
        assert not isinstance(domain, Pair)
        size = {} if isinstance(domain, Numeric) else {"size": domain.size}
        return cls(epsilon=epsilon, **size, **options)

    @property
    def delta(self) -> float:
        """The delta of (epsilon, delta)-privacy; 0 for every mechanism except the Gaussian one."""
        return 0.0

    @property
    def granularity(self) -> int:
        """The mechanism's number of bins, which divides the number of value buckets; 1 without bins."""
        return 1

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """The dtype of a report: a number, or bytes of one length (a structured dtype, little-endian)."""
        return np.dtype(np.float64)

    @property
    def parameters(self) -> dict[str, Any]:
        """The name, and every parameter that determines the channel, for fingerprints and explanations."""
        return {"mechanism": self.name, **dataclasses.asdict(self)}

    @abstractmethod
    def perturb(self, values: Any, uniforms: Uniforms) -> NDArray[Any]:
        """One report per value or person, shape (n,) and dtype ``payload_dtype``.

        Args:
            values: what the domain holds: numbers scaled to [0, 1], shape (n,); category indexes, shape
                (n,); :class:`~ldpbeam.domains.KeyValuePairs` of n people; or vectors scaled to [0, 1], shape
                (n, coordinates).
            uniforms: the source of randomness.
        """

    @property
    def round(self) -> int:
        """The round, from 1, of a mechanism whose clients know the last round's means of keys; else 0."""
        return 0

    def perturb_with(self, values: Any, means: Floats | None, uniforms: Uniforms) -> NDArray[Any]:
        """The reports of :meth:`perturb`, or of a later round, which uses the means of the last one.

        Args:
            values: the true values, as :meth:`perturb` takes them.
            means: the last round's mean of each key, scaled to [0, 1], shape (size,); None if there is none.
            uniforms: the source of randomness.
        """
        return self.perturb(values, uniforms)

    @abstractmethod
    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads a client can have sent, within :data:`SLACK`, shape (n,); NaN never qualifies."""

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
        """The length of a histogram, which differs from ``cells`` only for a ``composite`` mechanism."""
        return self.cells(resolution)

    def histogram(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The number of reports in each bucket, shape (``histogram_cells(resolution)``,)."""
        counts = np.zeros(self.cells(resolution), dtype=np.int64)
        for part in in_cache(len(payloads), len(counts)):
            counts += np.bincount(self.bucketise(payloads[part], resolution), minlength=len(counts))
        return counts

    def histogram_channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(histogram cell | value bucket) for one count of a histogram; the columns sum to one."""
        return self.channel(value_buckets, resolution)

    @property
    def in_study(self) -> Mechanism:
        """The mechanism that a study names: for vectors the one that perturbs a coordinate, else this one."""
        return self

    @property
    def bits(self) -> int:
        """The number of bits in a payload, one per category or bin; 0 if payloads are not rows of bits."""
        return 0

    @property
    def seed_family(self) -> int:
        """The number of equally likely seeds that reports name and histograms tell apart; 0 without seeds."""
        return 0

    @property
    def hashes_per_report(self) -> int:
        """The number of hashes that it takes to count one report; 0 if a report's bucket is looked up."""
        return 0

    @property
    def lookups_per_product(self) -> int:
        """The number of table look-ups in a product with the channel; 0 without a table."""
        return 0

    @abstractmethod
    def output(self) -> str:
        """The payload of a report, in words."""

    @property
    def title(self) -> str:
        """The mechanism's name for explanations."""
        return self.name

    def explain(self) -> str:
        """The mechanism, its budget and its reports, in words."""
        delta = f" and delta {self.delta:g}" if self.delta else ""
        return f"{self.title} with epsilon {self.epsilon:g}{delta}: a report is {self.output()}"


@dataclasses.dataclass(frozen=True)
class WholeReports(Mechanism):
    """A mechanism whose reports are whole numbers from 0, each a report bucket of its own."""

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """A whole number of four bytes."""
        return np.dtype(np.uint32)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads are whole numbers from 0 to the last report bucket."""
        within = (payloads >= 0) & (payloads < self.cells(1))
        if np.issubdtype(payloads.dtype, np.floating):
            within &= payloads == np.floor(payloads)
        return np.asarray(within, dtype=np.bool_)

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The payload itself, as int64."""
        return payloads.astype(np.int64)


@dataclasses.dataclass(frozen=True)
class UnbiasedMechanism(Mechanism):
    """A mechanism for values x in [0, 1] whose reports are numbers, unbiased after an affine map.

    ``slope * payload + intercept`` is an unbiased estimate of x. Its variance given x is a quadratic
    polynomial in x. Estimators of the mean rely on both, and on exact sums of reports.
    """

    domain_type = Numeric

    @property
    @abstractmethod
    def unbiased_map(self) -> tuple[float, float]:
        """(slope, intercept) such that E[slope * report + intercept | x] = x."""

    @property
    @abstractmethod
    def variance_polynomial(self) -> tuple[float, float, float]:
        """(c0, c1, c2): the unbiased report's variance given x is c0 + c1 x + c2 x^2."""

    @abstractmethod
    def representatives(self, resolution: int) -> Floats:
        """The report that represents each report bucket, shape (``cells(resolution)``,)."""

    @property
    @abstractmethod
    def fixed_point_step(self) -> float:
        """The step of the grid on which reports are summed exactly."""

    @abstractmethod
    def fixed_point(self, payloads: NDArray[Any]) -> Integers:
        """Reports as integers, in steps of the grid, within +-2^30."""

    def unbiased(self, payloads: ArrayLike) -> Floats:
        """An unbiased estimate of x from each report, shape (n,)."""
        slope, intercept = self.unbiased_map
        return slope * np.asarray(payloads, dtype=np.float64) + intercept

    def variance(self, x: ArrayLike) -> Floats:
        """The variance of the unbiased estimate from one report of each value x in [0, 1]."""
        values = np.asarray(x, dtype=np.float64)
        c0, c1, c2 = self.variance_polynomial
        return c0 + values * (c1 + values * c2)

    @property
    def least_variance(self) -> float:
        """The least of :meth:`variance` over all values in [0, 1]: at an end, or where its slope is zero."""
        _, c1, c2 = self.variance_polynomial
        turning = float(np.clip(-c1 / (2.0 * c2), 0.0, 1.0)) if c2 else 0.0
        return float(self.variance([0.0, turning, 1.0]).min())


@dataclasses.dataclass(frozen=True)
class Tail:
    """How reports with unbounded additive noise are counted, on the scale of the reports.

    Attributes:
        mean_from: a report beyond plus or minus this counts as this in the mean.
        square_from: the same in the mean of squares.
        end: the first report of the histogram's last cell, and minus that of its first cell.
        excess: the means of two exponential distributions. Whatever the value, the distance of a report
            beyond ``end`` is stochastically between them.
        slope: the largest slope of the logarithm of a report's density up to ``end``.
    """

    mean_from: float
    square_from: float
    end: float
    excess: tuple[float, float]
    slope: float


@dataclasses.dataclass(frozen=True)
class NumericMechanism(UnbiasedMechanism):
    """An unbiased mechanism that can report every number in ``report_range``."""

    @property
    def tail(self) -> Tail | None:
        """The tail, if honest reports rarely come near the ends of ``report_range``; else None.

        Means are then computed from the histogram, so that no report moves a mean further than its cell does
        (:mod:`ldpbeam.estimators.scores`).
        """
        return None

    def bounded(self, payloads: ArrayLike) -> Floats:
        """Reports with their tails cut off, still nearly unbiased, shape (n,)."""
        return np.asarray(payloads, dtype=np.float64)

    @property
    @abstractmethod
    def report_range(self) -> tuple[float, float]:
        """The smallest and the largest report."""

    @property
    def unbiased_map(self) -> tuple[float, float]:
        """(slope, intercept) such that E[slope * report + intercept | x] = x.

        The reports of most mechanisms are unbiased for v = 2x - 1, so x' = (report + 1) / 2.
        """
        return 0.5, 0.5

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads lie in the report range, within :data:`SLACK` of its length."""
        low, high = self.report_range
        slack = SLACK * (high - low)
        return (payloads >= low - slack) & (payloads <= high + slack)

    def cells(self, resolution: int) -> int:
        """The number of equal buckets of the report range: the resolution."""
        return resolution

    def grid(self, resolution: int) -> tuple[float, float, int] | None:
        """(low, scale, first): a payload is in the cell floor((payload - low) * scale) + first.

        A number below 0 means cell 0, and one above the last cell means the last. None if the inner cells are
        not equally wide.
        """
        low, high = self.report_range
        return low, resolution / (high - low), 0

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The cell of each payload, by :meth:`grid`."""
        grid = self.grid(resolution)
        assert grid is not None
        low, scale, first = grid
        position = np.clip(np.floor((payloads - low) * scale) + first, 0, self.cells(resolution) - 1)
        return np.asarray(position.astype(np.int64))

    def representatives(self, resolution: int) -> Floats:
        """The report that represents each report bucket, its midpoint; shape (``cells(resolution)``,)."""
        low, high = self.report_range
        middles = low + (np.arange(resolution) + 0.5) * ((high - low) / resolution)
        return np.asarray(middles, dtype=np.float64)

    @property
    def band(self) -> Band | None:
        """The density of reports, if it is a band around the value; else None."""
        return None

    def at(self, values: Floats, resolution: int) -> Floats | None:
        """P(cell | value) at single values in [0, 1], shape (``cells(resolution)``, values).

        None for a mechanism that does not define it; its reports then have no certain intervals.
        """
        return None if self.band is None else self.band.at(values, self.cells(resolution))

    def corners(self, resolution: int) -> Floats | None:
        """The values between which every P(cell | value) is linear, ascending; None without such values.

        For a band they are the values at which it begins or ends at the edge of a cell.
        """
        return None if self.band is None else self.band.corners(self.cells(resolution))

    @property
    def fixed_point_step(self) -> float:
        """The step of the grid on which reports are summed exactly."""
        return max(abs(end) for end in self.report_range) / FIXED_POINT_STEPS

    def fixed_point(self, payloads: NDArray[Any]) -> Integers:
        """Reports as integers, in steps of the grid, within +-2^30."""
        low, high = self.report_range
        return np.asarray(np.rint(np.clip(payloads, low, high) / self.fixed_point_step).astype(np.int64))

    def output(self) -> str:
        """The report range, in words."""
        low, high = self.report_range
        return f"a number in [{low:.6g}, {high:.6g}]"


@dataclasses.dataclass(frozen=True)
class FrequencyMechanism(Mechanism):
    """A mechanism whose histogram yields unbiased shares of categories, or of equal bins of a range."""

    #: Whether reports cover all levels of a tree, so that a single bin is noisier than a sum of bins.
    of_levels: ClassVar[bool] = False

    @property
    @abstractmethod
    def bins(self) -> int:
        """The number of categories or bins."""

    @abstractmethod
    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """Unbiased shares from a histogram, shape (bins,); they may be negative.

        Args:
            histogram: the histogram of ``reports`` reports; its cells do not depend on the resolution.
            reports: the number of reports, above zero.
        """

    @property
    @abstractmethod
    def frequency_variance(self) -> float:
        """The variance of a rare category's unbiased share, times the number of reports."""
