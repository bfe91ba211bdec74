"""What dead letters of a few bytes take: a long value, a name or a stamp stands in every row of its input."""

from __future__ import annotations

import hashlib
import io
import itertools
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from support.bounded import Decoded, bounded
from support.polls import batch_of

from ldpbeam.schemas.messages.decode import ARROW, Message
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.dead_letters import (
    BYTES_AT_ONCE,
    LETTERS_AT_ONCE,
    DeadLetter,
    Disclosure,
    disclosed,
    in_columns,
)
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
#: JSON writes six bytes for each, or bytes are twice as many digits.
LONG = "\x01" * 200_000
#: So many reports of them have 30 MB.
ROWS = 150


def repeated(value: str | bytes, rows: int = ROWS) -> pa.Array:
    """A column that has a value once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([value]))


def stream_of(table: pa.Table, batch_rows: int | None = None, **metadata: str) -> bytes:
    sink = io.BytesIO()
    table = table.replace_schema_metadata(META | {f"ldpbeam.{key}": text for key, text in metadata.items()})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, batch_rows)
    return sink.getvalue()


NOTHING = pa.table({"payload": pa.nulls(5_000, pa.float64())})
PAYLOADS = pa.array([0.5] * ROWS)
MESSAGES = {
    "payloads": stream_of(pa.table({"payload": repeated(LONG)})),
    "bytes": stream_of(pa.table({"payload": repeated(LONG.encode())})),
    "ids": stream_of(pa.table({"user_id": repeated(LONG), "payload": PAYLOADS})),
    "groups": stream_of(pa.table({"city": repeated(LONG[:60_000], 500), "payload": pa.array([0.5] * 500)})),
    "fields that are not read": stream_of(pa.table({"z": repeated(LONG), "payload": PAYLOADS})),
    "one name": stream_of(NOTHING, attribute="n" * 200_000),
    "a name where others have none": stream_of(
        pa.table({"attribute": pa.array(["x", *[None] * 4_999])}), attribute="n" * 200_000
    ),
    "a stamp of each batch": stream_of(NOTHING, 2, options="n" * 400_000),
    "a shorter stamp of each batch": stream_of(NOTHING, 2, options="n" * 60_000),
}


def letters_of(path: Path, whole: bool) -> Decoded:
    """The dead letters of a message or an Avro file, each batch of which is forgotten."""
    wanted, disclosure = wanted_columns(STUDY, None, None, whole=whole), Disclosure(records=whole)
    if path.suffix == ".avro":
        (part,) = split_or_keep(sniff(str(path), path.stat().st_size))
        batches = [item for item in read_range(part, wanted) if isinstance(item, pa.RecordBatch)]
        bad = []
    else:
        message = Message("t/0/1", path.read_bytes(), ARROW)
        taken = batch_of("t/0", wanted, [message])
        batches, bad = taken.batches, taken.letters
    rows = 0
    refused = (part for batch in batches for part in Validation(STUDY).validate(batch).letters)
    for part in map(disclosed, itertools.chain(in_columns(bad), refused), itertools.repeat(disclosure)):
        assert part.nbytes <= 2 * BYTES_AT_ONCE
        rows += part.num_rows
    return Decoded(0, {}, rows, [])


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", MESSAGES)
def test_dead_letters_of_a_short_message_take_little_memory(name: str, whole: bool, tmp_path: Path) -> None:
    path = tmp_path / "message"
    path.write_bytes(MESSAGES[name])
    assert len(MESSAGES[name]) < 10**6
    assert bounded(letters_of, path, whole).letters >= ROWS


def test_dead_letters_of_a_file_with_a_long_name_take_little_memory(tmp_path: Path) -> None:
    fields = [{"name": "payload", "type": ["null", "double"]}]
    with (tmp_path / "in.avro").open("wb") as file:
        record = {"type": "record", "name": "r", "fields": fields}
        fastavro.writer(
            file, record, [{"payload": None}] * 5_000, metadata=META | {"ldpbeam.service": "n" * 200_000}
        )
    assert bounded(letters_of, tmp_path / "in.avro", False).letters > 1_000


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
        message = Message("t/0/1", stream_of(pa.table({"payload": payloads}), **metadata), ARROW)
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
