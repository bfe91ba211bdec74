"""What a batch carries once and every dead letter repeats: it fills neither a file of them nor the memory."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from support.bounded import Decoded, bounded
from support.encoded import avro_file, parquet_file
from support.polls import batch_of

from ldpbeam.schemas.messages.decode import ARROW, AVRO, JSON, Message
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.outputs.letter_files import write_letters
from ldpbeam.transforms.reports.dead_letters import (
    BYTES_AT_ONCE,
    LETTERS_AT_ONCE,
    DeadLetter,
    Disclosure,
    disclosed,
    in_columns,
)
from ldpbeam.transforms.reports.kept_records import decode_kept
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.sources.files import sniff
from ldpbeam.transforms.sources.read import read_range, split_or_keep

STUDY = parse_study("""\
study: bounds
attributes:
  x: {domain: {numeric: [0, 1]}, services: {a: {mechanism: piecewise, epsilon: 1.0}}}
groups: {field: city}
""")
META = {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}
#: The bytes of a file of dead letters for each byte that came in, and those of its header and of one letter.
FOR_EACH_BYTE, AT_LEAST = 32, 4_096
#: JSON writes six bytes for each character, and bytes have twice as many digits.
LONG = "\x01" * 200_000


def once(value: str | bytes, rows: int) -> pa.Array:
    """A column that has a value once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([value]))


def steps(rows: int) -> pa.Array:
    return pa.array(np.arange(rows, dtype=np.int64) * 977)


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    table = pa.table(columns).replace_schema_metadata(META | options.pop("metadata", {}))
    settings = {"compression": "zstd", "store_schema": False, "write_statistics": False}
    return parquet_file(table, **{**settings, **options})


def packed(rows: int, columns: int, name: str = "") -> bytes:
    """Numbers that all differ, of which the file has the differences."""
    names = ["user_id", "city", *(f"{name}{place}" for place in range(columns))]
    encodings = dict.fromkeys(names, "DELTA_BINARY_PACKED")
    return parquet(dict.fromkeys(names, steps(rows)), use_dictionary=False, column_encoding=encodings)


def arrow(columns: dict[str, Any], batch_rows: int | None = None, **metadata: str) -> bytes:
    sink, stated = io.BytesIO(), META | {f"ldpbeam.{key}": text for key, text in metadata.items()}
    table = pa.table(columns).replace_schema_metadata(stated)
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, batch_rows)
    return sink.getvalue()


def avro(records: list[dict[str, Any]], stated: dict[str, str] | None = None, **about: str) -> bytes:
    fields = [
        {"name": "payload", "type": ["null", "double"]},
        {"name": "z", "type": ["null", "string", "int"]},
    ]
    schema = {"type": "record", "name": "r", "fields": fields, **about}
    return avro_file(schema, records, metadata=META | (stated or {}))


def nothing(rows: int) -> pa.Array:
    return pa.nulls(rows, pa.float64())


HALVES = pa.array([0.5] * 600)
NONE = [{"payload": None, "z": None}]
COLUMNS = {f"column_{n}": pa.nulls(2_000, pa.int64()) for n in range(300)}


class Case(NamedTuple):
    """A way in, and the bytes that come in."""

    way: str
    data: Callable[[], bytes]


#: By what is repeated.
TABLE = {
    "a row of nulls, in runs": Case("parquet", lambda: parquet({"payload": nothing(600)})),
    "a row of nulls, without bytes": Case(ARROW, lambda: arrow({"payload": nothing(5_000)})),
    "a record of two bytes": Case("avro", lambda: avro(NONE * 5_000)),
    "a record of one byte": Case("jsonl", lambda: b"1\n" * 5_000),
    "a line, compressed": Case("jsonl", lambda: gzip.compress(b'{"payload": 1e9}\n' * 600)),
    "the difference of numbers": Case("parquet", lambda: packed(2_000, 0)),
    "differences below a long name": Case("parquet", lambda: packed(2_000, 1, "c" * 400)),
    "a payload of a dictionary": Case(ARROW, lambda: arrow({"payload": once(LONG, 150)})),
    "an id of a dictionary": Case(
        "parquet", lambda: parquet({"user_id": once(LONG, 600), "payload": HALVES})
    ),
    "a field that is not read": Case("parquet", lambda: parquet({"z": once(LONG, 600), "payload": HALVES})),
    "an escaped line": Case(
        "jsonl", lambda: gzip.compress(json.dumps({"z": LONG[:20_000]}).encode() + b"\n") * 99
    ),
    "a service in metadata": Case(
        "avro", lambda: avro(NONE * 5_000, stated={"ldpbeam.service": "n" * 200_000})
    ),
    "a stamp of each batch": Case(ARROW, lambda: arrow({"payload": nothing(1_000)}, 2, options="n" * 60_000)),
    "a doc in a schema": Case("avro", lambda: avro(NONE * 5_000, doc="d" * 60_000)),
    "names of columns": Case("parquet", lambda: parquet(COLUMNS | {"payload": nothing(2_000)})),
    "nested text": Case("jsonl", lambda: b'{"payload": %s}\n' % (b"[" * 900 + b"]" * 900) * 50),
    "a name that is almost a field's": Case("jsonl", lambda: b'{"payloads": 1}\n' * 2_000),
    "messages of one report": Case(JSON, lambda: b"{}"),
    "messages that do not decode": Case(AVRO[0], lambda: b"\xc3\x01" + b"\0" * 9),
}


def letters_of(case: Case, data: bytes, folder: Path, disclosure: Disclosure) -> Iterator[pa.RecordBatch]:
    wanted = wanted_columns(STUDY, None, None, whole=disclosure.records)
    items: Iterator[pa.RecordBatch | DeadLetter]
    if "/" in case.way:
        taken = batch_of("t/0", wanted, [Message("t/0/1", data, case.way)])
        items = itertools.chain(taken.batches, taken.letters)
    else:
        path = folder / f"in.{case.way}"
        path.write_bytes(data)
        parts = split_or_keep(sniff(str(path), len(data)))
        items = itertools.chain.from_iterable(read_range(part, wanted) for part in parts)
    for item in items:
        found = (
            in_columns([item]) if isinstance(item, DeadLetter) else Validation(STUDY).validate(item).letters
        )
        for part in found:
            yield disclosed(part, disclosure)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", TABLE)
def test_dead_letters_are_bounded_by_the_bytes_that_came_in(name: str, keep: bool, tmp_path: Path) -> None:
    case = TABLE[name]
    data = case.data()
    batches = list(letters_of(case, data, tmp_path, Disclosure(records=keep)))
    reports = sum(sum(batch.column("reports").to_pylist()) for batch in batches)
    size = Path(write_letters(str(tmp_path / "out"), 0, batches)).stat().st_size
    print(f"{name:40} {case.way:20} kept {keep!s:5} in {len(data):7,} reports {reports:5,} out {size:8,}")
    assert reports > 0
    assert size <= AT_LEAST + FOR_EACH_BYTE * len(data)
    # Read again, they are not more than they were.
    records = [record for batch in batches for record in batch.column("record").to_pylist() if record]
    again = sum(
        getattr(item, "num_rows", 1) for item in decode_kept(records, wanted_columns(STUDY, None, None))
    )
    assert again == len(records)


def letters_in(path: Path, way: str, whole: bool) -> Decoded:
    """The dead letters of an input, each batch of which is forgotten."""
    rows = 0
    for part in letters_of(Case(way, bytes), path.read_bytes(), path.parent, Disclosure(records=whole)):
        assert part.nbytes <= 2 * BYTES_AT_ONCE
        rows += part.num_rows
    return Decoded(0, {}, rows, [])


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", [name for name in TABLE if re.search("dictionary|metadata|stamp", name)])
def test_dead_letters_take_little_memory(name: str, whole: bool, tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(TABLE[name].data())
    assert bounded(letters_in, tmp_path / "given", TABLE[name].way, whole).letters > 0


def test_batches_of_letters_are_bounded_in_number_and_in_bytes() -> None:
    sizes = [3, 10, BYTES_AT_ONCE, 1, BYTES_AT_ONCE - 1, 0, 2 * BYTES_AT_ONCE, *[1] * (LETTERS_AT_ONCE + 1)]
    letters = [DeadLetter("f", n, None, "r", "", 1, b"x" * size) for n, size in enumerate(sizes)]
    batches = list(in_columns(letters))
    assert [batch.num_rows for batch in batches] == [2, 1, 3, 1, LETTERS_AT_ONCE, 1]
    assert [place for batch in batches for place in batch.column("position").to_pylist()] == list(
        range(len(sizes))
    )


def test_a_long_value_counts_by_its_hash_and_others_as_they_are() -> None:
    def hashes(*payloads: str, **metadata: str) -> list[str]:
        message = Message("t/0/1", arrow({"payload": payloads}, **metadata), ARROW)
        taken = batch_of("t/0", wanted_columns(STUDY, None, None), [message])
        (letters,) = Validation(STUDY).validate(*taken.batches).letters
        return list(disclosed(letters, Disclosure()).column("sha256").to_pylist())

    def hash_of(payload: str) -> str:
        text = f'{{"attribute": "x", "payload": "{payload}", "service": "a"}}'
        return hashlib.sha256(text.encode()).hexdigest()

    whole, longer = "n" * 2**16, "n" * (2**16 + 1)
    assert hashes("n", whole, longer) == [
        hash_of("n"), hash_of(whole), hash_of(f"sha256:{hashlib.sha256(longer.encode()).hexdigest()}")
    ]  # fmt: skip
    assert hashes("n", attribute="x" * 65) == hashes("n", attribute="x" * 1_000)
