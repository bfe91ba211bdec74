"""The CombineFn that adds up statistics by attribute and group."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from ldpbeam.transforms.windows.coders import AccumulatorCoder
from ldpbeam.transforms.windows.groups import SIDE_BY_SIDE, Accumulator, GroupStatistics, added_up, with_added


class CombineGroups(beam.CombineFn):
    """Adds up statistics by attribute and group.

    The addition is exact, in integers, so the result does not depend on how reports were cut, ordered or
    merged.
    """

    def create_accumulator(self) -> Accumulator:
        """An accumulator without partial statistics."""
        return []

    def add_input(self, accumulator: Accumulator, statistics: GroupStatistics) -> Accumulator:
        """Append the statistics; many are merged."""
        return with_added(accumulator, statistics)

    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """Merge all partial statistics, a few at a time, since there may be thousands of them."""
        merged: Accumulator = []
        for parts in accumulators:
            merged += parts
            if len(merged) >= SIDE_BY_SIDE:
                merged = self.compact(merged)
        return self.compact(merged)

    def compact(self, accumulator: Accumulator) -> Accumulator:
        """Merge the accumulator, so that it holds at most one statistic per group."""
        return [added_up(accumulator)] if accumulator else []

    def extract_output(self, accumulator: Accumulator) -> GroupStatistics:
        """The statistics of all groups; a group that lost all its reports has a statistic of 0 reports."""
        return added_up(accumulator)

    def get_accumulator_coder(self) -> beam.coders.Coder:
        """A coder to Avro; by default Beam would pickle."""
        return AccumulatorCoder()
