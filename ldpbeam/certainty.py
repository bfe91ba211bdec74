"""The intervals of an estimate, in the one form that solvers, files, tables and sentences share."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.domains import Floats

#: The conditions under which intervals hold: for any values, if people are spread smoothly, at every look at
#: growing reports, and for numbers in order of size.
CERTAIN, IF_SMOOTH, ANY_LOOK, LARGEST = "certain", "if_smooth", "any_look", "largest"
#: The certain ends of shares without their allowance for noise. The difference of two estimates needs less of
#: it than both have.
WITHOUT_NOISE = "without_noise"


@dataclass(frozen=True)
class Ends:
    """The low and the high ends of the intervals of several numbers, in the unit of the numbers."""

    low: Sequence[float]
    high: Sequence[float]

    def __post_init__(self) -> None:
        # A run holds all its estimates: 8 bytes per number instead of 32.
        for name in ("low", "high"):
            object.__setattr__(self, name, array("d", getattr(self, name)))

    @classmethod
    def of(cls, columns: ArrayLike) -> Ends:
        """The ends of columns of shape (numbers, 2), or of one interval of shape (2,)."""
        low, high = np.asarray(columns, dtype=np.float64).reshape(-1, 2).T
        return cls(low.tolist(), high.tolist())

    @property
    def columns(self) -> Floats:
        """The ends, shape (numbers, 2)."""
        return np.column_stack((self.low, self.high))


@dataclass(frozen=True)
class BlurredShares:
    """Blurred shares of people up to some values, from the reports of one mechanism.

    The expectation of a blurred share depends only on the mechanism and on people's values, so a difference
    shows that two distributions differ.

    Attributes:
        at: the values, ascending, in the unit of the number.
        shares: the blurred share of people up to each value.
        errors: the standard error of each share.
    """

    at: Sequence[float]
    shares: Sequence[float]
    errors: Sequence[float]


@dataclass(frozen=True)
class Intervals:
    """The intervals of the numbers of one estimate.

    Attributes:
        level: the share of all samples in which an interval contains the truth.
        simultaneous: as in :class:`ldpbeam.intervals.WantedIntervals`.
        ends: the ends by the condition under which they hold (``certain``, ``if_smooth``, ``any_look``,
            ``largest``; and ``without_noise``), and then by the field of the estimate:
            ``mean``, ``variance``, ``quantiles``, ``ranges``, ``distribution``, ``frequencies`` (of
            categories and keys), ``key_means``, and ``cdf``. Those of ``largest`` are in descending order of
            the numbers, all others in the order of the field.
        at: the values of a number up to which ``cdf`` bounds shares of people, ascending, in its unit.
        narrowest: the number of reports near which the ends at every look are narrowest; None without such.
        methods: how certain intervals are computed, or why there are none, by field; and how those of
            ``if_smooth`` and ``any_look`` are computed.
        flags: why the intervals of a condition may contain the truth less often than their level. A flag of
            certain intervals applies to all.
        blurred: the blurred shares of a number, by mechanism.
        liars: the share of people who may send anything without making certain ends wrong; None for nobody.
    """

    level: float
    simultaneous: bool = False
    ends: dict[str, dict[str, Ends]] = field(default_factory=dict)
    at: Sequence[float] = ()
    narrowest: int | None = None
    methods: dict[str, str] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    blurred: dict[str, BlurredShares] = field(default_factory=dict)
    liars: float | None = None

    def of(self, part: str, condition: str = CERTAIN) -> Floats | None:
        """The ends of some numbers, shape (numbers, 2); None if they have none under the condition.

        An interval that needs no smoothness counts under both conditions, certain and smooth.
        """
        under = self.ends.get(condition, {})
        if condition == IF_SMOOTH and part not in under:
            return self.of(part)
        return under[part].columns if part in under else None


def by_condition(**ends: Mapping[str, ArrayLike | None]) -> dict[str, dict[str, Ends]]:
    """Ends by condition and field, without those that are None."""
    held = {
        condition: {part: Ends.of(columns) for part, columns in parts.items() if columns is not None}
        for condition, parts in ends.items()
    }
    return {condition: parts for condition, parts in held.items() if parts}
