"""Two results compared: each number of each estimate, and whether it differs by more than its error.

A number's difference is beyond the error if it is more than z times sqrt(e1^2 + e2^2), with the standard
errors e1 and e2 of the two numbers. z is Bonferroni's: among all numbers compared, the chance of any such
difference is at most :data:`FALSE_ALARMS` where the values of the people are the same in both runs. Runs that
share reports have errors in common, so that their chance is smaller.

The interval of a difference comes from the intervals of the two numbers by the method of variance estimates
recovery (Zou and Donner, Statistics in Medicine 27, 2008, eq. 6 and 7): for numbers a in [l_a, u_a] and b in
[l_b, u_b], b - a goes down by sqrt((b - l_b)^2 + (u_a - a)^2) and up by sqrt((u_b - b)^2 + (a - l_a)^2).
Where the errors of both may depend on each other in any way, these distances are added instead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ldpbeam.answers.named_numbers import Numbers, by_key, normal_quantile, numbers_of
from ldpbeam.answers.results import Results
from ldpbeam.domains import Floats
from ldpbeam.schemas.outputs.records import EstimateKey, EstimateRecord

#: At most this share of pairs of runs with the same values has a difference beyond the error.
FALSE_ALARMS = 0.01
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Difference:
    """A number of an estimate that is on both sides.

    Attributes:
        key: the estimate on the first side.
        other_key: the estimate on the second side.
        number: which number: ``mean``, ``variance``, ``quantile 0.5``, ``share of LABEL``, ...
        first: its value on the first side, in the unit of the number.
        second: its value on the second.
        low: the low end of the interval of ``second - first``; None if one of the two has no interval.
        high: the high end.
        error: the standard error of the difference; None if one of the two has none.
        beyond: whether the difference is beyond the error; False if there is none, and for quantiles and
            ranges of numbers whose strict intervals meet or are not known.
        flag: why one of the intervals may hold the truth less often than its level; empty if nothing says so.
    """

    key: EstimateKey
    other_key: EstimateKey
    number: str
    first: float
    second: float
    low: float | None
    high: float | None
    error: float | None
    beyond: bool
    flag: str = ""


@dataclass(frozen=True)
class Comparison:
    """What two results have in common, and what is in one only.

    Attributes:
        differences: every number of the estimates that are in both, in the order of the first.
        only_first: the estimates that have numbers in the first only (an estimate from no reports has none).
        only_second: those that have numbers in the second only.
        unlike: estimates with numbers that cannot be compared, as only one has them, or as buckets or names
            differ.
        z: this many standard errors are beyond the error.
    """

    differences: tuple[Difference, ...]
    only_first: tuple[EstimateKey, ...]
    only_second: tuple[EstimateKey, ...]
    unlike: tuple[EstimateKey, ...]
    z: float

    @property
    def differs(self) -> bool:
        """Whether a difference is beyond the error, or numbers of an estimate are in one only."""
        return any(difference.beyond for difference in self.differences) or bool(
            self.only_first or self.only_second or self.unlike
        )


def compared(first: Results, second: Results) -> Comparison:
    """Compare the estimates of two results."""
    return comparison(by_key(first.estimates), by_key(second.estimates))


def comparison(
    ours: Mapping[_Key, EstimateRecord],
    theirs: Mapping[_Key, EstimateRecord],
    dependent: Collection[str] = (),
    *,
    flagged: bool = True,
) -> Comparison:
    """Compare estimates that have the same key.

    Args:
        ours: the estimates of the first side.
        theirs: those of the second.
        dependent: the attributes whose errors on both sides may depend on each other in any way, so that
            standard errors add; variances of the others add, and of sums over reports.
        flagged: whether differences of numbers with flagged intervals can be beyond the error.
    """
    pairs: list[tuple[EstimateRecord, EstimateRecord, Numbers, Numbers, Floats]] = []
    unlike = []
    numbers, other_numbers = _parts(ours), _parts(theirs)
    for key, parts in numbers.items():
        if key not in other_numbers:
            continue
        record, other_parts = ours[key], other_numbers[key]
        if parts.keys() != other_parts.keys():
            unlike.append(record.key)
        for names, part in parts.items():
            other = other_parts.get(names)
            if other is None:
                continue
            added = np.add if record.attribute in dependent and not part.summed else np.hypot
            ends = ends_of(part, other, added)
            columns = np.column_stack((part.values, other.values, *ends, added(part.errors, other.errors)))
            pairs.append((record, theirs[key], part, other, columns))
    judged = sum(int(np.isfinite(columns[:, -1]).sum()) for *_, columns in pairs)
    z = -normal_quantile(FALSE_ALARMS / 2 / max(judged, 1))
    differences = []
    for record, other_record, part, other, columns in pairs:
        flags = [
            "; ".join(dict.fromkeys(filter(None, both))) for both in zip(part.flags, other.flags, strict=True)
        ]
        meet = _strict_ones_meet(part, other)
        for name, (one, two, low, high, error), met, flag in zip(
            part.names, columns.tolist(), meet, flags, strict=True
        ):
            beyond = abs(two - one) > z * error and (flagged or not flag) and not met
            known_ends = _known(low), _known(high)
            differences.append(
                Difference(
                    record.key, other_record.key, name, one, two, *known_ends, _known(error), beyond, flag
                )
            )
    return Comparison(
        tuple(differences),
        tuple(ours[key].key for key in numbers if key not in other_numbers),
        tuple(theirs[key].key for key in other_numbers if key not in numbers),
        tuple(unlike),
        z,
    )


def _parts(records: Mapping[_Key, EstimateRecord]) -> dict[_Key, dict[tuple[str, ...], Numbers]]:
    """The numbers of each estimate that has any, part by part, by the names of a part's numbers."""
    parts = {key: {tuple(p.names): p for p in numbers_of(record)} for key, record in records.items()}
    return {key: of_key for key, of_key in parts.items() if of_key}


def _strict_ones_meet(one: Numbers, two: Numbers) -> list[bool]:
    """Which numbers may be equal, because their strict intervals meet, or are not known."""
    if one.strict is None or two.strict is None:
        return [False] * len(one.names)
    (low, high), (other_low, other_high) = one.strict.T, two.strict.T
    meet: list[bool] = (~((high < other_low) | (other_high < low))).tolist()
    return meet


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def ends_of(one: Numbers, two: Numbers, added: np.ufunc) -> tuple[Floats, Floats]:
    """The ends of the intervals of ``two`` minus ``one``.

    An estimate outside of its interval is moved to the nearer end: the interval is of the number.

    Args:
        one: the numbers of the first side.
        two: those of the second.
        added: how two distances are added: ``np.hypot`` for independent errors, else ``np.add``.
    """
    first, second = (np.clip(part.values, part.low, part.high) for part in (one, two))
    down = added(second - two.low, one.high - first)
    up = added(two.high - second, first - one.low)
    return second - first - down, second - first + up
