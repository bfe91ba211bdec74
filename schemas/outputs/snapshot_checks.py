"""Checks of a snapshot that was read: each count is compared with the others, so that damage is noticed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ldpbeam import joint_cells
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Integers
from ldpbeam.mechanisms.mechanism import FIXED_POINT_STEPS
from ldpbeam.statistics import Statistic

_TIMINGS = ("early", "on_time", "late")

#: About 550 years in milliseconds: every calendar can represent such times.
_LATEST = 2**44


def check_record(record: Mapping[str, Any]) -> None:
    """Check a record's window, pane, group, parts and channels.

    Args:
        record: a Statistic record whose fields have the schema's types.

    Raises:
        ValueError: if a field is impossible; the error names the first such field.
    """
    start, end = record["window_start"], record["window_end"]
    _require((start is None) == (end is None), "a window has a start and an end, or neither")
    sane = start is None or -_LATEST < start < end < _LATEST
    _require(sane, f"its window starts at {start} and ends at {end}")
    _require(record["pane_timing"] in _TIMINGS, f"pane_timing {record['pane_timing']!r} is unknown")
    for name in ("pane_index", "other_groups", "reports"):
        _require(record[name] >= 0, f"{name} is {record[name]}")
    _require(record["other_groups"] == 0 or record["group"] is None, "a group of its own is also the rest")
    _require(len(set(record["parts"])) == len(record["parts"]), "a part is named twice")
    masks = [entry["answered"] for entry in record["moments"]]
    _require(len(set(masks)) == len(masks), "a set of channels has sums twice")
    _require(len(record["histograms"]) == len(record["channels"]), "its histograms are not one per channel")


def check_counts(statistic: Statistic) -> None:
    """Check that a statistic's counts agree: reports, users, histograms, sums and joint counts.

    Raises:
        ValueError: if two counts contradict each other; the error describes the first contradiction.
    """
    channels, users_by_mask = len(statistic.histograms), {}
    for mask, moments in statistic.moments.items():
        _require(0 <= mask < 1 << channels, f"sums of the unknown channels {mask:b}")
        _require(moments.users > 0, f"the sums of {moments.users} users")
        _require(len(moments.sums) == len(moments.squares) == channels, "its sums are not one per channel")
        for index, (total, square) in enumerate(zip(moments.sums, moments.squares, strict=True)):
            answered = mask >> index & 1
            _require(answered or total == square == 0, "a sum of reports that nobody sent")
            # The Cauchy-Schwarz inequality, in integers.
            _require(total * total <= moments.users * square, "a sum and its sum of squares do not agree")
        bounded = moments.bounded if moments.bounded is not None else (0,) * channels
        _require(len(bounded) == channels, "its bounded sums are not one per channel")
        for index, total in enumerate(bounded):
            most = moments.users * FIXED_POINT_STEPS if mask >> index & 1 else 0
            _require(abs(total) <= most, "a bounded sum is larger than its reports can be")
        users_by_mask[mask] = moments.users
    by_channel = [
        sum(users for mask, users in users_by_mask.items() if mask >> index & 1) for index in range(channels)
    ]
    _require(sum(by_channel) == statistic.reports, "its sums are not of as many reports as it has")
    users = sum(users_by_mask.values())
    _require(statistic.users in (users, None), "its sums are not of as many users as it has")
    for histogram, reports in zip(statistic.histograms, by_channel, strict=True):
        _require(not np.any(histogram < 0), "a histogram has counts below zero")
        # A report adds one count to the histogram, or one to each of several parts of the histogram.
        counted = _total(histogram)
        fits = counted % reports == 0 and counted >= reports if reports else counted == 0
        _require(fits, f"a histogram counts {counted} of {reports} reports")
    cells, counts = statistic.joint_cells, statistic.joint_counts
    _require(len(cells) == len(counts), "its joint cells and their counts are not as many")
    _require(_ascending(joint_cells.columns(cells)), "its joint cells are not in ascending order")
    some = not len(cells) or bool(cells[0].any())
    _require(some and not np.any(cells < 0), "a joint cell is below one")
    _require(bool(np.all(counts > 0)), "a joint count is below one")
    _require(_total(counts) <= users, "its joint counts are of more users than it has")


def check_shape(attribute: Attribute, statistic: Statistic) -> None:
    """Check that a statistic's histograms and joint cells fit the attribute's channels.

    Raises:
        ValueError: if a histogram has another number of cells, a joint cell is out of range, or users of
            joined services are in no joint cell.
    """
    wanted = [version.mechanism.histogram_cells(attribute.buckets) for version in attribute.versions]
    found = list(map(len, statistic.histograms))
    _require(found == wanted, f"its histograms have {found} cells, its channels {wanted}")
    _check_cells(attribute.joint_shape, statistic.joint_cells)
    joined = sum(1 << index for index in attribute.versions_of(attribute.joint_services))
    answered = any(mask & joined for mask in statistic.moments)
    _require(len(statistic.joint_cells) or not answered, "users of joined services are in no joint cell")


def _ascending(cells: Integers) -> bool:
    """Whether each cell is above the one before it: in the first word in which they differ."""
    before, after = cells[:-1], cells[1:]
    rises = np.zeros(len(before), dtype=bool)
    for word in reversed(range(cells.shape[1])):
        rises = (after[:, word] > before[:, word]) | ((after[:, word] == before[:, word]) & rises)
    return bool(rises.all())


def _check_cells(shape: Sequence[int], cells: Integers) -> None:
    if not len(cells):
        return
    sizes = [math.prod(shape[axis] for axis in axes) for axes in joint_cells.words(shape)] if shape else [0]
    columns = joint_cells.columns(cells)
    _require(
        columns.shape[1] == len(sizes), f"its joint cells have {columns.shape[1]} words, not {len(sizes)}"
    )
    for last, size in zip(columns.max(axis=0).tolist(), sizes, strict=True):
        _require(last < size, f"joint cell {last} of {size}")


def _total(counts: Integers) -> int:
    """The exact sum of counts below 2**63, as a Python integer."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def _require(holds: bool | int, problem: str) -> None:
    if not holds:
        raise ValueError(problem)
