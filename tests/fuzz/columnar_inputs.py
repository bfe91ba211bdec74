"""Parquet files and Arrow streams: columns of any type under the names of reports, then changed bytes."""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from support.encoded import arrow_stream, parquet_file

from fuzz.avro_inputs import FIELDS
from fuzz.mutations import edge, mutated

_Make = Callable[[Random, int], pa.Array]
_NUMBERS = (
    *(pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
)
_TIMES = (
    *(
        pa.timestamp("s"),
        pa.timestamp("ms", "UTC"),
        pa.timestamp("us", "+05:30"),
        pa.timestamp("ns", "No/Where"),
    ),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.duration("us")),
)


def _text(rng: Random, rows: int) -> pa.Array:
    words = (
        "a", "x", "", None, "u1", "é", "0" * 32, "00000000-0000-0000-0000-000000000001",
        "2026-11-20T10:00:00Z",
    )  # fmt: skip
    return pa.array([rng.choice(words) for _ in range(rows)], pa.string())


def _numbers(rng: Random, rows: int) -> pa.Array:
    kind = rng.choice(_NUMBERS)
    width = kind.bit_width // 8
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(rng.randbytes(rows * width))])


def _binary(rng: Random, rows: int) -> pa.Array:
    return pa.array(
        [rng.choice((b"", None, b"\xff", bytes(16), rng.randbytes(8))) for _ in range(rows)], pa.binary()
    )


def _fixed(rng: Random, rows: int) -> pa.Array:
    width = rng.choice((1, 4, 8, 16, 16, 36))
    return pa.array([rng.choice((None, rng.randbytes(width))) for _ in range(rows)], pa.binary(width))


def _times(rng: Random, rows: int) -> pa.Array:
    kind = rng.choice(_TIMES)
    limit = 2 ** (kind.bit_width - 1)
    values = [(edge(rng) if rng.random() < 0.3 else 1_767_225_600) % limit for _ in range(rows)]
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def _dictionary(rng: Random, rows: int) -> pa.Array:
    # Of values that are equal Arrow writes one into a Parquet file, and for the others memory as it was.
    values = rng.choice((_text, _binary, _numbers, _times))(rng, 3).unique()
    codes = pa.array(
        [rng.choice((*range(len(values)), None)) for _ in range(rows)],
        rng.choice((pa.int8(), pa.uint32(), pa.int64())),
    )
    return pa.DictionaryArray.from_arrays(codes, values)


def _nested(rng: Random, rows: int) -> pa.Array:
    inner = rng.choice((_text, _numbers, _null, _dictionary))(rng, rows)
    return rng.choice(
        (
            lambda: pa.array([[1], None, []] * rows, pa.list_(pa.int64()))[:rows],
            lambda: pa.StructArray.from_arrays([inner], ["a"]),
            lambda: pa.array([{"a": 1}] * rows),
            lambda: pa.array([[("k", 1)]] * rows, pa.map_(pa.string(), pa.int64())),
            lambda: pa.FixedSizeListArray.from_arrays(inner, 1),
        )
    )()


def _null(_: Random, rows: int) -> pa.Array:
    return pa.nulls(rows)


def _other(rng: Random, rows: int) -> pa.Array:
    """Types that Parquet does not have, or that few programs write."""
    words = [rng.choice(("a", None, "longer than twelve bytes", "x")) for _ in range(rows)]
    return rng.choice(
        (
            lambda: pa.array(words, pa.string_view()),
            lambda: pa.array(words, pa.large_string()),
            lambda: pa.array([w and w.encode() for w in words], pa.binary_view()),
            lambda: pa.array([Decimal("1.5"), None] * rows, pa.decimal128(38, 2))[:rows],
            lambda: pa.array([True, None] * rows)[:rows],
            lambda: pa.RunEndEncodedArray.from_arrays(pa.array([max(rows, 1)], pa.int32()), pa.array(["a"]))[
                :rows
            ],
            lambda: pa.UnionArray.from_dense(
                pa.array([0] * rows, pa.int8()),
                pa.array(range(rows), pa.int32()),
                [pa.array(words, pa.string())],
            ),
            lambda: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * rows, pa.binary(16))),
            lambda: pa.array([bool(n % 2) for n in range(rows)]).cast(pa.bool8()),
        )
    )()


_KINDS: tuple[_Make, ...] = (
    _text, _text, _numbers, _numbers, _binary, _fixed, _times, _dictionary, _null, _nested,
)  # fmt: skip
_USUAL: dict[str, _Make] = {
    "user_id": _text, "attribute": lambda _, rows: pa.array(["x"] * rows),
    "service": lambda _, rows: pa.array(["a"] * rows), "event_time": _times, "report_id": _binary,
    "payload": _numbers,
}  # fmt: skip


def _table(rng: Random, kinds: tuple[_Make, ...], rows: int) -> pa.RecordBatch:
    names = rng.sample(FIELDS, rng.randint(1, len(FIELDS)))
    if rng.random() < 0.05:
        names.append(names[0])
    usual = rng.random() < 0.6
    columns = [
        (_USUAL[name] if usual and name in _USUAL and rng.random() < 0.8 else rng.choice(kinds))(rng, rows)
        for name in names
    ]
    metadata = rng.choice((None, {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}, {b"\xff": b"\xfe"}))
    return pa.RecordBatch.from_arrays(columns, names).replace_schema_metadata(metadata)


def stream(rng: Random) -> bytes:
    """An Arrow stream."""
    if rng.random() < 0.01:
        return rng.choice((_stream_bomb, _null_bomb, _dictionary_bomb))()
    rows = rng.choice((0, 1, 3, 40))
    try:
        batches = [_table(rng, (*_KINDS, _other, _other), rows)]
    except (pa.ArrowException, ValueError):
        return b""
    batches += [batches[0]] * rng.choice((0, 0, 1, 3))
    data = arrow_stream(*batches, compression=rng.choice((None, None, "lz4", "zstd")))
    return mutated(rng, data, ()) if rng.random() < 0.8 else data


def parquet(rng: Random) -> bytes:
    """A Parquet file, whose pages and footer agree: they are trusted to."""
    if rng.random() < 0.01:
        return _parquet_bomb(rng.choice([*_BOMBS]), rng.choice(("none", "zstd")))
    sink = io.BytesIO()
    try:
        table = pa.Table.from_batches([_table(rng, _KINDS, rng.choice((0, 1, 3, 40, 2_000)))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pq.write_table(
                table,
                sink,
                compression=rng.choice(("none", "none", "snappy", "gzip", "zstd", "lz4", "brotli")),
                data_page_version=rng.choice(("1.0", "2.0")),
                data_page_size=rng.choice((1, 2_000, 2**30)),
                dictionary_pagesize_limit=rng.choice((1, 100, 2**30)),
                write_batch_size=rng.choice((1, 7, 1_024)),
                use_dictionary=rng.random() < 0.5,
                row_group_size=rng.choice((1, 20, 1_000)),
                write_page_checksum=rng.random() < 0.3,
                write_page_index=rng.random() < 0.3,
                store_schema=rng.random() < 0.7,
            )
    except (pa.ArrowException, ValueError):
        return b"PAR1"
    return sink.getvalue()


def _nulls(rows: int) -> pa.Array:
    return pa.Array.from_buffers(pa.null(), rows, [None])


@functools.cache
def _stream_bomb() -> bytes:
    """Buffers that unpack to a gigabyte, in a column that nobody asks for."""
    return arrow_stream(
        pa.record_batch({"user_id": _nulls(2**27), "other": np.zeros(2**27)}), compression="zstd"
    )


@functools.cache
def _null_bomb() -> bytes:
    """Many rows of no bytes."""
    return arrow_stream(pa.record_batch({"user_id": _nulls(2**31 - 1), "payload": _nulls(2**31 - 1)}))


@functools.cache
def _dictionary_bomb() -> bytes:
    """Few bytes of codes, each of which is a long value."""
    codes = pa.array(np.zeros(2**22, dtype=np.int8))
    ids = pa.DictionaryArray.from_arrays(codes, pa.array(["u" * 1_000]))
    return arrow_stream(pa.record_batch({"user_id": ids, "payload": np.zeros(2**22)}), compression="zstd")


def _long_texts(count: int, size: int) -> pa.Array:
    return pa.array([bytes(size) + b"%d" % number for number in range(count)], pa.binary())


def _dictionary_of(values: pa.Array, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(rows, dtype=np.int32) % len(values)), values)


#: Few bytes of a file that are many of values: in dictionaries, in runs, and by differences.
_BOMBS: dict[str, Callable[[], tuple[pa.Array, dict[str, Any]]]] = {
    "one text often": lambda: (_dictionary_of(_long_texts(1, 1_000), 2**21), {}),
    "long texts often": lambda: (_dictionary_of(_long_texts(600, 100_000), 5_000), {}),
    "a dictionary of 120 MB": lambda: (_dictionary_of(_long_texts(600, 200_000), 600), {}),
    "long texts": lambda: (_long_texts(600, 200_000), {"use_dictionary": False}),
    "texts that repeat": lambda: (
        _long_texts(500, 100_000),
        {"use_dictionary": False, "column_encoding": {"user_id": "DELTA_BYTE_ARRAY"}},
    ),
    "nulls": lambda: (pa.nulls(2**17, pa.binary(2**12)), {}),
}


@functools.cache
def _parquet_bomb(name: str, codec: str) -> bytes:
    users, options = _BOMBS[name]()
    table = pa.table({"user_id": users, "payload": np.random.default_rng(0).random(len(users))})
    return parquet_file(table, store_schema=False, compression=codec, **options)


def prepare() -> None:
    """Make the bombs of streams before limits apply."""
    _stream_bomb(), _null_bomb(), _dictionary_bomb()


def prepare_parquet() -> None:
    """Make the bombs of files before limits apply."""
    for name in _BOMBS:
        _parquet_bomb(name, "none"), _parquet_bomb(name, "zstd")
