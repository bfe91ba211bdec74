"""The mean and the mean square of numbers from a histogram, for noise that has a tail.

A report with Laplace or Gaussian noise can be hundreds of domain widths away from every value, though honest
reports hardly ever are. So a fake user can move the plain mean of reports as far as they like. The mean is
computed from the histogram instead: each cell has a score, the estimate is the mean score of the reports, and
all cells beyond the limits of :class:`ldpbeam.mechanisms.mechanism.Tail` share one score. No report moves the
mean further than the largest score does.

The scores f minimise the sum over cells of p f^2 plus ``WEIGHT`` times the mean square of the bias C'f - g,
where C is the channel, p its mean over values, and g(x) is x or x^2. For Laplace noise they are about the
report itself inside the domain, and 1 + scale beyond its ends (on [-1, 1]). That is the mean of all reports
with the same sufficient statistic, which is unbiased and has a lower variance than the report (Rao and
Blackwell). For Gaussian noise no bounded unbiased number exists. ``bias`` holds the remaining bias, which
every interval includes.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ldpbeam.domains import Floats, Integers, bucket_midpoints
from ldpbeam.mechanisms.mechanism import NumericMechanism, Tail

#: The number of values at which the channel is taken, and the most cells, which are pooled down to this.
VALUES, MOST_CELLS = 512, 256
#: How much more the squared bias counts than the variance of one report. From 64 buckets on, the bias of the
#: mean is then at most 4e-5 of a report's deviation up to epsilon 10: a twenty-fifth of the
#: standard error of the mean of a million reports.
WEIGHT = 1e8


class Score(NamedTuple):
    """A number for each cell of a histogram, whose mean over reports estimates g(x).

    Attributes:
        cells: the score of each cell, shape (cells,).
        bias: the largest difference of the expected score and g(x), over all values x.
        noise: the variance of the score given each of ``VALUES`` equally spaced values x, shape (values,).
    """

    cells: Floats
    bias: float
    noise: Floats

    def noise_at(self, x: Floats) -> Floats:
        """The variance of the score given values in [0, 1]."""
        return np.interp(x, bucket_midpoints(len(self.noise)), self.noise)

    def mean(self, histogram: Integers) -> float:
        """The mean score of the reports of a histogram."""
        return float(histogram @ self.cells) / float(histogram.sum())

    def mean_square(self, histogram: Integers) -> float:
        """The mean of the squares of the scores of the reports of a histogram."""
        return float(histogram @ self.cells**2) / float(histogram.sum())


class Scores(NamedTuple):
    """The scores of x and of x squared, for values x in [0, 1]."""

    first: Score
    second: Score


@functools.lru_cache(maxsize=64)
def scores(mechanism: NumericMechanism, resolution: int) -> Scores | None:
    """The scores of a mechanism's histogram; None if its reports have no tail."""
    tail = mechanism.tail
    if tail is None:
        return None
    channel = mechanism.channel(VALUES, resolution).dense()
    x = bucket_midpoints(VALUES)
    return Scores(
        _score(channel, _cells(mechanism, tail, tail.mean_from, resolution), x),
        # The mean of x^2 over a bucket, because the channel's columns are means over buckets.
        _score(
            channel, _cells(mechanism, tail, tail.square_from, resolution), x**2 + 1.0 / (12.0 * VALUES**2)
        ),
    )


def _cells(mechanism: NumericMechanism, tail: Tail, limit: float, resolution: int) -> Integers:
    """The number of the score of each cell of the histogram, ascending from 0, shape (cells,)."""
    cells = mechanism.cells(resolution)
    # The first and the last cell are beyond the end. Cells that reach over the limit are within it.
    lower = -tail.end + np.arange(cells - 1) * (2.0 * tail.end / resolution)
    beyond = int(np.count_nonzero(lower < -limit * (1.0 + 1e-9)))
    inner = np.clip(np.arange(cells) - max(beyond - 1, 0), 0, cells - 1 - 2 * max(beyond - 1, 0))
    together = -(-int(inner[-1] - 1) // MOST_CELLS)
    return np.where(inner == inner[-1], (inner - 2) // together + 2, (inner - 1) // together + 1)


def _score(channel: Floats, cells: Integers, wanted: Floats) -> Score:
    """The score whose expected value is nearest to ``wanted`` at each value."""
    rows = np.add.reduceat(channel, np.flatnonzero(np.diff(cells, prepend=-1)), axis=0)
    scaled = rows / np.maximum(rows.mean(axis=1), 1e-300)[:, None] / len(wanted)
    scores = scaled @ np.linalg.solve(rows.T @ scaled + np.eye(len(wanted)) / WEIGHT, wanted)
    expected = rows.T @ scores
    noise = rows.T @ scores**2 - expected**2
    return Score(scores[cells], float(np.abs(expected - wanted).max()), noise)
