"""A text that rows of a table repeat is in memory once."""

from __future__ import annotations

import pyarrow as pa

from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.tables import SCHEMAS, share_rows

NAME = pa.dictionary(pa.int32(), pa.string())


def test_a_text_that_rows_repeat_is_in_a_dictionary() -> None:
    texts = {
        (table, field.name) for table, own in SCHEMAS.items() for field in own if field.type == pa.string()
    }
    # Each estimate has details of its own.
    assert texts == {("estimates", "details"), ("estimates", "pair")}
    assert SCHEMAS["distribution"].field("label").type == NAME


def test_a_group_takes_no_memory_for_each_bucket() -> None:
    buckets = 2_000
    record = EstimateRecord(
        study="s", attribute="x", name="all", estimator="ems", services=("a",), group="g" * 100_000,
        reports=1, converged=True, n_iterations=1, pane_index=0, pane_timing="on_time", complete=True,
        distribution=(1 / buckets,) * buckets, bucket_edges=tuple(map(float, range(buckets + 1))),
    )  # fmt: skip
    table = share_rows([record])
    assert (table.num_rows, set(table.column("group").to_pylist())) == (buckets, {"g" * 100_000})
    assert table.get_total_buffer_size() < 2 * 100_000 + 300 * buckets
