"""From decoded batches of reports to the statistics of windows: the graphs that Beam runs.

``ldpbeam estimate`` on an engine and :class:`ldpbeam.beam.Estimate` of a bounded collection use
:class:`BatchStatistics`; ``Estimate`` of an unbounded one uses :class:`StreamStatistics`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.ledger_parts import Keeping
from ldpbeam.transforms.outputs.on_engines import WriteReceived
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import DEAD, PLAIN, Disclosure
from ldpbeam.transforms.reports.emitted import count, emit, parted
from ldpbeam.transforms.reports.ledger_rows import RECEIVED
from ldpbeam.transforms.reports.validation import Validation
from ldpbeam.transforms.windows.bounded import Aggregate, DropDuplicateIds, FoldBatch
from ldpbeam.transforms.windows.panes import Panes
from ldpbeam.transforms.windows.split import inside
from ldpbeam.transforms.windows.unbounded import FoldStream
from ldpbeam.windows import EVERYTHING, Span


class ValidateReports(beam.PTransform):
    """Check decoded batches and cut them into batches of one channel.

    Reports outside the span are dropped and counted; those with a report id that is compared are dropped
    later, by :class:`LeaveOutside`.

    Outputs: batches of one channel (``reports``, the main one), dead letters (``DEAD``), and counts. With the
    key of a ledger over periods also its rows (``RECEIVED``).
    """

    def __init__(
        self,
        study: Study,
        *,
        span: Span = EVERYTHING,
        disclosure: Disclosure = PLAIN,
        ledger_key: bytes | None = None,
    ) -> None:
        super().__init__()
        self.function = _Validate(study, span, disclosure, ledger_key)
        self.others = () if ledger_key is None else (RECEIVED,)

    def expand(self, decoded: beam.PCollection[pa.RecordBatch]) -> beam.pvalue.DoOutputsTuple:
        """Validate every decoded batch by itself."""
        return decoded | "Validate" >> parted(self.function, "reports", *self.others)


class _Validate(beam.DoFn):
    def __init__(self, study: Study, span: Span, disclosure: Disclosure, ledger_key: bytes | None) -> None:
        self.validation = Validation(study, span, disclosure, ledger_key)
        self.disclosure = disclosure

    def process(self, batch: pa.RecordBatch) -> Iterable[Any]:
        for validated in self.validation.in_parts(batch):
            yield from validated.reports
            for rows in validated.received:
                yield beam.pvalue.TaggedOutput(RECEIVED, rows)
            yield from (count(name, reports) for name, reports in validated.counts.items())
            yield from emit(validated.letters, self.disclosure)


class Counted(NamedTuple):
    """Statistics, and what became of the reports.

    Attributes:
        snapshots: an attribute with its snapshots in one window, or in one pane of it.
        dead_letters: batches of ``dead_letter.avsc``.
        counts: a name, and reports.
    """

    snapshots: beam.PCollection[tuple[str, list[Snapshot]]]
    dead_letters: beam.PCollection[pa.RecordBatch]
    counts: beam.PCollection[tuple[str, int]]


@dataclass(eq=False)
class BatchStatistics(beam.PTransform):
    """Validate decoded batches, drop duplicates, join users, and add up by window and group.

    Attributes:
        study: the study.
        shards: the number of shards of users; results do not depend on it.
        span: reports outside are out of range, and only the windows inside are counted.
        disclosure: what dead letters may reveal, with the HMAC key for user ids.
        ledger: where the rows of the ledger over periods go; None for nowhere.
    """

    study: Study
    shards: int
    span: Span = EVERYTHING
    disclosure: Disclosure = PLAIN
    ledger: Keeping | None = None

    def expand(self, decoded: beam.PCollection[pa.RecordBatch]) -> Counted:
        """Wire the stages; every report is in the counts of one of them."""
        study, span = self.study, self.span
        validated = decoded | "Validate" >> ValidateReports(
            study, span=span, disclosure=self.disclosure, ledger_key=self.ledger.key if self.ledger else None
        )
        if self.ledger is not None:
            # What was received, before anything is dropped.
            _ = validated[RECEIVED] | "WriteReceived" >> beam.ParDo(WriteReceived(self.ledger))
        counts = [validated[COUNTS]]
        reports: tuple[beam.PCollection[pa.RecordBatch], ...] = (validated.reports,)
        if study.duplicates == "drop":
            plain, first, repeats = validated.reports | "DropDuplicateIds" >> DropDuplicateIds(
                study, self.shards
            )
            counts.append(repeats)
            # Drop reports outside the span after duplicates: one outside can make one inside a duplicate.
            # Of those without an id, none is left that lies outside.
            if span.bounded:
                in_span = first | "InSpan" >> beam.FlatMap(inside, span).with_outputs(
                    COUNTS, main="inside"
                ).with_output_types(pa.RecordBatch)
                first = in_span.inside
                counts.append(in_span[COUNTS])
            reports = plain, first
        statistics, folded = reports | "GroupUsers" >> FoldBatch(study, self.shards, span)
        counts.append(folded)
        snapshots = statistics | "Aggregate" >> Aggregate(study)
        return Counted(snapshots, validated[DEAD], tuple(counts) | "Counts" >> beam.Flatten())


@dataclass(eq=False)
class StreamStatistics(beam.PTransform):
    """Validate decoded batches, join the users of each window in state, and fire the panes of the windows.

    Attributes:
        study: the study; it has windows.
        shards: the number of shards of users; results do not depend on it.
        disclosure: what dead letters may reveal, with the HMAC key for user ids.
    """

    study: Study
    shards: int
    disclosure: Disclosure = PLAIN

    def expand(self, decoded: beam.PCollection[pa.RecordBatch]) -> Counted:
        """Wire the stages; every report is in the counts of one of them."""
        validated = decoded | "Validate" >> ValidateReports(self.study, disclosure=self.disclosure)
        gains, folded = validated.reports | "GroupUsers" >> FoldStream(self.study, self.shards)
        panes = gains | "Panes" >> Panes(self.study)
        counts = (validated[COUNTS], folded) | "Counts" >> beam.Flatten()
        return Counted(panes, validated[DEAD], counts)
