"""Whatever Arrow streams, Parquet files, and JSON lines say, decoding adds at most 512 MB in linear time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.bounded import Decoded, bounded, decode_file, decode_message
from support.encoded import arrow_stream

ARROW, LINES = "application/vnd.apache.arrow.stream", "application/x-ndjson"


def as_message(data: bytes, content_type: str, folder: Path) -> Decoded:
    (folder / "message").write_bytes(data)
    return bounded(decode_message, folder / "message", content_type)


def repeated(count: int, size: int) -> pa.Array:
    """A column that is one long id, in a dictionary."""
    indices = pa.array(np.zeros(count, dtype=np.int8))
    return pa.DictionaryArray.from_arrays(indices, pa.array(["a" * size]))


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_buffers_of_an_unused_column_are_not_a_gigabyte(codec: str, tmp_path: Path) -> None:
    batch = pa.record_batch(
        {"payload": np.zeros(10), "unused": [np.zeros(0)] * 9 + [np.zeros(2**27 + 2**24)]}
    )
    found = as_message(arrow_stream(batch, compression=codec), ARROW, tmp_path)
    assert (found.reports, found.bad) == (0, {"bad_message": 1})
    assert "its buffers would be more than 128 MB" in found.problems[0]


def test_a_dictionary_of_ids_is_measured_before_it_is_expanded(tmp_path: Path) -> None:
    whole = pa.record_batch({"user_id": repeated(1000, 10)})
    data = arrow_stream(whole, pa.record_batch({"user_id": repeated(400_000, 12_000)}))
    found = as_message(data, ARROW, tmp_path)
    assert (found.reports, found.bad) == (0, {"corrupt_block": 1}) or found.reports == 1000
    assert "would be more than 128 MB" in found.problems[0]
    found = as_message(arrow_stream(pa.record_batch({"user_id": repeated(400_000, 100)})), ARROW, tmp_path)
    assert found == Decoded(400_000, {}, 0, [])


def test_views_of_the_same_bytes_are_measured_before_they_are_copied(tmp_path: Path) -> None:
    size, count = 4_000_000, 100_000
    view = size.to_bytes(4, "little") + b"aaaa" + bytes(8)
    buffers = [None, pa.py_buffer(view * count), pa.py_buffer(b"a" * size)]
    users = pa.Array.from_buffers(pa.binary_view(), count, buffers)
    found = as_message(arrow_stream(pa.record_batch({"user_id": users})), ARROW, tmp_path)
    assert found.reports == 0
    assert "would be more than 128 MB" in found.problems[0]


def test_a_parquet_dictionary_of_long_ids_is_read_in_parts(tmp_path: Path) -> None:
    rows = 120_000
    ids = pa.DictionaryArray.from_arrays(
        pa.array(np.random.default_rng(1).integers(0, 3, rows, dtype=np.int32)), ["a" * 20_000, "b", "c"]
    )
    pq.write_table(
        pa.table({"user_id": ids, "payload": np.zeros(rows)}), tmp_path / "file.parquet", store_schema=False
    )
    assert (tmp_path / "file.parquet").stat().st_size < 200_000
    assert bounded(decode_file, tmp_path / "file.parquet") == Decoded(rows, {}, 0, [])


@pytest.mark.slow
@pytest.mark.parametrize("line", [b"x\n", b"{x}\n", b"[]\n"])
def test_nine_megabytes_of_junk_lines_are_a_few_dead_letters(line: bytes, tmp_path: Path) -> None:
    count = 9_000_000 // len(line)
    good = b'{"user_id": "ann", "payload": 0.5}\n'
    found = as_message(good + line * count + good, LINES, tmp_path)
    assert (found.reports, found.bad, found.letters) == (2, {"not_json": count}, 101)
    (tmp_path / "file.jsonl").write_bytes(good + line * count + good)
    found = bounded(decode_file, tmp_path / "file.jsonl")
    assert (found.reports, found.bad) == (2, {"not_json": count})
    assert found.letters < 500


@pytest.mark.parametrize("line", [b"[" * 10**6, b'{"payload": 1' + b"0" * 10**6 + b"}", b'{"a":' * 10**5])
def test_lines_that_are_deep_or_huge_cost_only_themselves(line: bytes, tmp_path: Path) -> None:
    good = b'{"user_id": "ann", "payload": 0.5}\n'
    found = as_message(good + line + b"\n" + good, LINES, tmp_path)
    assert found.reports + sum(found.bad.values()) == 3
    assert found.reports >= 2
