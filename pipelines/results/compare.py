"""Two results compared: each number of each estimate, and whether it differs by more than its error.

A number's difference is beyond the error if it is more than z times sqrt(e1^2 + e2^2), with the standard
errors e1 and e2 of the two numbers. z is Bonferroni's: among all numbers compared, the chance of any such
difference is at most :data:`FALSE_ALARMS` where the values of the people are the same in both runs. Runs that
share reports have errors in common, so that their chance is smaller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ldpbeam.domains import Floats
from ldpbeam.pipelines.results.results import Results
from ldpbeam.schemas.outputs.records import Ends, EstimateRecord, IntervalsRecord, ManyEnds
from ldpbeam.windows import Bounds

#: At most this share of pairs of runs with the same values has a difference beyond the error.
FALSE_ALARMS = 0.01
#: What tells an estimate from the others: attribute, name, window, group, whether it is the rest of groups.
Place = tuple[str, str, Bounds | None, str | None, bool]


@dataclass(frozen=True)
class Difference:
    """A number of an estimate that is in both results.

    Attributes:
        place: the estimate.
        number: which number: ``mean``, ``variance``, ``quantile 0.5``, ``share of LABEL``, ...
        first: its value in the first results, in the unit of the number.
        second: its value in the second.
        error: the standard error of the difference; None if one of the two has none.
        beyond: whether the difference is beyond the error; False if there is none.
    """

    place: Place
    number: str
    first: float
    second: float
    error: float | None
    beyond: bool


@dataclass(frozen=True)
class Comparison:
    """What two results have in common, and what is in one only.

    Attributes:
        differences: every number of the estimates that are in both, in the order of the first.
        only_first: the estimates that are in the first only.
        only_second: those that are in the second only.
        unlike: estimates whose shares cannot be compared, as their buckets or names differ.
        z: so many standard errors are beyond the error.
    """

    differences: tuple[Difference, ...]
    only_first: tuple[Place, ...]
    only_second: tuple[Place, ...]
    unlike: tuple[Place, ...]
    z: float

    @property
    def differs(self) -> bool:
        """Whether a difference is beyond the error, or an estimate is in one only."""
        return any(own.beyond for own in self.differences) or bool(self.only_first or self.only_second)


@dataclass(frozen=True)
class _Numbers:
    """Numbers of an estimate: names, values and standard errors (NaN for unknown), all of one length."""

    names: Sequence[str]
    values: Floats
    errors: Floats


def compared(first: Results, second: Results) -> Comparison:
    """Compare the estimates of two results."""
    ours, theirs = _by_place(first), _by_place(second)
    parts: list[tuple[Place, Sequence[str], Floats, Floats, Floats]] = []
    unlike = []
    for place, own in ours.items():
        if place not in theirs:
            continue
        there = {tuple(part.names): part for part in _numbers(theirs[place])}
        for part in _numbers(own):
            other = there.get(tuple(part.names))
            if other is None:
                unlike.append(place)
                continue
            errors = np.hypot(part.errors, other.errors)
            parts.append((place, part.names, part.values, other.values, errors))
    judged = sum(int(np.isfinite(errors).sum()) for *_, errors in parts)
    z = float(-ndtri(FALSE_ALARMS / 2 / max(judged, 1)))
    differences = [
        Difference(place, name, one, two, None if math.isnan(error) else error, abs(two - one) > z * error)
        for place, names, *columns in parts
        for name, one, two, error in zip(names, *(column.tolist() for column in columns), strict=True)
    ]
    return Comparison(
        tuple(differences),
        tuple(place for place in ours if place not in theirs),
        tuple(place for place in theirs if place not in ours),
        tuple(dict.fromkeys(unlike)),
        z,
    )


def _by_place(results: Results) -> dict[Place, EstimateRecord]:
    """The estimates by place; of several runs of a stream that have a window, the one with most reports."""
    found: dict[Place, EstimateRecord] = {}
    for own in results.estimates:
        before = found.get(own.place)
        if before is None or before.reports <= own.reports:
            found[own.place] = own
    return found


def _numbers(record: EstimateRecord) -> Iterator[_Numbers]:
    """The numbers of an estimate, in parts that are compared with parts of the same names."""
    found = record.intervals or IntervalsRecord(0.95)
    level = found.level
    if record.mean is not None:
        error = record.standard_error
        own = _part(["mean"], [record.mean], _many(found.mean), level)
        yield own if error is None else _Numbers(own.names, own.values, np.array([error]))
    if record.variance is not None:
        yield _part(["variance"], [record.variance], _many(found.variance), level)
    if record.quantiles is not None:
        yield _quantiles(record.quantiles, found.quantiles or {}, level)
    if record.ranges is not None:
        names = [f"share from {part.low:g} to {part.high:g}" for part in record.ranges]
        yield _part(names, [part.share for part in record.ranges], found.ranges, level)
    if record.distribution is not None and record.bucket_edges is not None:
        edges = itertools.pairwise(record.bucket_edges)
        names = [f"share in {low:.6g} to {high:.6g}" for low, high in edges]
        yield _part(names, record.distribution, found.distribution, level)
    if record.frequencies is not None and record.labels is not None:
        names = [f"share of {label}" for label in record.labels]
        yield _part(names, record.frequencies, found.frequencies, level)
    if record.key_means is not None and record.keys is not None:
        names = [f"mean of {key}" for key in record.keys]
        yield _part(names, record.key_means, found.key_means, level)


def _many(ends: Ends | None) -> ManyEnds | None:
    return None if ends is None else ManyEnds((ends.low,), (ends.high,))


def _quantiles(values: dict[str, float], ends: dict[str, Ends], level: float) -> _Numbers:
    found = None
    if ends.keys() >= values.keys():
        found = ManyEnds(tuple(ends[own].low for own in values), tuple(ends[own].high for own in values))
    return _part([f"quantile {own}" for own in values], list(values.values()), found, level)


def _part(names: Sequence[str], values: Sequence[float], ends: ManyEnds | None, level: float) -> _Numbers:
    return _Numbers(names, np.asarray(values, dtype=np.float64), _errors(values, ends, level))


def _errors(values: Sequence[float], ends: ManyEnds | None, level: float) -> Floats:
    """The standard errors of numbers, from the ends of their intervals; NaN without intervals, shape (n,).

    An interval that was cut where values end, such as at a share of zero, is wide on one side only, and an
    estimate may lie outside of its interval: so the larger of the distances to both ends counts.
    """
    if ends is None:
        return np.full(len(values), np.nan)
    own, low, high = (np.asarray(part, dtype=np.float64) for part in (values, ends.low, ends.high))
    wide = np.maximum.reduce([high - own, own - low, (high - low) / 2])
    return np.asarray(wide / ndtri(0.5 + level / 2))
