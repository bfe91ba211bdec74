"""A file of the ledger over periods is read as it was written under its name, or refused."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from ldpbeam.schemas.outputs import ledger_format
from ldpbeam.schemas.outputs.ledger_format import (
    RECEIVED_SCHEMA,
    About,
    read_about,
    read_rows,
    sums_schema,
    write_rows,
)

ABOUT = About("study", "key", written=7, rows=24, windows=(1, 2), files=(("received-1.arrow", 3),))
NAME = "folder/received-1.arrow"
SUMS = sums_schema(2)
SCHEMAS = pytest.mark.parametrize("schema", [RECEIVED_SCHEMA, SUMS], ids=["received", "sums"])


@pytest.fixture(autouse=True)
def few_rows_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_format, "BATCH_ROWS", 9)


def rows_of(schema: pa.Schema, seed: int = 1) -> pa.RecordBatch:
    """24 rows, which are three batches of a file, before the empty one."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(1, 9, 24).astype(field.type.to_pandas_dtype()) for field in schema]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)


def written(rows: pa.RecordBatch, about: About = ABOUT, name: str = NAME) -> bytes:
    stream = io.BytesIO()
    write_rows(stream, name, rows.schema, about, [rows])
    return stream.getvalue()


def read(data: bytes, schema: pa.Schema, name: str = NAME) -> tuple[About, pa.Table]:
    """What is read of a file: what it says of itself, and its rows."""
    batches = list(read_rows(io.BytesIO(data), name, schema))
    return read_about(io.BytesIO(data), name, schema), pa.Table.from_batches(batches, schema)


@SCHEMAS
def test_a_file_has_all_rows_in_their_order(schema: pa.Schema) -> None:
    rows = rows_of(schema)
    assert read(written(rows), schema) == (ABOUT, pa.Table.from_batches([rows]))


@SCHEMAS
def test_a_flipped_bit_in_every_other_byte_is_refused_or_changes_nothing(schema: pa.Schema) -> None:
    whole = written(rows_of(schema))
    places = range(schema is SUMS, len(whole), 2)
    wanted, refused = read(whole, schema), 0
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << place // 2 % 8
        try:
            assert read(bytes(data), schema) == wanted, f"byte {place}"
        except ValueError as error:
            assert str(error).startswith("damaged, or not what was written under this name")
            refused += 1
    # Nobody reads the padding, nor the copy of the schema at the start.
    assert refused > 0.4 * len(places)


@SCHEMAS
def test_a_cut_file_is_refused(schema: pa.Schema) -> None:
    whole = written(rows_of(schema))
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="damaged"):
            read_about(io.BytesIO(whole[:length]), NAME, schema)


def test_another_file_under_the_name_is_refused() -> None:
    ours, sums = rows_of(RECEIVED_SCHEMA), rows_of(SUMS)
    assert read(written(ours), RECEIVED_SCHEMA) == read(
        written(ours), RECEIVED_SCHEMA, name="elsewhere/received-1.arrow"
    )
    with pytest.raises(ValueError, match="restore it from a copy"):
        read_about(io.BytesIO(written(ours, name="folder/received-2.arrow")), NAME, RECEIVED_SCHEMA)
    # Rows of one run under the end of another's file, which says when it was written.
    later = written(ours, replace(ABOUT, written=8))
    with pytest.raises(ValueError, match="damaged"):
        read(written(ours)[:-2_000] + later[-2_000:], RECEIVED_SCHEMA)
    with pytest.raises(ValueError, match="delete it: it is rebuilt"):
        read(written(ours), SUMS)
    with pytest.raises(ValueError, match="restore it from a copy"):
        read(written(sums), RECEIVED_SCHEMA)


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 1, 2, 2, 3), (0, 1, 2), (0,), ()])
def test_batches_in_another_order_and_missing_ones_are_refused(order: tuple[int, ...]) -> None:
    reader, stream = pa.ipc.open_file(written(rows_of(RECEIVED_SCHEMA))), io.BytesIO()
    with pa.ipc.new_file(stream, reader.schema) as writer:
        for number in order:
            writer.write_batch(*reader.get_batch_with_custom_metadata(number))
    with pytest.raises(ValueError, match="damaged"):
        read(stream.getvalue(), RECEIVED_SCHEMA)


def test_a_file_of_a_newer_format_says_so() -> None:
    newer = replace(ABOUT, format=ledger_format.FORMAT + 1)
    with pytest.raises(ValueError, match=r"a newer version of ldpbeam wrote it \(format 3\): update ldpbeam"):
        read_about(io.BytesIO(written(rows_of(RECEIVED_SCHEMA), newer)), NAME, RECEIVED_SCHEMA)
