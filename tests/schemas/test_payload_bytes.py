"""Payloads that are bytes: the same ones from Avro, Parquet and JSON lines, however they were written."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.mechanisms import LocalHashing, OptimisedUnaryEncoding, SampledCoordinate
from ldpbeam.schemas.reports.casts import cast_column
from ldpbeam.schemas.reports.payloads import bytes_in, payload_column, payloads_in
from ldpbeam.transforms.reports.emitted import BatchCoder

reproducibly = settings(derandomize=True, deadline=None, max_examples=100)
WIDTH = 3
#: What a client may send where three bytes are due, as JSON, Avro or Parquet can say it.
hexadecimal = st.binary(min_size=WIDTH, max_size=WIDTH).flatmap(
    lambda raw: st.sampled_from([raw.hex(), raw.hex().upper(), raw.hex()[:3] + raw.hex()[3:].upper()])
)
TEXTS = (
    "", "abc", "abcde", "abcdef0", "0x1234", "12 456", "gg0000", "00000G", "ééé", "١٢٣", "-12345", "12345\n",
)  # fmt: skip
texts = st.one_of(hexadecimal, hexadecimal, st.sampled_from(TEXTS))
raws = st.one_of(st.binary(min_size=WIDTH, max_size=WIDTH), st.binary(max_size=5))


def meant(value: Any) -> bytes | None:
    """The three bytes a payload stands for, None where it is none."""
    if isinstance(value, bytes):
        return value if len(value) == WIDTH else None
    if isinstance(value, str) and re.fullmatch(r"[0-9a-fA-F]{6}", value):
        return bytes.fromhex(value)
    return None


def found_in(column: pa.Array, width: int = WIDTH) -> list[bytes | None]:
    """The same from a decoded column."""
    rows, fits = bytes_in(column, width)
    assert rows.shape == (len(column), width)
    assert rows.dtype == np.uint8
    assert not rows[~fits].any()
    return [bytes(row) if fit else None for row, fit in zip(rows, fits.tolist(), strict=True)]


KINDS: dict[str, tuple[Any, Any]] = {
    "binary": (pa.binary(), raws),
    "text": (pa.string(), texts),
    "large binary": (pa.large_binary(), raws),
    "large text": (pa.large_string(), texts),
    "view": (pa.string_view(), texts),
    "fixed": (pa.binary(WIDTH), st.binary(min_size=WIDTH, max_size=WIDTH)),
    "other fixed": (pa.binary(WIDTH + 1), st.binary(min_size=WIDTH + 1, max_size=WIDTH + 1)),
}


@pytest.mark.parametrize("kind", KINDS)
@reproducibly
@given(data=st.data())
def test_bytes_are_found_in_a_column_whatever_its_type_nulls_and_offset(
    kind: str, data: st.DataObject
) -> None:
    arrow, each = KINDS[kind]
    values = data.draw(st.lists(st.one_of(each, each, st.none()), max_size=12))
    # As a report's column is decoded.
    column = cast_column("payload", pa.array(values, arrow))
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    assert found_in(column[start:stop]) == [meant(value) for value in values[start:stop]]
    # Chosen rows, as validation takes them.
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=5)) if values else []
    assert found_in(column.take(pa.array(rows, pa.int64()))) == [meant(values[row]) for row in rows]


def test_every_text_of_four_characters_is_two_bytes_or_none() -> None:
    characters = "09afAF/:@G`g\x00"
    values = [a + b + c + d for a in characters for b in characters for c in "0f" for d in characters]
    expected = [bytes.fromhex(value) if re.fullmatch(r"[0-9a-fA-F]{4}", value) else None for value in values]
    assert found_in(pa.array(values), 2) == expected
    every = [f"{number:04x}" for number in range(2**16)]
    assert found_in(pa.array(every), 2) == [number.to_bytes(2, "big") for number in range(2**16)]


DTYPES = {
    "olh": LocalHashing(1.0, size=5).payload_dtype,
    "oue of 3": OptimisedUnaryEncoding(1.0, size=3).payload_dtype,
    "oue of 30": OptimisedUnaryEncoding(1.0, size=30).payload_dtype,
    "vector": np.dtype([("coordinate", "<u4"), ("report", "<f8")]),
    "vector of hashes": SampledCoordinate(1.0, size=2, inner=LocalHashing(1.0, size=5)).payload_dtype,
}


@pytest.mark.parametrize("name", DTYPES)
def test_payloads_pass_through_arrow_and_its_coder_unchanged(name: str) -> None:
    dtype = DTYPES[name]
    raw = np.random.default_rng(1).bytes(20 * dtype.itemsize)
    payloads = np.frombuffer(raw, dtype=dtype)
    parts = {"whole": payloads, "odd ones": payloads[1::2], "reversed": payloads[::-1], "none": payloads[:0]}
    for part in parts.values():
        column = payload_column(part)
        assert column.type == pa.binary(dtype.itemsize)
        assert column.to_pylist() == [one.tobytes() for one in part]
        batch = pa.RecordBatch.from_pydict(
            {"payload": column, "event_time": pa.array([0] * len(part), pa.int64())}
        )
        for same in (column, BatchCoder().decode(BatchCoder().encode(batch)).column("payload")):
            back = payloads_in(same, dtype)
            assert back.dtype == dtype
            assert back.tobytes() == part.tobytes()
    sliced = payload_column(payloads)[3:7]
    assert payloads_in(sliced, dtype).tobytes() == payloads[3:7].tobytes()
    assert (
        payloads_in(payload_column(payloads).take(pa.array([5, 2])), dtype)[1].tobytes()
        == payloads[2].tobytes()
    )


def test_a_field_of_payloads_is_a_column_of_its_own() -> None:
    payloads = np.zeros(4, dtype=DTYPES["vector of hashes"])
    payloads["report"]["seed"] = [1, 2, 3, 4]
    payloads["report"]["hash"] = [4, 3, 2, 1]
    column = payload_column(payloads["report"])
    assert column.to_pylist() == [bytes([i, 0, 0, 0, 5 - i, 0, 0, 0]) for i in range(1, 5)]


def test_numbers_stay_numbers() -> None:
    for values in (np.array([0.5, -1.0]), np.array([3, 2**32 - 1], dtype=np.uint32)):
        column = payload_column(values)
        assert not pa.types.is_fixed_size_binary(column.type)
        np.testing.assert_array_equal(payloads_in(column, values.dtype), values)
