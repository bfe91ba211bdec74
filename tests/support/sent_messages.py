"""Messages of every content type that have the same reports, and what they decode to."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.messages.decode import ARROW, LINES, BadMessage, Message, decode_messages
from ldpbeam.schemas.reports.columns import DELIVERY, NEAR, Columns
from support.encoded import arrow_stream, avro_file

AVRO = "application/avro"
NEW_YEAR = 1_767_225_600_000
REPORT = avro.schema("report")
WANTED = Columns(extras=("app",))


class Found(NamedTuple):
    batches: list[pa.RecordBatch]
    bad: list[BadMessage]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All reports, with what the schema says of their whole batch, by user."""
        constants = [
            {key.decode(): value.decode() for key, value in (batch.schema.metadata or {}).items()}
            for batch in self.batches
        ]
        pairs = zip(constants, self.batches, strict=True)
        rows = [own | row for own, batch in pairs for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: (row["user_id"] or b"", ids_of(row)))

    def column(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows]


def ids_of(row: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The report id and the delivery of a row, which has one of the two."""
    return row.get("report_id") or b"", row.get(DELIVERY) or b""


def read(*given: Message, wanted: Columns = WANTED, **options: Any) -> Found:
    found = Found([], [])
    for item in decode_messages(given, wanted, **options):
        if isinstance(item, BadMessage):
            assert item.reports >= 1
            assert item.problem
            found.bad.append(item)
        else:
            item.validate(full=True)
            assert item.num_rows
            assert item.schema.field("position").type == item.schema.field("row").type == pa.int64()
            for row in item.to_pylist():
                assert (row.get("report_id") is None) != (row.get(DELIVERY) is None)
            names = item.schema.names
            added = NEAR, "position", "row", DELIVERY
            assert names == [name for name in (*wanted.names, *added) if name in names]
            found.batches.append(item)
    return found


def line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode()


def lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(line(record) + b"\n" for record in records)


def container(records: Iterable[Any]) -> bytes:
    """An Avro file, which is no message."""
    return avro_file(REPORT, records)


def single_object(record: Any, schema: Any = REPORT) -> bytes:
    fastavro.schemaless_writer(stream := io.BytesIO(), schema, record)
    return b"\xc3\x01" + crc_64_avro(schema) + stream.getvalue()


def crc_64_avro(schema: Any) -> bytes:
    """The fingerprint as the Avro specification's pseudocode has it, in the order of bytes of a message."""
    value = empty = 0xC15D213AA4D7A795
    for byte in fastavro.schema.to_parsing_canonical_form(schema).encode():
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (empty & -(value & 1))
    return value.to_bytes(8, "little")


def table(records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(record) for record in records])


def records(count: int) -> list[dict[str, Any]]:
    return [
        {
            "user_id": str(uuid.UUID(int=2**100 + number)),
            "event_time": NEW_YEAR + number,
            "payload": number / 4,
            "report_id": str(uuid.UUID(int=7 * number + 1)),
        }
        for number in range(count)
    ]


MAPS = {"attribute": "minutes", "service": "maps"}
TEN = records(10)
OWN = [record | MAPS for record in TEN]
WITHOUT_ID = [{name: value for name, value in record.items() if name != "report_id"} for record in TEN]
BATCHES = {
    "lines": (lines(WITHOUT_ID), LINES),
    "stream": (arrow_stream(table(WITHOUT_ID)), ARROW),
    "stream of parts": (arrow_stream(*(table(WITHOUT_ID).slice(at, 3) for at in range(0, 10, 3))), ARROW),
}
ANN = b'{"user_id": "ann", "payload": 0.5}'
PRETTY = json.dumps({"user_id": "ann", "payload": 0.5, "x": {"y": [1, 2]}}, indent=2).encode()
OBJECT = single_object(OWN[0])
