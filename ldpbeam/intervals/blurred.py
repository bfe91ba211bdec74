"""Blurred shares: sums over reports that tell two distributions apart, whatever people's values are.

For every function v of a report, its mean is an unbiased estimate of the sum of x g, where x are the shares
of people at each value and g = K'v. Here v is chosen so that g falls from one to zero around a value, so that
the mean is roughly the share of people below it. This is not exactly that share, but the same v on two sides
has the same g, so the means of equal distributions differ by noise alone.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np

from ldpbeam.certainty import BlurredShares
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.split_reports import CELLS, coarse, mechanisms_of, merged

#: The values around which g falls, as parts of the range.
PLACES = np.arange(1, 8) / 8.0
#: The number of points at which g is compared with the step.
POINTS = 128
#: The weight of noise against the distance of g from the step. With a tenth of it, or ten times it, we tell
#: distributions apart nearly as often, whether they differ in location, spread, a tail or a spike.
NOISE = 0.03


def blurred_shares(question: Question) -> dict[str, BlurredShares]:
    """The blurred shares of each mechanism with enough reports; none if windows share noise."""
    if question.statistic.joined is not None or question.repeats > 1:
        return {}
    domain, cells = cast(Numeric, question.attribute.domain), coarse(question.attribute.buckets, CELLS)
    at, by_mechanism = domain.from_unit(PLACES).tolist(), {}
    for group in mechanisms_of(question):
        counts: Floats = np.sum([merged(question, index, cells) for index in group], axis=0)
        mechanism, total = question.mechanism(group[0]), counts.sum()
        v = _functions(mechanism, cells)
        shares = v @ counts / total
        variances = np.maximum(v**2 @ counts / total - shares**2, 0.0) / total
        by_mechanism[_options(mechanism)] = BlurredShares(at, shares.tolist(), np.sqrt(variances).tolist())
    return by_mechanism


def _options(mechanism: Any) -> str:
    """The name and options of a mechanism, as in "square_wave, epsilon 1.0"."""
    return f"{mechanism.name}, {str(mechanism).partition('(')[2].removesuffix(')').replace('=', ' ')}"


@functools.lru_cache(maxsize=64)
def _functions(mechanism: Any, cells: int) -> Floats:
    """The function v for each of the values, shape (values, report cells)."""
    values = (np.arange(POINTS) + 0.5) / POINTS
    channel = mechanism.at(values, cells)
    even = channel.mean(axis=1)
    spread = np.diag(even + 1e-9) - np.outer(even, even)
    steps = (values <= PLACES[:, None]).astype(np.float64)
    weighed = channel @ channel.T / POINTS + NOISE * spread
    return np.asarray(np.linalg.solve(weighed, channel @ steps.T / POINTS).T)
