"""Do user ids mean the same people at two joined services?

A user's reports to both services are two draws, from the two channels of one value. The table of both reports
is compared with the expectation under the distribution of values that explains it best. If ids belong to
different people at the two services, or one service reverses the sign of its reports, no distribution
explains the table.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ldpbeam import joint_cells
from ldpbeam.attributes import Attribute
from ldpbeam.channels import DenseChannel, with_ends
from ldpbeam.domains import Floats, Integers, Numeric, least_multiple, number_of_values
from ldpbeam.fit.likelihood import misfit_p_value
from ldpbeam.mechanisms import CategoricalMechanism, UnbiasedMechanism
from ldpbeam.statistics import Statistic

#: The most cells of a service: neighbouring report buckets are counted together.
MOST_POOLED = 8
#: The most report buckets of a service whose neighbouring buckets have nothing in common.
MOST_UNPOOLED = 16
#: The value buckets for numbers, or a few more; and the most for categories.
VALUE_BUCKETS, MOST_VALUE_BUCKETS = 256, 4096
#: Tables of fewer users are not tested.
FEWEST_USERS = 50


def pairs(attribute: Attribute, statistic: Statistic) -> Iterator[tuple[tuple[str, str], int, float]]:
    """(the labels of two joined services, the number of users of both, the p-value), if there are enough.

    The p-value is an upper bound of the probability of such a table if users are the same people at both.
    """
    compared = [
        (service, part)
        for service in attribute.joint_services
        for part in attribute.axis(service)
        if is_compared(attribute, part.version)
    ]
    if len({service for service, _ in compared}) < 2 or not len(statistic.joint_counts):
        return
    counts = statistic.joint_counts.astype(np.float64)
    digits_of_cells = joint_cells.digits_of(attribute.joint_shape, statistic.joint_cells)
    digits = dict(zip(attribute.joint_services, digits_of_cells, strict=True))
    for (service, one), (other_service, other) in itertools.combinations(compared, 2):
        if service == other_service:
            continue
        rows, columns = digits[service], digits[other_service]
        chosen = (rows >= one.first) & (rows < one.end) & (columns >= other.first) & (columns < other.end)
        users = float(counts[chosen].sum())
        if users < FEWEST_USERS:
            continue
        left, right = _pooled(attribute, one.version), _pooled(attribute, other.version)
        cells = left.group[rows[chosen] - one.first] * len(right.channel)
        cells = cells + right.group[columns[chosen] - other.first]
        size = len(left.channel) * len(right.channel)
        table: Floats = np.bincount(cells, counts[chosen], minlength=size).astype(np.float64)
        joint = (left.channel[:, None, :] * right.channel[None, :, :]).reshape(len(table), -1)
        numbers = isinstance(attribute.domain, Numeric)
        labels = attribute.versions[one.version].label, attribute.versions[other.version].label
        yield labels, int(users), misfit_p_value(DenseChannel(joint), table, sparse=numbers)


def is_compared(attribute: Attribute, index: int) -> bool:
    """Whether a joined channel is compared with others."""
    mechanism = attribute.versions[index].mechanism
    named = isinstance(mechanism, CategoricalMechanism) and mechanism.names_one
    neighbours = isinstance(mechanism, UnbiasedMechanism) or named
    cells = mechanism.cells(attribute.joint_resolution(index))
    few = _value_buckets(attribute) <= MOST_VALUE_BUCKETS
    return few and (neighbours or cells <= MOST_UNPOOLED)


def _value_buckets(attribute: Attribute) -> int:
    """The value buckets of a test: for numbers the values of a step, or a multiple of those of estimates."""
    if steps := number_of_values(attribute.domain):
        return steps
    buckets = attribute.value_buckets
    return least_multiple(buckets, VALUE_BUCKETS) if isinstance(attribute.domain, Numeric) else buckets


class _Pooled(NamedTuple):
    """A channel with few cells: P(cell | value), shape (cells, values), and each report bucket's cell."""

    channel: Floats
    group: Integers


@functools.lru_cache(maxsize=64)
def _pooled(attribute: Attribute, index: int) -> _Pooled:
    resolution = attribute.joint_resolution(index)
    rows = attribute.report_channel(index, resolution, _value_buckets(attribute)).dense()
    if isinstance(attribute.domain, Numeric) and not attribute.domain.count:
        rows = with_ends(rows, attribute.at_ends(index, resolution))
    together = 1 if len(rows) <= MOST_UNPOOLED else -(-len(rows) // MOST_POOLED)
    group = np.arange(len(rows)) // together
    pooled = np.add.reduceat(rows, np.arange(0, len(rows), together), axis=0)
    return _Pooled(pooled, group)
