"""Parquet files, a row group at a time."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.encoded import parquet_file

from ldpbeam.schemas.files import parquet
from ldpbeam.schemas.reports.casts import UNREADABLE
from ldpbeam.schemas.reports.columns import Columns

NEW_YEAR = 1_767_225_600_000


def batches(data: bytes, index: int = 0, wanted: Columns | None = None) -> list[pa.RecordBatch]:
    footer = parquet.read_footer(stream := io.BytesIO(data))
    return list(parquet.decode_row_group(stream, footer, index, wanted or Columns()))


def row_groups(data: bytes) -> list[int]:
    return parquet.rows_of(parquet.read_footer(io.BytesIO(data)))


def rows(data: bytes, index: int = 0, wanted: Columns | None = None) -> list[dict[str, Any]]:
    return [row for batch in batches(data, index, wanted) for row in batch.to_pylist()]


def reports(count: int) -> pa.Table:
    users = [f"user{number % 7}" for number in range(count)]
    return pa.table(
        {
            "user_id": users,
            "event_time": pa.array([NEW_YEAR + number for number in range(count)]).cast(
                pa.timestamp("ms", "UTC")
            ),
            "payload": [number / 4 for number in range(count)],
            "colour": [{"red": number} for number in range(count)],
        }
    )


def test_each_row_group_is_read_by_itself_with_its_place() -> None:
    data = parquet_file(reports(25), row_group_size=10)
    assert row_groups(data) == [10, 10, 5]
    found = [row for index in range(3) for row in rows(data, index)]
    assert found == [
        {
            "user_id": b"user%d" % (number % 7), "event_time": NEW_YEAR + number, "payload": number / 4,
            "position": number // 10, "row": number % 10,
        }
        for number in range(25)
    ]  # fmt: skip


def test_a_large_row_group_comes_in_batches_that_count_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BATCH_REPORTS", 4)
    data = parquet_file(reports(10))
    assert [batch.num_rows for batch in batches(data)] == [4, 4, 2]
    assert [row["row"] for row in rows(data)] == list(range(10))
    assert [row["payload"] for row in rows(data)] == [number / 4 for number in range(10)]


def test_nested_and_missing_columns_are_null_row_by_row() -> None:
    data = parquet_file(pa.table({"user_id": [{"id": "ann"}] * 3}))
    assert [(row["user_id"], row["payload"]) for row in rows(data)] == [(None, None)] * 3
    nothing = parquet_file(pa.table({"colour": ["red"] * 3}))
    assert [(row["user_id"], row["row"]) for row in rows(nothing)] == [(None, 0), (None, 1), (None, 2)]


def test_a_nested_column_of_names_is_there_and_unreadable() -> None:
    # Null would say that no report has the field of the study's groups.
    nested = {"region": [["eu"]] * 3, "service": [{"a": "web"}] * 3, "user_id": ["u"] * 3}
    (batch,) = batches(parquet_file(pa.table(nested)), wanted=Columns(None, "web", extras=("region",)))
    assert batch.column("region").to_pylist() == batch.column("service").to_pylist() == [UNREADABLE] * 3


def test_a_file_without_rows_has_no_reports() -> None:
    data = parquet_file(reports(0))
    assert [rows(data, index) for index in range(len(row_groups(data)))] in ([], [[]])


@pytest.mark.parametrize("wrong", [b"", b"PAR1", b"PAR1" * 10, b"Obj\x01" * 10, b'{"user_id":"ann"}\n' * 10])
def test_what_is_no_parquet_file_is_a_value_error(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="no Parquet file: "):
        row_groups(wrong)


def test_a_row_group_whose_pages_are_corrupt_is_a_value_error_and_costs_no_other() -> None:
    data = parquet_file(reports(100), row_group_size=50, compression="gzip")
    column_chunk = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(2)
    at = column_chunk.data_page_offset
    corrupt = data[:at] + b"\xff" * 40 + data[at + 40 :]
    with pytest.raises(ValueError, match="it does not decode: "):
        batches(corrupt, 0)
    assert rows(corrupt, 1) == rows(data, 1)


def test_only_real_duplicates_are_refused_and_named() -> None:
    names = ["payload", "payload.unit", "user_id", "user_id.hash", "colour", "colour"]
    data = parquet_file(pa.Table.from_arrays([pa.array([0.5])] * len(names), names))
    (row,) = rows(data)
    assert (row["user_id"], row["payload"]) == (b"0.5", 0.5)
    twice = pa.Table.from_arrays([pa.array([0.5])] * 4, ["payload", "user_id", "user_id", "user_id.hash"])
    with pytest.raises(ValueError, match=r"decode: duplicate columns: user_id$"):
        rows(parquet_file(twice))


@pytest.mark.parametrize("nested", ["user_id", "hash", "payload.a"])
def test_a_flat_column_is_told_from_a_nested_one_whose_path_is_spelled_alike(nested: str) -> None:
    root, _, leaf = f"{nested}.unit".rpartition(".")
    columns = {
        root: pa.array([{leaf: "m"}]),
        f"{root}.{leaf}": pa.array(["flat"]),
        "payload": pa.array([0.5]),
    }
    wanted = Columns(extras=(f"{root}.{leaf}",), whole=True)
    (batch,) = batches(parquet_file(pa.table(columns)), wanted=wanted)
    assert batch.column(f"{root}.{leaf}").to_pylist() == ["flat"]
    assert batch.column("payload").to_pylist() == [0.5]
    assert batch.column("ldpbeam.record").to_pylist() == [{f"{root}.{leaf}": "flat", "payload": 0.5}]


def test_a_flipped_bit_in_a_footer_s_count_loses_no_rows_unseen() -> None:
    data = parquet_file(reports(250), row_group_size=70)
    # 70 and 40 rows and 250 in all, as the footer has them: zigzag integers of seven bits a byte.
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    written = (b"\x8c\x01", b"\x50", b"\xf4\x03")
    places = [at for at in range(start, len(data) - 8) for text in written if data.startswith(text, at)]
    seen = 0
    for at in places:
        for bit in range(8):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            try:
                groups = row_groups(bytes(damaged))
                found = sum(len(rows(bytes(damaged), index)) for index in range(len(groups)))
            except ValueError:
                seen += 1
                continue
            assert found == 250
    assert seen > 8 * 4


def test_a_machine_without_memory_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    data = parquet_file(reports(3))
    footer = parquet.read_footer(io.BytesIO(data))

    def refuse(*_: Any, **__: Any) -> Any:
        raise pa.ArrowMemoryError("malloc of size 17 failed")

    monkeypatch.setattr(parquet, "opened", refuse)
    with pytest.raises(MemoryError):
        parquet.read_footer(io.BytesIO(data))
    with pytest.raises(MemoryError):
        list(parquet.decode_row_group(io.BytesIO(data), footer, 0, Columns()))
