"""Blurred shares: sums over reports that tell two distributions apart, whatever people's values are.

For every function v of a report, its mean estimates the sum of x g without bias, where x are the shares of
people at values and g = K'v. Here v is chosen so that g falls from one to zero around a value: the mean is
nearly the share of people up to about there. Nobody knows that share to the person, but the same v on two
sides has the same g, so that the means of equal distributions differ by noise alone.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np

from ldpbeam.certainty import BlurredShares
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators.question import Question
from ldpbeam.intervals.split_reports import CELLS, coarse, mechanisms_of, merged

#: The values up to about which people are counted, as parts of the range.
PLACES = np.arange(1, 8) / 8.0
#: The points between which g is compared with the step.
POINTS = 128
#: The weight of noise against the distance of g from the step. Distributions that differ in location,
#: spread, a tail or a spike are told apart nearly as often for a tenth or ten times of it.
NOISE = 0.03


def blurred_shares(question: Question) -> dict[str, BlurredShares]:
    """The blurred shares of each mechanism with enough reports; none where windows share noise."""
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
    """A mechanism by its name and options, as in square_wave, epsilon 1.0."""
    return f"{mechanism.name}, {str(mechanism).partition('(')[2].removesuffix(')').replace('=', ' ')}"


@functools.lru_cache(maxsize=64)
def _functions(mechanism: Any, cells: int) -> Floats:
    """The function of each place, shape (places, report cells)."""
    values = (np.arange(POINTS) + 0.5) / POINTS
    channel = mechanism.at(values, cells)
    even = channel.mean(axis=1)
    spread = np.diag(even + 1e-9) - np.outer(even, even)
    steps = (values <= PLACES[:, None]).astype(np.float64)
    weighed = channel @ channel.T / POINTS + NOISE * spread
    return np.asarray(np.linalg.solve(weighed, channel @ steps.T / POINTS).T)
