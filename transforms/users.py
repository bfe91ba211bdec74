"""What the same user sent to several services, joined: users are shuffled by partition, not by user."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.schemas.study import Study
from ldpbeam.transforms.batches import attribute_name
from ldpbeam.transforms.counts import COUNTS, DUPLICATES, USED, count
from ldpbeam.transforms.joins import UserReports, join, without_join
from ldpbeam.transforms.windows import SplitByStepAndKey, beam_windows


class GroupUsers(beam.PTransform):
    """Windowed batches of a channel to one row a user.

    Where the study does not group users, the shuffle is left out and every report stands on its own.

    Outputs: the main one of ((attribute, group), UserReports), and counts.
    """

    def __init__(self, study: Study, partitions: int) -> None:
        super().__init__()
        self.study = study
        self.partitions = partitions

    def expand(self, reports: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        """Wire the stages."""
        pieces = (
            reports
            | "SplitByStepAndUser"
            >> beam.ParDo(
                SplitByStepAndKey(
                    self.study.windows, "user", self.partitions if self.study.group_users else 1
                )
            ).with_output_types(tuple[str, pa.RecordBatch])
            | "Window" >> beam.WindowInto(beam_windows(self.study.windows))
        )
        if self.study.group_users:
            pieces = pieces | "GroupPartitions" >> beam.GroupByKey()
            function: beam.DoFn = _Join(self.study)
        else:
            function = _WithoutJoin()
        return pieces | "JoinUsers" >> beam.ParDo(function).with_outputs(COUNTS, main="users")


class _Join(beam.DoFn):
    def __init__(self, study: Study) -> None:
        self.study = study
        self._seconds = beam.metrics.Metrics.distribution("ldpbeam", "join_milliseconds")

    def process(self, element: tuple[str, Iterable[pa.RecordBatch]]) -> Iterable[Any]:
        key, batches = element
        started = time.monotonic()
        attribute = self.study.attribute(key.rpartition("/")[0])
        joined, duplicates = join(attribute, list(batches))
        self._seconds.update(int(1000 * (time.monotonic() - started)))
        yield from _counted(joined)
        if duplicates:
            yield count(DUPLICATES, duplicates)


class _WithoutJoin(beam.DoFn):
    def process(self, element: tuple[str, pa.RecordBatch]) -> Iterable[Any]:
        _, batch = element
        yield from _counted(without_join(batch, attribute_name(batch)))


def _counted(joined: Iterable[UserReports]) -> Iterable[Any]:
    for users in joined:
        yield (users.attribute, users.group), users
        yield count(USED, sum(len(answer.payloads) for answer in users.answers))
