"""Footers and page headers, as our own reader sees them."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.parquet_bytes import I32, STRUCT, struct

from ldpbeam.schemas.encodings import parquet_pages, thrift


def test_a_footer_says_what_arrow_reads_in_it() -> None:
    stream = io.BytesIO()
    table = pa.table(
        {"user_id": ["ann", "bob"] * 50, "other": [{"a": 1, "b": [2]}] * 100, "payload": np.ones(100)}
    )
    pq.write_table(table, stream, row_group_size=40)
    footer, metadata = parquet_pages.read_footer(stream), pq.ParquetFile(stream).metadata
    assert footer.rows == (40, 40, 20)
    assert [leaf.name for leaf in footer.leaves] == [metadata.schema.column(at).path for at in range(4)]
    assert [leaf.flat for leaf in footer.leaves] == [True, False, False, True]
    for index, chunks in enumerate(footer.chunks):
        for at, chunk in enumerate(chunks):
            column = metadata.row_group(index).column(at)
            assert chunk.size == column.total_compressed_size
            assert chunk.values == column.num_values
            assert chunk.start == column.dictionary_page_offset


def test_pages_have_the_values_of_their_column() -> None:
    stream = io.BytesIO()
    users = [f"user{number}" for number in range(50_000)]
    pq.write_table(pa.table({"user_id": users}), stream, use_dictionary=False, data_page_size=2**14)
    footer = parquet_pages.read_footer(stream)
    pages = parquet_pages.read_pages(stream, footer.chunks[0][0], footer.leaves[0])
    assert pages.values.sum() == 50_000
    assert len(pages.values) > 20
    assert pages.dictionary == 0
    some = [parquet_pages.most_bytes(footer.leaves[0], pages, 0, rows) for rows in (1, 1_000, 10_000, 50_000)]
    assert some == sorted(some)
    assert some[0] == pages.plain.max()
    assert some[-1] == pages.plain.sum()


def test_an_encrypted_file_is_said_to_be_one() -> None:
    with pytest.raises(ValueError, match="it is encrypted"):
        parquet_pages.read_footer(io.BytesIO(b"PAR1" + bytes(20) + b"PARE"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends too early"),
        (b"\x15", "ends too early"),
        (b"\x18\xff\xff\x03ann\0", "ends too early"),
        (
            struct({1: (I32, 1)})[:-1] + struct({1: (I32, 2)})[:1].replace(b"\x15", b"\x05") + b"\x02\x04\0",
            "order",
        ),
        (b"\x15" + b"\xff" * 10 + b"\x01\0", "too many bytes"),
        (b"\x15\xff\xff\xff\xff\x1f\0", "more than 32 bits"),
        (b"\x1d\0", "unknown type 13"),
        (b"\x1c" * 100, "too deep"),
        (b"\x19" * 5000, "too deep"),
        (b"\x1b" + b"\1\xbb" * 5000, "too deep"),
        (b"\x19\xf5\xff\xff\xff\x7f\0", "too many parts"),
    ],
)
def test_a_malformed_struct_is_a_value_error(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        thrift.read_struct(data)


def test_a_field_of_another_type_is_a_value_error() -> None:
    found, length = thrift.read_struct(struct({1: (I32, -7), 3: (STRUCT, struct({2: (I32, 5)}))}) + b"more")
    assert length == 7
    assert thrift.field(found, 1, thrift.I32) == -7
    assert thrift.field(thrift.field(found, 3, thrift.STRUCT), 2, thrift.I32) == 5
    assert thrift.field(found, 2, thrift.I32) is None
    with pytest.raises(ValueError, match="field 1"):
        thrift.field(found, 1, thrift.I64)
