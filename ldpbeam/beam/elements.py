"""Elements of a user's pipeline become decoded batches, like those from a file of reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.beam.messages import BATCH_BYTES, message_of
from ldpbeam.schemas.encodings.avro_blocks import CORRUPT_BLOCK
from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.messages.decode import together
from ldpbeam.schemas.reports.columns import (
    ATTRIBUTE_KEY,
    SERVICE_KEY,
    STAMP_KEYS,
    Columns,
    decoded,
    text_of,
    whole_of,
    with_most_letters,
)
from ldpbeam.schemas.reports.records import by_payload, columns_of
from ldpbeam.transforms.reports.counts import IN
from ldpbeam.transforms.reports.dead_letters import DeadLetter, Disclosure
from ldpbeam.transforms.reports.emitted import count, emit_decoded, parted
from ldpbeam.transforms.reports.record_texts import record_bytes
from ldpbeam.transforms.sources.poll_batches import batches_of

#: Records and messages are gathered until there are this many, or the bundle ends.
GATHERED = 10_000


class DecodeElements(beam.PTransform):
    """Decode dicts, Beam Rows (or any named tuples), Arrow RecordBatches and messages.

    Records and messages of a bundle are gathered into batches. The windows of the elements do not count,
    because the study has its own.

    Outputs: decoded batches (``decoded``, the main one), dead letters (``DEAD``) of messages, and counts.

    Args:
        columns: the columns of reports that the study needs.
        stamped: whether an element's timestamp is its event time, whatever its fields say.
        disclosure: what dead letters may reveal about their inputs.
    """

    def __init__(self, columns: Columns, stamped: bool, disclosure: Disclosure) -> None:
        super().__init__()
        self.function = _Decode(columns, stamped, disclosure)

    def expand(self, reports: beam.PCollection[Any]) -> beam.pvalue.DoOutputsTuple:
        """Drop the windows of the elements, and decode each bundle."""
        left = reports | "LeaveWindows" >> beam.WindowInto(GlobalWindows())
        return left | "Decode" >> parted(self.function, "decoded")


class _Decode(beam.DoFn):
    def __init__(self, columns: Columns, stamped: bool, disclosure: Disclosure) -> None:
        self.columns = columns
        self.stamped = stamped
        self.disclosure = disclosure
        self.event_time = columns.fields["event_time"]

    def start_bundle(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._records: list[Mapping[str, Any]] = []
        #: By source, and whether that may deliver a message twice.
        self._messages: dict[tuple[str, bool], list[Message]] = {}
        self._count = self._bytes = 0
        self._earliest: Timestamp | None = None

    def process(self, element: Any, time: Timestamp = beam.DoFn.TimestampParam) -> Iterable[Any]:
        if isinstance(element, pa.RecordBatch):
            yield from emit_decoded([self._of_batch(element, time)], self.disclosure)
            return
        arrived = message_of(element)
        if arrived is None:
            self._records.append(self._record(element, time))
        else:
            if self.stamped:
                raise TypeError("event_time=None: an element is a message, whose reports have event times")
            self._messages.setdefault((arrived.source, arrived.repeats), []).append(arrived.message)
            self._bytes += len(arrived.message.data)
        self._count += 1
        self._earliest = time if self._earliest is None else min(self._earliest, time)
        if self._count >= GATHERED or self._bytes >= BATCH_BYTES:
            yield from self.finish_bundle()

    def finish_bundle(self) -> Iterator[Any]:
        at = self._earliest
        for output in self._gathered():
            tagged = isinstance(output, beam.pvalue.TaggedOutput)
            value = WindowedValue(output.value if tagged else output, at, [GlobalWindow()])
            yield beam.pvalue.TaggedOutput(output.tag, value) if tagged else value

    def _record(self, element: Any, time: Timestamp) -> Mapping[str, Any]:
        """The fields of an element, with its event time in milliseconds or unchanged."""
        record = fields_of(element)
        given = time if self.stamped else record.get(self.event_time)
        return {**record, self.event_time: milliseconds_of(given)} if isinstance(given, Timestamp) else record

    def _gathered(self) -> Iterator[Any]:
        """The decoded records and messages gathered so far, and counts; they are then forgotten."""
        records, messages = self._records, self._messages
        self._clear()
        for (source, repeats), gathered in messages.items():
            for batch, _ in batches_of(source, self.columns, together(gathered, deliveries=repeats)):
                yield from emit_decoded([*batch.batches, *batch.letters], self.disclosure)
        if not records:
            return
        yield count(IN, len(records))
        for rows in by_payload(records, self.columns.fields["payload"]):
            chosen = [records[row] for row in rows.tolist()]
            nowhere = pa.nulls(len(chosen), pa.int64())
            yield decoded(
                columns_of(chosen, self.columns.fields, self.columns.clock),
                self.columns,
                {},
                nowhere,
                nowhere,
                chosen.__getitem__,
                pa.array(map(record_bytes, chosen), pa.binary()) if self.columns.whole else None,
            )

    def _of_batch(self, batch: pa.RecordBatch, time: Timestamp) -> pa.RecordBatch | DeadLetter:
        try:
            # Anybody may have sent it, and taking its values would end the process.
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            problem = f"a RecordBatch is not valid: {error}"
            return DeadLetter("", None, None, CORRUPT_BLOCK, problem, max(1, batch.num_rows), b"")
        size = batch.nbytes + batch.schema.serialize().size
        for field in self.columns.fields.values():
            if batch.schema.names.count(field) > 1:
                raise ValueError(f"a RecordBatch has several columns {field!r}: leave one")
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        whole = whole_of(columns, self.columns.fields["payload"]) if self.columns.whole else None
        if self.stamped:
            columns[self.event_time] = pa.array(np.full(batch.num_rows, milliseconds_of(time)))
        metadata = {key: text for key, text in text_of(batch.schema.metadata).items() if key in _KEPT}
        nowhere = pa.nulls(batch.num_rows, pa.int64())
        reports = decoded(
            columns, self.columns, metadata, nowhere, nowhere, lambda _: batch.schema.names, whole
        )
        return with_most_letters(reports, batch.num_rows, size)


#: The metadata about how a batch's reports were made, as in a file of reports.
_KEPT = (ATTRIBUTE_KEY, SERVICE_KEY, *STAMP_KEYS)


def fields_of(element: Any) -> Mapping[str, Any]:
    """The fields of a dict, a Beam Row or another named tuple.

    Raises:
        TypeError: if it has no fields.
    """
    if isinstance(element, dict):
        return element
    fields = getattr(element, "_asdict", None)
    if fields is None:
        raise TypeError(
            f"an element is of type {type(element).__name__}: give dicts, Beam Rows, or (of reports) Arrow "
            "RecordBatches or messages"
        )
    fields_by_name: Mapping[str, Any] = fields()
    return fields_by_name


def milliseconds_of(time: Timestamp) -> int:
    """A timestamp of Beam as epoch milliseconds."""
    return int(time.micros // 1000)
