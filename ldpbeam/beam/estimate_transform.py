"""``reports | Estimate(study)``, and ``Statistics``, which stops before the estimates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam

from ldpbeam.beam import rows
from ldpbeam.beam.elements import DecodeElements
from ldpbeam.beam.read import ReportsRead
from ldpbeam.beam.solve_windows import Solve
from ldpbeam.library.study import study_of
from ldpbeam.schemas.outputs.rows import EstimateRow, ShareRow
from ldpbeam.schemas.outputs.snapshots import EARLY
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import check_tables
from ldpbeam.transforms.reports.counts import COMPUTED_FROM, COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, disclosure_for
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.statistics import BatchStatistics, Counted, StreamStatistics
from ldpbeam.transforms.windows import MOST_SHARDS
from ldpbeam.transforms.windows import SHARDS as STREAM_SHARDS
from ldpbeam.transforms.windows.cut import check_overlap

EVENT_TIME = "event_time"
#: The default number of shards of users of a bounded collection.
BATCH_SHARDS = 64


class Estimated(NamedTuple):
    """The output of :class:`Estimate`; nothing is written.

    Attributes:
        estimates: :class:`EstimateRow`, one per attribute, window, group, estimate, and pane of a stream.
        shares: :class:`ShareRow`, one per bucket, category or key of each estimate.
        statistics: :class:`StatisticRow`, one per attribute, window, group, and pane of a stream.
        dead_letters: :class:`DeadLetterRow`, one per input that could not be used.
        counts: :class:`CountRow`: one per name for a bounded collection, increments for a stream.
    """

    estimates: beam.PCollection[EstimateRow]
    shares: beam.PCollection[ShareRow]
    statistics: beam.PCollection[rows.StatisticRow]
    dead_letters: beam.PCollection[rows.DeadLetterRow]
    counts: beam.PCollection[rows.CountRow]

    def as_dicts(self) -> Estimated:
        """The same collections with every row as a dict of JSON values, for ``WriteToBigQuery``.

        Each call adds steps with the same names to the pipeline: call it once, and keep the result.
        """
        return Estimated(*map(_as_dicts, self))


class Tallied(NamedTuple):
    """The output of :class:`Statistics`: that of :class:`Estimate` without estimates and shares."""

    statistics: beam.PCollection[rows.StatisticRow]
    dead_letters: beam.PCollection[rows.DeadLetterRow]
    counts: beam.PCollection[rows.CountRow]

    def as_dicts(self) -> Tallied:
        """The same collections with every row as a dict of JSON values."""
        return Tallied(*map(_as_dicts, self))


def _as_dicts(collection: beam.PCollection[Any]) -> beam.PCollection[dict[str, Any]]:
    # Labels in a pipeline are unique, so this one names the transform that made the rows.
    label = f"{collection.producer.full_label}[{collection.tag or ''}]".replace("/", " ")
    return collection | f"{label} as dicts" >> beam.Map(rows.as_dict).with_output_types(dict[str, Any])


def _renamed(columns: Mapping[str, str] | None, event_time: str | None) -> Mapping[str, str]:
    """The renamed columns with the field of event times.

    Raises:
        ValueError: if both arguments name that field.
    """
    given = dict(columns or {})
    if event_time == EVENT_TIME:
        return given
    if EVENT_TIME in given:
        raise ValueError(
            f"columns: the field of event times is {given[EVENT_TIME]!r} there; leave out "
            f"event_time={event_time!r}"
        )
    return given if event_time is None else {**given, EVENT_TIME: event_time}


class _OfReports(beam.PTransform):
    """From reports to the statistics of windows."""

    def __init__(
        self,
        study: Study | str | os.PathLike[str] | Mapping[str, Any],
        *,
        attribute: str | None = None,
        service: str | None = None,
        columns: Mapping[str, str] | None = None,
        event_time: str | None = EVENT_TIME,
        shards: int | None = None,
        user_id_key: bytes | None = None,
        keep_bad_records: bool = False,
    ) -> None:
        super().__init__()
        self.study = study_of(study)
        self.columns = checked_columns(
            self.study, attribute, service, whole=keep_bad_records, renamed=_renamed(columns, event_time)
        )
        self.event_time = event_time
        self.shards = shards
        if shards is not None and not 1 <= shards <= MOST_SHARDS:
            raise ValueError(f"shards={shards}: from 1 to {MOST_SHARDS}")
        self.disclosure = disclosure_for(self.study, keep_bad_records, user_id_key)
        check_tables(self.study)

    def _counted(self, reports: Any) -> Counted:
        """Decode reports that were not read by ReadReports, and count them in windows."""
        if isinstance(reports, Mapping):
            read = ReportsRead(**reports)
        elif isinstance(reports, tuple):
            read = ReportsRead(*reports)
        else:
            stamped = self.event_time is None
            elements = reports | "Elements" >> DecodeElements(self.columns, stamped, self.disclosure)
            read = ReportsRead(elements.decoded, elements[DEAD], elements[COUNTS])
        counted: Counted = read.reports | "Statistics" >> self._statistics(read.reports.is_bounded)
        dead = (read.dead_letters, counted.dead_letters) | "DeadLetters" >> beam.Flatten()
        return Counted(counted.snapshots, dead, (read.counts, counted.counts) | "Counts" >> beam.Flatten())

    def _statistics(self, bounded: bool) -> beam.PTransform:
        study = self.study
        if bounded:
            if study.group_users:
                check_overlap(study.windows)
            return BatchStatistics(study, self.shards or BATCH_SHARDS, disclosure=self.disclosure)
        if study.windows is None:
            raise ValueError(
                f"study {study.name!r} has no windows, and the reports are unbounded: a stream needs "
                "windows, as in windows: {size: 1h}"
            )
        return StreamStatistics(study, self.shards or STREAM_SHARDS, disclosure=self.disclosure)

    def _about(self, counted: Counted) -> dict[str, beam.PCollection[Any]]:
        """The rows of statistics, dead letters and counts."""
        study, counts = self.study, counted.counts
        if counts.is_bounded:
            counts = counts | "AddUp" >> beam.CombinePerKey(sum)
        return {
            "statistics": counted.snapshots
            | "Snapshots" >> beam.FlatMapTuple(lambda _, snapshots: _complete(snapshots))
            | "StatisticRows"
            >> beam.Map(lambda snapshot: rows.statistic_row(study, snapshot)).with_output_types(
                rows.StatisticRow
            ),
            "dead_letters": counted.dead_letters
            | "DeadLetterRows" >> beam.FlatMap(rows.dead_letter_rows).with_output_types(rows.DeadLetterRow),
            "counts": counts
            | "Shown" >> beam.Filter(lambda count: not count[0].startswith(COMPUTED_FROM))
            | "CountRows" >> beam.MapTuple(rows.CountRow).with_output_types(rows.CountRow),
        }


class Estimate(_OfReports):
    """Every estimate that a study asks for, from a collection of reports.

    The elements are dicts, Beam Rows, Arrow RecordBatches, messages (``PubsubMessage``, the output of
    ``ReadFromKafka``, or bytes), or the output of :class:`ReadReports`. A bounded collection is estimated as
    by ``ldpbeam estimate``, and an unbounded one as by ``ldpbeam stream``: every pane of a window gives rows,
    and the watermark of the collection decides when a window ends. The windows are those of the study,
    whatever windows the elements have. The output is :class:`Estimated`.

    Args:
        study: a :class:`ldpbeam.Study`, the path or the text of a study file, or a mapping with its keys.
        attribute: the attribute of reports that do not name one; by default the study's, if it has only one.
        service: the service of reports that do not name one; by default the study's, if it has only one.
        columns: the names of fields in elements, by our column names, where they differ:
            ``{"user_id": "uid"}``. The output of :class:`ReadReports` has our names.
        event_time: the field with the event time, which ``columns`` may name instead; None to use each
            element's timestamp.
        shards: the number of shards of users, on which results do not depend; by default 64, or 8 for a
            stream. A shard's reports must fit into a worker's memory.
        user_id_key: a key of 16 bytes or more; user ids are replaced by their HMAC with it.
        keep_bad_records: whether dead letters contain the whole record.

    Raises:
        ldpbeam.StudyError: if the study is invalid.
        ValueError: if an argument does not fit the study, a part of the study would take hours to compute, or
            the collection is unbounded and the study has no windows.
        ldpbeam.errors.UserError: if the study's candidates cannot be read here.
    """

    def expand(self, reports: Any) -> Estimated:
        """Count the reports, solve each window, and make rows."""
        counted = self._counted(reports)
        solved, unsolved = counted.snapshots | "Solve" >> Solve(self.study)
        counts = (counted.counts, unsolved) | "AllCounts" >> beam.Flatten()
        records = solved | "Estimates" >> beam.Map(lambda pane: _complete(pane.estimates))
        answers = records | "EstimateRows" >> beam.FlatMap(rows.estimate_rows).with_output_types(EstimateRow)
        shares = records | "ShareRows" >> beam.FlatMap(rows.share_rows).with_output_types(ShareRow)
        return Estimated(estimates=answers, shares=shares, **self._about(counted._replace(counts=counts)))


class Statistics(_OfReports):
    """The mergeable statistics of a study, from a collection of reports; :class:`Estimate` also has them.

    They are exact integers: :func:`ldpbeam.merge` adds up those of several days or pipelines for estimates.
    The output is :class:`Tallied`. The arguments are those of :class:`Estimate`.
    """

    def expand(self, reports: Any) -> Tallied:
        """Count the reports, and make rows."""
        return Tallied(**self._about(self._counted(reports)))


def _complete(of_pane: list[Any]) -> list[Any]:
    """Estimates or snapshots; those of an early pane are not complete."""
    return [replace(one, complete=one.pane_timing != EARLY) for one in of_pane]
