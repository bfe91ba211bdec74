"""Records as JSON: from columns the same bytes as from each record, which are what dead letters hash."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.transforms.reports.record_texts import record_bytes, record_texts

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.null(): st.none(), pa.bool_(): st.booleans(), pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1), pa.float64(): st.floats(), pa.float32(): st.floats(width=32),
    pa.string(): st.text() | st.text('ab\\"\x7f\né'), pa.binary(): st.binary(),
    pa.binary(3): st.binary(min_size=3, max_size=3), pa.list_(pa.float64()): st.lists(st.floats()),
}  # fmt: skip
NAMES = st.text(min_size=1, max_size=4)


@st.composite
def columns(draw: st.DrawFn) -> dict[str, pa.Array]:
    """Columns of any types, some values missing, as a part of longer ones."""
    rows, before = draw(st.integers(1, 6)), draw(st.integers(0, 2))
    by_name = {}
    for name in draw(st.lists(NAMES, unique=True, max_size=5)):
        kind, values = draw(st.sampled_from(list(VALUES.items())))
        drawn = draw(st.lists(st.none() | values, min_size=before + rows, max_size=before + rows))
        by_name[name] = pa.array(drawn, kind)[before:]
    return by_name or {"x": pa.nulls(rows)}


@settings(max_examples=400, derandomize=True, deadline=None)
@given(columns(), st.dictionaries(NAMES, st.text(), max_size=2))
def test_columns_give_the_bytes_of_each_record(
    given_columns: dict[str, pa.Array], constants: dict[str, str]
) -> None:
    rows = len(next(iter(given_columns.values())))
    records = pa.RecordBatch.from_pydict(given_columns).to_pylist()
    expected = [record_bytes({**constants, **record}) for record in records]
    assert record_texts(given_columns, constants, rows).to_pylist() == expected


def test_a_record_is_canonical_json_without_nulls() -> None:
    record = {"b": b"\x0f", "a": "é", "none": None, "z": [1.5, float("inf")]}
    assert record_bytes(record) == b'{"a": "\\u00e9", "b": "0f", "z": [1.5, Infinity]}'
