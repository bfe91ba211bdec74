"""Does a service's histogram fit its channel?"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ldpbeam.attributes import Attribute
from ldpbeam.channels import Channel, DenseChannel
from ldpbeam.domains import Floats, Integers, Numeric
from ldpbeam.fit.deviance import checked, deviance, moments
from ldpbeam.fit.likelihood import least_misfit
from ldpbeam.fit.slots import slots_of, slots_p_value
from ldpbeam.mechanisms import DiscreteSquareWave, LocalHashing, Mechanism, NumericMechanism
from ldpbeam.mechanisms.ranges.binned import Binned

#: A histogram of numbers is tested in at most this many cells, and against this many value buckets or a few
#: more: values that lie on few points then differ little from values that are spread over a bucket.
CELLS, VALUE_BUCKETS = 256, 1024
#: A channel with more entries, or more look-ups in a product, is not fitted: its totals alone are tested.
MOST_ENTRIES = 2**22


def histogram_p_value(attribute: Attribute, index: int, histogram: Integers, reports: int) -> float:
    """An upper bound of the probability of so bad a fit of one channel's histogram, if its claim is true.

    Args:
        attribute: the attribute.
        index: the channel, an index into ``attribute.versions``, for which :func:`is_tested`.
        histogram: its histogram, shape (cells,).
        reports: the number of its reports, above zero.
    """
    mechanism = attribute.versions[index].mechanism
    slots = slots_of(mechanism, attribute.value_buckets, attribute.buckets)
    if slots is not None:
        return slots_p_value(slots, histogram.astype(np.float64), reports)
    counts = histogram.astype(np.float64)
    if isinstance(mechanism, NumericMechanism):
        cells = _cells(attribute.buckets)
        pooling = _pooling(mechanism, attribute.buckets, cells)
        pooled: Floats = np.bincount(pooling, counts, minlength=mechanism.cells(cells)).astype(np.float64)
        return least_misfit(_numeric_channel(mechanism, cells), pooled, sparse=True).p_value
    channel = attribute.channel(index)
    tests = []
    if channel.shape[0] * channel.shape[1] <= MOST_ENTRIES:
        sparse = isinstance(mechanism, DiscreteSquareWave)
        tests.append(least_misfit(channel, counts, sparse=sparse).p_value)
    hashing = _hashing(mechanism)
    if hashing is not None:
        tests += [_totals_p_value(channel, mechanism, counts), _seeds_p_value(hashing, counts)]
    return min(1.0, len(tests) * min(tests)) if tests else 1.0


def is_tested(attribute: Attribute, index: int) -> bool:
    """Whether :func:`histogram_p_value` can test this channel."""
    mechanism = attribute.versions[index].mechanism
    if mechanism.composite:
        return slots_of(mechanism, attribute.value_buckets, attribute.buckets) is not None
    if isinstance(mechanism, NumericMechanism) or _hashing(mechanism) is not None:
        return True
    shape = attribute.channel(index).shape
    return bool(shape[0] * shape[1] <= MOST_ENTRIES)


def _hashing(mechanism: Mechanism) -> LocalHashing | None:
    """The mechanism of hashes, which may be the oracle of bins; None for another mechanism."""
    if isinstance(mechanism, Binned):
        mechanism = mechanism.reporter
    return mechanism if isinstance(mechanism, LocalHashing) else None


def _cells(buckets: int) -> int:
    """The number of cells: the greatest divisor of the histogram's buckets up to :data:`CELLS`."""
    return max(divisor for divisor in range(1, CELLS + 1) if buckets % divisor == 0)


@functools.lru_cache(maxsize=64)
def _pooling(mechanism: NumericMechanism, buckets: int, cells: int) -> Integers:
    """The cell of each bucket of the histogram."""
    return mechanism.bucketise(mechanism.representatives(buckets), cells)


@functools.lru_cache(maxsize=64)
def _numeric_channel(mechanism: NumericMechanism, cells: int) -> DenseChannel:
    step = mechanism.granularity
    return DenseChannel(mechanism.channel(step * -(-VALUE_BUCKETS // step), cells).dense())


def _totals_p_value(channel: Channel, mechanism: Mechanism, counts: Floats) -> float:
    """Whether reports support as many categories, in all, as they should, whatever the categories are."""
    totals = _totals(mechanism, channel.shape[1])
    n = float(counts.sum())
    mean = float(counts @ totals.scores) / n
    beyond = max(totals.low - mean, mean - totals.high)
    if beyond <= 0.0 or totals.variance <= 0.0:
        return 1.0
    return float(2.0 * ndtr(-beyond * np.sqrt(n / totals.variance)))


class _Totals(NamedTuple):
    """The score of each cell, and bounds of the mean and the variance of a report's score.

    The score is the sum of the cell's row of the channel, which grows with the number of categories that a
    report supports.
    """

    scores: Floats
    low: float
    high: float
    variance: float


@functools.lru_cache(maxsize=64)
def _totals(mechanism: Mechanism, value_buckets: int) -> _Totals:
    channel = mechanism.histogram_channel(value_buckets, 0)
    scores: Floats = channel.matvec(np.ones(value_buckets))
    means: Floats = channel.rmatvec(scores)
    low, high = float(means.min()), float(means.max())
    within = channel.rmatvec(scores**2) - means**2
    return _Totals(scores, low, high, float(within.max()) + 0.25 * (high - low) ** 2)


def _seeds_p_value(mechanism: LocalHashing, counts: Floats) -> float:
    """Whether the seeds are drawn uniformly from their family."""
    seeds = counts.reshape(-1, mechanism.hashes).sum(axis=1)
    uniform = np.full(len(seeds), 1.0 / len(seeds))
    found = deviance(seeds, uniform)
    p_value = moments(float(seeds.sum()), uniform).p_value(found)
    return checked(p_value, found, seeds, uniform)


def value_buckets(attribute: Attribute, least: int) -> int:
    """The value buckets of a test: for numbers a multiple of those of estimates, ``least`` or more."""
    buckets = attribute.value_buckets
    return buckets * -(-least // buckets) if isinstance(attribute.domain, Numeric) else buckets
