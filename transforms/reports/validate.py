"""Validation as a Beam transform: decoded batches become batches of one channel, dead letters and counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.study import Study
from ldpbeam.transforms.reports.dead_letters import PLAIN, Disclosure
from ldpbeam.transforms.reports.emitted import count, emit, parted
from ldpbeam.transforms.reports.ledger_rows import RECEIVED
from ldpbeam.transforms.reports.validation import Validation
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
        validated = self.validation.validate(batch)
        yield from validated.reports
        for rows in validated.received:
            yield beam.pvalue.TaggedOutput(RECEIVED, rows)
        yield from (count(name, reports) for name, reports in validated.counts.items())
        yield from emit(validated.letters, self.disclosure)
