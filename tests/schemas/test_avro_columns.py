"""Containers made of columns have the bytes of those that fastavro writes."""

from __future__ import annotations

import io

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from ldpbeam.schemas.encodings import avro_columns
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.encodings.avro_columns import write_columns
from ldpbeam.transforms.reports.dead_letters import SCHEMA

SYNC = bytes(range(16))


def letters(rng: np.random.Generator, rows: int) -> pa.RecordBatch:
    """Dead letters with numbers of all sizes, and texts and bytes of none to many characters."""

    def numbers() -> list[int]:
        return [int(rng.integers(-(2**62), 2**62)) >> int(rng.integers(0, 63)) for _ in range(rows)]

    def texts() -> list[str]:
        return [
            str(rng.choice(["", "é", "a", "\0"])) * int(rng.choice([0, 1, 63, 64, 9_000]))
            for _ in range(rows)
        ]

    columns: dict[str, list[object]] = {
        name: [*numbers()] if SCHEMA.field(name).type == pa.int64() else [*texts()] for name in SCHEMA.names
    }
    columns["record"] = [text.encode() for text in texts()]
    for name in ("position", "row", "record"):
        columns[name] = [None if rng.random() < 0.3 else value for value in columns[name]]
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


@pytest.mark.parametrize("sizes", [[], [0], [1], [3, 0, 40], [200, 1, 1, 700]])
def test_columns_are_written_as_fastavro_writes_their_records(sizes: list[int]) -> None:
    rng = np.random.default_rng(len(sizes))
    batches = [letters(rng, rows) for rows in sizes]
    batches += [batch.slice(batch.num_rows // 3) for batch in batches]
    by_record, by_column = io.BytesIO(), io.BytesIO()
    records = [record for batch in batches for record in batch.to_pylist()]
    fastavro.writer(by_record, schema("dead_letter"), records, codec="deflate", sync_marker=SYNC)
    write_columns(by_column, schema("dead_letter"), batches, SYNC)
    assert by_column.getvalue() == by_record.getvalue()


@pytest.mark.parametrize("bits", range(64))
def test_an_integer_has_the_bytes_of_fastavro_at_each_power_of_two(bits: int) -> None:
    numbers = [number for number in (2**bits - 1, 2**bits, -(2**bits), -(2**bits) - 1) if abs(number) < 2**63]
    for number, encoded in zip(
        numbers, avro_columns._longs(np.array(numbers, np.int64)).to_pylist(), strict=True
    ):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, "long", number)
        assert encoded == stream.getvalue()
