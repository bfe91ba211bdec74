"""What the same user sent to several services, joined: users are shuffled by partition, not by user."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import BoundedWindow, WindowFn
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.study import Study
from ldpbeam.transforms.joining.joins import join, without_join
from ldpbeam.transforms.reports.batches import attribute_name
from ldpbeam.transforms.reports.counts import COUNTS, DUPLICATES, IN_WINDOWS, USED, count
from ldpbeam.transforms.windows.cut import SplitByStepAndKey, beam_windows, window_bounds
from ldpbeam.transforms.windows.spans import keep_windows
from ldpbeam.windows import EVERYTHING, Span, counted_until


class GroupUsers(beam.PTransform):
    """Windowed batches of a channel to one row a user.

    Where the study does not group users, the shuffle is left out and every report stands on its own. Windows
    that do not lie inside the span are left out; every report lies in one that does.

    Gives rows of ((attribute, group), UserReports), and counts.
    """

    def __init__(self, study: Study, partitions: int, span: Span = EVERYTHING) -> None:
        super().__init__()
        self.study = study
        self.partitions = partitions if study.group_users else 1
        self.span = span

    def expand(self, reports: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Wire the stages."""
        split = SplitByStepAndKey(self.study.windows, "user", self.partitions)
        pieces = reports | "SplitByStepAndUser" >> beam.ParDo(split).with_output_types(
            tuple[str, pa.RecordBatch]
        )
        if not self.study.group_users:
            alone = pieces | "EachAlone" >> beam.ParDo(_WithoutJoin(self.study, self.span)).with_outputs(
                COUNTS, main="users"
            )
            return self._windowed(alone.users), alone[COUNTS]
        joined = (
            self._windowed(pieces)
            | "GroupPartitions" >> beam.GroupByKey()
            | "JoinUsers" >> beam.ParDo(_Join(self.study, self.span)).with_outputs(COUNTS, main="users")
        )
        return joined.users, joined[COUNTS]

    def _windowed(self, elements: beam.PCollection) -> beam.PCollection:
        windows = self.study.windows
        every = elements | "Window" >> beam.WindowInto(beam_windows(windows, joined=self.study.group_users))
        # Windows that do not slide lie inside, as their reports do.
        if windows is None or not windows.slides or not self.span.bounded:
            return every
        return every | "KeepWindows" >> keep_windows(self.span)


class _Join(beam.DoFn):
    """Joins a partition's reports in one window.

    Sliding windows hand a report to several joins; one of them counts it.
    """

    def __init__(self, study: Study, span: Span) -> None:
        self.study = study
        self.span = span
        self.slides = bool(study.windows and study.windows.slides)
        self._milliseconds = beam.metrics.Metrics.distribution("ldpbeam", "join_milliseconds")

    def process(
        self,
        element: tuple[str, Iterable[pa.RecordBatch]],
        bounds: BoundedWindow = beam.DoFn.WindowParam,
    ) -> Iterable[Any]:
        key, batches = element
        started = time.monotonic()
        attribute = self.study.attribute(key.rpartition("/")[0])
        until = counted_until(self.study.windows, window_bounds(bounds), self.span)
        joined = join(attribute, list(batches), until)
        self._milliseconds.update(int(1000 * (time.monotonic() - started)))
        for users in joined.users:
            yield (users.attribute, users.group), users
        yield count(USED, joined.used)
        yield count(DUPLICATES, joined.duplicates)
        if self.slides:
            yield count(IN_WINDOWS, sum(users.reports for users in joined.users))


class _WithoutJoin(beam.DoFn):
    def __init__(self, study: Study, span: Span) -> None:
        self.study = study
        self.span = span
        self.slides = bool(study.windows and study.windows.slides)
        self.window = beam_windows(study.windows, joined=False)

    def process(
        self, element: tuple[str, pa.RecordBatch], time: Timestamp = beam.DoFn.TimestampParam
    ) -> Iterable[Any]:
        _, batch = element
        if self.slides:
            windows = map(window_bounds, self.window.assign(WindowFn.AssignContext(time)))
            yield count(IN_WINDOWS, batch.num_rows * sum(map(self.span.holds, windows)))
        for users in without_join(batch, self.study.attribute(attribute_name(batch))):
            yield (users.attribute, users.group), users
        yield count(USED, batch.num_rows)
