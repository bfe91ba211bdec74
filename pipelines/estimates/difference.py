"""Two results compared: each number of each estimate, and whether it differs by more than its error.

A number's difference is beyond the error if it is more than z times sqrt(e1^2 + e2^2), with the standard
errors e1 and e2 of the two numbers. z is Bonferroni's: among all numbers compared, the chance of any such
difference is at most :data:`FALSE_ALARMS` where the values of the people are the same in both runs. Runs that
share reports have errors in common, so that their chance is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ldpbeam.domains import Floats
from ldpbeam.pipelines.estimates.numbers import Place, by_place, numbers_of
from ldpbeam.pipelines.estimates.results import Results

#: At most this share of pairs of runs with the same values has a difference beyond the error.
FALSE_ALARMS = 0.01


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
        z: this many standard errors are beyond the error.
    """

    differences: tuple[Difference, ...]
    only_first: tuple[Place, ...]
    only_second: tuple[Place, ...]
    unlike: tuple[Place, ...]
    z: float

    @property
    def differs(self) -> bool:
        """Whether a difference is beyond the error, or an estimate is in one only."""
        return any(difference.beyond for difference in self.differences) or bool(
            self.only_first or self.only_second
        )


def compared(first: Results, second: Results) -> Comparison:
    """Compare the estimates of two results."""
    ours, theirs = by_place(first), by_place(second)
    parts: list[tuple[Place, Sequence[str], Floats, Floats, Floats]] = []
    unlike = []
    for place, record in ours.items():
        if place not in theirs:
            continue
        there = {tuple(part.names): part for part in numbers_of(theirs[place])}
        for part in numbers_of(record):
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
