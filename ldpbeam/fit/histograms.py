"""Does a service's histogram fit its channel?"""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple, cast

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import ndtr

from ldpbeam.attributes import Attribute
from ldpbeam.channels import DenseChannel, with_ends
from ldpbeam.domains import Floats, Integers, greatest_divisor, least_multiple, number_of_values
from ldpbeam.fit.deviance import checked, deviance, moments
from ldpbeam.fit.likelihood import misfit_p_value
from ldpbeam.fit.slots import slots_p_value
from ldpbeam.mechanisms import KeyValueMechanism, NumericMechanism, UnbiasedMechanism

#: A histogram of numbers is tested in at most CELLS cells, against VALUE_BUCKETS value buckets or a few more:
#: values on few points then differ little from values that are spread over a bucket. Many reports would still
#: show the difference, as would those of a large epsilon, which are near their value. So if reports times
#: exp(2 epsilon) exceed MANY, there are FINE_BUCKETS.
CELLS, VALUE_BUCKETS, FINE_BUCKETS, MANY = 256, 1024, 8192, 1e7
#: A channel with more entries, or more look-ups in a product, is not fitted; only its noise is tested.
MOST_ENTRIES = 2**22
#: The most entries of a matrix of all buckets of a histogram of numbers (128 MB).
MOST_DENSE = 2**24
#: This many p-values are cached.
MOST_LATEST = 1_024
#: Scores with a variance below LEAST_VARIANCE are all one, up to rounding. The search for scores takes at
#: most MOST_STEPS steps, and ends when their means are one up to the error SCORES: a tenth of the noise of
#: 10^9 reports in 10,000 categories.
LEAST_VARIANCE, MOST_STEPS, SCORES = 1e-9, 200, 1e-8


#: The latest p-values of histograms, by the digests of these.
_LATEST: dict[tuple[Attribute, int, int, bytes], float] = {}


def histogram_p_value(attribute: Attribute, index: int, histogram: Integers, reports: int) -> float:
    """An upper bound of the p-value of the fit of one channel's histogram.

    Results are cached, because a run tests its reports and flags intervals by the same tests.

    Args:
        attribute: the attribute.
        index: the channel, an index into ``attribute.versions``, for which :func:`is_tested`.
        histogram: its histogram, shape (cells,).
        reports: the number of its reports, above zero.
    """
    asked = attribute, index, reports, hashlib.blake2b(histogram.tobytes()).digest()
    if asked not in _LATEST:
        while len(_LATEST) >= MOST_LATEST:
            del _LATEST[next(iter(_LATEST))]
        _LATEST[asked] = _p_value(attribute, index, histogram, reports)
    return _LATEST[asked]


def _p_value(attribute: Attribute, index: int, histogram: Integers, reports: int) -> float:
    mechanism = attribute.versions[index].mechanism
    counts = histogram.astype(np.float64)
    slots = attribute.channel(index).slots if mechanism.composite else None
    if slots is not None:
        return slots_p_value(slots, counts, reports)
    if isinstance(mechanism, NumericMechanism):
        fine = reports * np.exp(2.0 * mechanism.epsilon) > MANY
        cells, of_cells = _pooled(attribute, index, FINE_BUCKETS if fine else VALUE_BUCKETS)
        pooled: Floats = np.bincount(cells, counts, minlength=of_cells.shape[0]).astype(np.float64)
        return misfit_p_value(of_cells, pooled, sparse=True)
    channel = attribute.channel(index)
    tests = []
    if channel.shape[0] * channel.shape[1] <= MOST_ENTRIES:
        sparse = isinstance(mechanism, UnbiasedMechanism)
        tests.append(misfit_p_value(channel, counts, sparse=sparse))
    tests.append(_noise_p_value(_noise(attribute, index), counts))
    if mechanism.seed_family:
        tests.append(_even_p_value(counts.reshape(mechanism.seed_family, -1).sum(axis=1)))
    if isinstance(mechanism, KeyValueMechanism) and (sums := mechanism.key_sums(histogram, reports)).sampled:
        tests.append(_even_p_value(sums.asked))
    return min(1.0, len(tests) * min(tests)) if tests else 1.0


def is_tested(attribute: Attribute, index: int) -> bool:
    """Whether :func:`histogram_p_value` can test this channel."""
    mechanism = attribute.versions[index].mechanism
    if mechanism.composite:
        return attribute.channel(index).slots is not None
    if isinstance(mechanism, NumericMechanism) or mechanism.seed_family:
        return True
    channel = attribute.channel(index)
    few = channel.shape[0] * channel.shape[1] <= MOST_ENTRIES
    return bool(few or _noise(attribute, index).variance >= LEAST_VARIANCE)


@functools.lru_cache(maxsize=8)
def _pooled(attribute: Attribute, index: int, least: int) -> tuple[Integers, DenseChannel]:
    """(the cell of each bucket of the histogram, the channel of these cells).

    The columns of the channel are the values of a step; or else ``least`` equal buckets or a few more, and
    the two ends of the range.
    """
    mechanism, buckets = cast(NumericMechanism, attribute.versions[index].mechanism), attribute.buckets
    cells, steps = greatest_divisor(buckets, CELLS), number_of_values(attribute.domain)
    values = steps or least_multiple(mechanism.granularity, min(least, MOST_DENSE // buckets))
    few = cells >= min(buckets, CELLS // 2)
    resolution = cells if few else buckets
    columns = attribute.report_channel(index, resolution, values).dense()
    if not steps:
        columns = with_ends(columns, attribute.at_ends(index, resolution))
    if few:
        groups = mechanism.bucketise(mechanism.representatives(buckets), cells)
    else:
        # No number near CELLS divides the number of buckets, so some cells have more buckets than others.
        every = mechanism.cells(buckets)
        groups = np.arange(every) * min(CELLS, every) // every
        columns = np.add.reduceat(columns, np.flatnonzero(np.diff(groups, prepend=-1)))
    return groups, DenseChannel(columns)


def _noise_p_value(noise: _Noise, counts: Floats) -> float:
    """The p-value of the amount of noise in the reports, which does not depend on people's categories."""
    n = float(counts.sum())
    mean = float(counts @ noise.scores) / n
    beyond = max(noise.low - mean, mean - noise.high)
    if beyond <= 0.0 or noise.variance < LEAST_VARIANCE:
        return 1.0
    return float(2.0 * ndtr(-beyond * np.sqrt(n / noise.variance)))


class _Noise(NamedTuple):
    """The score of each cell, and bounds of the mean and the variance of a report's score.

    Let C be the channel. A score C y with C'C y = 1 has the mean one for every value: it is the sum of the
    unbiased shares by least squares. The mean over random reports is lower, unless an even population would
    send such reports: then all scores are one. So the mean of the scores is below one if reports are noisier
    than claimed, and above one if they are less noisy.
    """

    scores: Floats
    low: float
    high: float
    variance: float


@functools.lru_cache(maxsize=64)
def _noise(attribute: Attribute, index: int) -> _Noise:
    channel = attribute.channel(index)
    value_buckets = channel.shape[1]
    shape = (value_buckets, value_buckets)
    square = LinearOperator(shape, matvec=lambda y: channel.gram(np.ravel(y)), dtype=float)
    # The bounds below hold wherever the search ends.
    solution, _ = cg(square, np.ones(value_buckets), rtol=SCORES, maxiter=MOST_STEPS)
    scores: Floats = channel.matvec(solution)
    means: Floats = channel.rmatvec(scores)
    low, high = float(means.min()), float(means.max())
    within = channel.rmatvec(scores**2) - means**2
    return _Noise(scores, low, high, float(within.max()) + 0.25 * (high - low) ** 2)


def _even_p_value(counts: Floats) -> float:
    """The p-value of uniform draws, of the seeds of a family or of the keys that people are asked about."""
    uniform = np.full(len(counts), 1.0 / len(counts))
    observed = deviance(counts, uniform)
    p_value = moments(float(counts.sum()), uniform).p_value(observed)
    return checked(p_value, observed, counts, uniform)
