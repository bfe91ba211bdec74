"""Channels at single values, for domains whose values have a step."""

from __future__ import annotations

import numpy as np

from ldpbeam.channels import Channel, ChosenColumns, DenseChannel, ReducedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import Mechanism, NumericMechanism

#: The number of bins that stand for values, if a mechanism does not define P(report | value).
FINE = 4_096


def check_at_values(mechanism: Mechanism, values: int) -> None:
    """Check that a mechanism has a channel at each of a number of values.

    Raises:
        ValueError: if it has more bins than there are values, or does not give P(report | value).
    """
    if mechanism.granularity > values:
        raise ValueError(
            f"{mechanism.name} tells {mechanism.granularity} bins apart, and this step makes {values} "
            "values, so some bins have none: name fewer"
        )
    if mechanism.granularity == 1 and _at(mechanism, np.zeros(1), 2) is None:
        raise ValueError(
            f"{mechanism.name} does not say how likely its reports are at one value: leave step out"
        )


def channel_at_values(mechanism: Mechanism, values: int, resolution: int, *, of_histogram: bool) -> Channel:
    """P(report bucket | value) at ``values`` equally spaced values from 0 to 1.

    Args:
        mechanism: the mechanism.
        values: how many values there are, 2 or more.
        resolution: the resolution of reports.
        of_histogram: whether the rows are the cells of a histogram, of which one report may fill several.
    """
    bins = mechanism.granularity
    matrix = _at(mechanism, np.arange(values) / (values - 1.0), resolution) if bins == 1 else None
    if matrix is None:
        bins = bins if bins > 1 else FINE
        of_bins = mechanism.histogram_channel if of_histogram else mechanism.channel
        return ChosenColumns(of_bins(bins, resolution), bins_of_values(values, bins))
    return DenseChannel(matrix)


def _at(mechanism: Mechanism, values: Floats, resolution: int) -> Floats | None:
    return mechanism.at(values, resolution) if isinstance(mechanism, NumericMechanism) else None


def bins_of_values(values: int, bins: int) -> Integers:
    """The bin of each of ``values`` equally spaced values from 0 to 1, shape (values,)."""
    return np.minimum(np.floor(np.arange(values) / (values - 1.0) * bins), bins - 1).astype(np.int64)


def by_bucket(at_values: Channel, buckets: int) -> Channel:
    """The channel of equal value buckets: the mean over the values in a bucket, all equally likely."""
    values = at_values.shape[1]
    if buckets == values:
        return at_values
    return ReducedChannel(at_values, np.arange(values) * buckets // values)
