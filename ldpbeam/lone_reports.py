"""The statistics of reports that are alone in their windows, computed together.

A sender who spreads event times opens a window with each report. Counting these windows one by one would take
twenty times as long, because NumPy takes as long for one number as for a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam import joint_cells
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Integers
from ldpbeam.mechanisms import Mechanism, UnbiasedMechanism
from ldpbeam.statistics import Answers, Moments, Statistic, empty, has_tail, joint_digits


def tally_each(attribute: Attribute, version: int, payloads: NDArray[Any]) -> Iterator[Statistic]:
    """The statistic of each report, equal to that by :func:`~ldpbeam.statistics.tally` for its user alone.

    Statistics share the arrays that are equal, so they must not be changed in place.

    Args:
        attribute: the attribute of the reports; its domain is no vector.
        version: the index of their channel.
        payloads: the payloads of n valid reports, shape (n,).
    """
    mechanism, nothing = attribute.versions[version].mechanism, empty(attribute)
    before, after = nothing.histograms[:version], nothing.histograms[version + 1 :]
    users = 1 if attribute.group_users else None
    one, mask = np.ones(1, dtype=np.int64), 1 << version
    for histogram, moments, cell in zip(
        _histograms(mechanism, payloads, attribute.buckets),
        _moments(attribute, version, payloads),
        _joint_cells(attribute, version, payloads),
        strict=True,
    ):
        yield Statistic(
            fingerprint=nothing.fingerprint,
            reports=1,
            users=users,
            histograms=(*before, histogram, *after),
            moments={mask: moments},
            joint_cells=cell,
            joint_counts=one if len(cell) else joint_cells.NONE,
        )


def _histograms(mechanism: Mechanism, payloads: NDArray[Any], resolution: int) -> Iterator[Integers]:
    if type(mechanism).histogram is not Mechanism.histogram:
        for row in range(len(payloads)):
            yield mechanism.histogram(payloads[row : row + 1], resolution)
        return
    cells, indexes = np.unique(mechanism.bucketise(payloads, resolution), return_inverse=True)
    counts = [np.bincount([cell], minlength=mechanism.cells(resolution)) for cell in cells]
    yield from (counts[index] for index in indexes.tolist())


def _moments(attribute: Attribute, version: int, payloads: NDArray[Any]) -> Iterator[Moments]:
    mechanism, channels = attribute.versions[version].mechanism, len(attribute.versions)
    sums = bounded = [0] * len(payloads)
    if isinstance(mechanism, UnbiasedMechanism):
        sums = mechanism.fixed_point(payloads).tolist()
        if has_tail(mechanism):
            bounded = mechanism.fixed_point(mechanism.bounded(payloads)).tolist()
    tails = any(has_tail(other.mechanism) for other in attribute.versions)
    before, after = (0,) * version, (0,) * (channels - version - 1)
    for total, inside in zip(sums, bounded, strict=True):
        yield Moments(
            1,
            (*before, total, *after),
            (*before, total * total, *after),
            (*before, inside, *after) if tails else (),
        )


def _joint_cells(attribute: Attribute, version: int, payloads: NDArray[Any]) -> list[Integers]:
    reports = len(payloads)
    if attribute.versions[version].service not in attribute.joint_services:
        return [joint_cells.NONE] * reports
    digits = joint_digits(attribute, reports, [Answers(version, np.arange(reports), payloads)])
    cells = joint_cells.indexes(attribute.joint_shape, digits)
    return [cells[row : row + 1] for row in range(reports)]
