"""A stream's users joined in each window: their reports are state, and what leaves are differences.

A late report moves its user from one cell of the joint histogram to another, which no sum of increments
could say. So a partition of a window keeps its reports, joins them as a batch run would whenever the
window is due, and hands on what its statistics gained and lost since it was due last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.attributes import Attribute
from ldpbeam.statistics import Statistic, difference, empty, merge, tally
from ldpbeam.study import Study
from ldpbeam.transforms.joining.joins import (
    UserReports,
    by_coordinate,
    by_report_id,
    first_of_report_ids,
    join,
    without_join,
)
from ldpbeam.transforms.reports.batches import BatchCoder, attribute_name
from ldpbeam.transforms.reports.counts import (
    COUNTS,
    DUPLICATES,
    IN_WINDOWS,
    LATE,
    LATE_IN_WINDOWS,
    USED,
    count,
)
from ldpbeam.transforms.windows.coders import GroupKey, Statistics, StatisticsCoder
from ldpbeam.transforms.windows.stream_windows import place_and_window, window_key
from ldpbeam.windows import counted_until


class Folded(NamedTuple):
    """What the reports of one partition and window come to.

    Attributes:
        statistics: by attribute and group.
        used: the reports that stand and are counted in this window.
        duplicates: those counted in this window that do not.
        in_window: the reports that stand, wherever they are counted.
    """

    statistics: Statistics
    used: int
    duplicates: int
    in_window: int


def fold(
    study: Study, attribute: Attribute, batches: Sequence[pa.RecordBatch], bounds: tuple[int, int]
) -> Folded:
    """All reports of some users in one window to statistics: what a batch run does in several stages."""
    until = counted_until(study.windows, bounds)
    reports = sum(_before(batch, until) for batch in batches)
    if study.duplicates == "drop":
        batches = _first_of_ids(attribute, batches)
    if study.group_users:
        joined = join(attribute, batches, until)
        rows, used = joined.users, joined.used
    else:
        rows = [users for batch in batches for users in without_join(batch, attribute)]
        used = sum(_before(batch, until) for batch in batches)
    in_window = sum(users.reports for users in rows)
    return Folded(statistics_of(study, attribute, rows), used, reports - used, in_window)


def _first_of_ids(attribute: Attribute, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    sorted_out = [by_report_id(batch) for batch in batches]
    identified = [own for own, _ in sorted_out if own.num_rows]
    first = first_of_report_ids(attribute, identified)[0] if identified else []
    return first + [plain for _, plain in sorted_out if plain.num_rows]


def _before(batch: pa.RecordBatch, until: int) -> int:
    return int((batch.column("event_time").to_numpy() < until).sum())


def statistics_of(study: Study, attribute: Attribute, rows: Iterable[UserReports]) -> Statistics:
    """The statistics of some rows of users, a vector's by coordinate."""
    parts: dict[GroupKey, list[Statistic]] = {}
    for users in rows:
        for part in by_coordinate(attribute, users):
            statistic = tally(study.attribute(part.attribute), part.users, part.answers)
            parts.setdefault(GroupKey((part.attribute, part.group)), []).append(statistic)
    return Statistics({key: merge(own) for key, own in parts.items()})


def gains(study: Study, after: Statistics, before: Statistics) -> Statistics:
    """What each statistic gained and lost, where it did."""
    found = Statistics()
    for key in {**before, **after}:
        nothing = empty(study.attribute(key[0]))
        gain = difference(after.get(key, nothing), before.get(key, nothing))
        if gain != nothing:
            found[key] = gain
    return found


def _by_attribute(statistics: Statistics, bounds: tuple[int, int]) -> Iterator[tuple[str, Statistics]]:
    """(key of attribute and window, the statistics of its groups); a vector has many attributes."""
    found: dict[str, Statistics] = {}
    for key, statistic in statistics.items():
        found.setdefault(key[0], Statistics())[key] = statistic
    for attribute, own in found.items():
        yield window_key(attribute, bounds), own


class JoinStream(beam.PTransform):
    """(key of attribute, partition and window, batch) to gains of the windows' statistics.

    Where the study compares no reports, nothing is kept and every batch is a gain.

    Gives rows of (key of attribute and window, statistics of its groups), and counts.
    """

    def __init__(self, study: Study, partitions: int) -> None:
        super().__init__()
        self.function = _EachAlone(study) if study.duplicates == "keep" else _JoinWindow(study, partitions)

    def expand(self, pieces: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Wire the stage."""
        joined = pieces | "JoinWindows" >> beam.ParDo(self.function).with_input_types(
            tuple[str, pa.RecordBatch]
        ).with_output_types(tuple[str, Statistics]).with_outputs(COUNTS, main="gains")
        return joined.gains, joined[COUNTS]


class _EachAlone(beam.DoFn):
    def __init__(self, study: Study) -> None:
        self.study = study

    def process(self, element: tuple[str, pa.RecordBatch]) -> Iterable[Any]:
        key, batch = element
        attribute = self.study.attribute(attribute_name(batch))
        _, bounds = place_and_window(key)
        folded = fold(self.study, attribute, [batch], bounds)
        yield from _counts(self.study, folded.used, 0, folded.in_window)
        yield from _by_attribute(folded.statistics, bounds)


def _counts(study: Study, used: int, duplicates: int, in_window: int) -> Iterator[Any]:
    if used:
        yield count(USED, used)
    if duplicates:
        yield count(DUPLICATES, duplicates)
    if study.windows and study.windows.slides and in_window:
        yield count(IN_WINDOWS, in_window)


class _Progress(NamedTuple):
    """What a partition of a window has said so far.

    Attributes:
        waiting: reports since it last said anything.
        used: its reports that stand, as said; likewise the two others.
        duplicates: see :class:`Folded`.
        in_window: see :class:`Folded`.
        closed: 1 when later reports are late.
    """

    waiting: int = 0
    used: int = 0
    duplicates: int = 0
    in_window: int = 0
    closed: int = 0


_PROGRESS_CODER = beam.coders.TupleCoder([beam.coders.VarIntCoder()] * len(_Progress._fields))


class _JoinWindow(beam.DoFn):
    """The state of one partition of users of one attribute in one window.

    A timer at the window's end says that it is due; set again after that, it fires at once, so what is late
    is joined a bundle at a time. After the lateness allowed it lets go of the reports. It is one timer, set
    again each time: of several that are due, as when the watermark leaps, engines may fire the later ones
    first.
    """

    REPORTS = BagStateSpec("reports", BatchCoder())
    SAID = ReadModifyWriteStateSpec("said", StatisticsCoder())
    PROGRESS = ReadModifyWriteStateSpec("progress", _PROGRESS_CODER)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, study: Study, partitions: int) -> None:
        assert study.windows is not None
        self.study = study
        self.lateness = study.windows.allowed_lateness
        self.remembered = study.windows.remembered
        early = study.windows.early_reports
        self.early = None if early is None else -(-early // partitions)

    def process(
        self,
        element: tuple[str, pa.RecordBatch],
        reports: Any = beam.DoFn.StateParam(REPORTS),
        said: Any = beam.DoFn.StateParam(SAID),
        progress: Any = beam.DoFn.StateParam(PROGRESS),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[Any]:
        """Keep a batch, unless it is too late."""
        key, batch = element
        _, bounds = place_and_window(key)
        before = _Progress(*(progress.read() or ()))
        if before.closed:
            yield from self._late(batch, bounds)
            return
        reports.add(batch)
        due.set(_seconds(bounds[1]))
        now = before._replace(waiting=before.waiting + batch.num_rows)
        progress.write(now)
        if self.early is not None and now.waiting >= self.early:
            yield from self._say(key, reports, said, progress)

    @on_timer(DUE)
    def on_due(
        self,
        key: str = beam.DoFn.KeyParam,
        time: Timestamp = beam.DoFn.TimestampParam,
        reports: Any = beam.DoFn.StateParam(REPORTS),
        said: Any = beam.DoFn.StateParam(SAID),
        progress: Any = beam.DoFn.StateParam(PROGRESS),
        due: RuntimeTimer = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[Any]:
        """The window has ended, or a report came after that; then none is waited for; then none can come."""
        _, (_, end) = place_and_window(key)
        expired = _seconds(end + self.lateness + 1)
        forgotten = _seconds(end + self.lateness + self.remembered)
        if time >= forgotten:
            progress.clear()
            return
        yield from self._say(key, reports, said, progress)
        if time < expired:
            due.set(expired)
            return
        reports.clear()
        said.clear()
        progress.write(_Progress(closed=1))
        due.set(forgotten)

    def _say(self, key: str, reports: Any, said: Any, progress: Any) -> Iterator[Any]:
        before = _Progress(*(progress.read() or ()))
        if not before.waiting:
            return
        place, bounds = place_and_window(key)
        attribute = self.study.attribute(place.rpartition("/")[0])
        folded = fold(self.study, attribute, list(reports.read()), bounds)
        gain = gains(self.study, folded.statistics, said.read() or Statistics())
        yield from _by_attribute(gain, bounds)
        yield from _counts(
            self.study,
            folded.used - before.used,
            folded.duplicates - before.duplicates,
            folded.in_window - before.in_window,
        )
        said.write(folded.statistics)
        progress.write(_Progress(0, folded.used, folded.duplicates, folded.in_window))

    def _late(self, batch: pa.RecordBatch, bounds: tuple[int, int]) -> Iterator[Any]:
        windows = self.study.windows
        assert windows is not None
        if windows.slides:
            yield count(LATE_IN_WINDOWS, batch.num_rows)
        counted_here = _before(batch, counted_until(windows, bounds))
        if counted_here:
            yield count(LATE, counted_here)


def _seconds(milliseconds: int) -> Timestamp:
    return Timestamp(micros=1000 * milliseconds)
