"""A kept dead letter has its whole record as it came: the fields that the study does not read, too."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.encoded import arrow_stream, avro_file

from ldpbeam.schemas.messages.decode import Message, decode_messages
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.dead_letters import Disclosure, disclosed
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.sources.files import match, sniff_all, split
from ldpbeam.transforms.sources.read import read_range

TEXT = """
study: whole
attributes:
  x:
    domain: {numeric: [0, 1]}
    services: {pm: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
"""
STUDY = parse_study(TEXT)
#: The name of a field is misspelt, another is not the study's, and the payload is impossible.
BAD = {"userid": "ann", "Attribute": "x", "user_id": "bob", "service": "pm", "payload": 99.5, "extra": "käse"}
GOOD = {**BAD, "payload": 0.5}
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": name, "type": "double" if name == "payload" else "string"} for name in BAD],
}
FIXED = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "user_id", "type": {"type": "fixed", "name": "id", "size": 3}},
        {"name": "other", "type": {"type": "fixed", "name": "o", "size": 2}},
        {"name": "payload", "type": "double"},
    ],
}
LINE = json.dumps(BAD, ensure_ascii=False).replace(": ", " :  ").encode()


def container(schema: Any, records: list[dict[str, Any]], **metadata: str) -> bytes:
    return avro_file(schema, records, metadata=metadata)


def arrow(table: pa.Table) -> Message:
    return Message("1", arrow_stream(table), "application/vnd.apache.arrow.stream")


def kept(batches: Iterator[pa.RecordBatch] | list[Any]) -> list[bytes]:
    """The records of the dead letters, as a run with --keep-bad-records writes them."""
    letters = [letter for batch in batches for letter in Validation(STUDY).validate(batch).letters]
    records: list[bytes] = []
    for part in letters:
        with_records, plain = disclosed(part, Disclosure(records=True)), disclosed(part, Disclosure())
        # The hash does not depend on what is kept.
        assert with_records.column("sha256") == plain.column("sha256")
        assert plain.column("record").null_count == len(part)
        records += with_records.column("record").to_pylist()
    return records


def whole(file: Path) -> list[bytes]:
    columns = wanted_columns(STUDY, "x", "pm", whole=True)
    (good, _) = sniff_all(match([str(file)]))
    return kept([batch for own in good for part in split(own) for batch in read_range(part, columns)])


def test_a_line_is_kept_as_it_came(tmp_path: Path) -> None:
    good = json.dumps(GOOD).encode()
    lines = [good, LINE, b"", b'{"user_id": 7, "payload": "q"} ', good, b"\t" + LINE + b"\r"]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    assert sorted(whole(tmp_path / "in.jsonl")) == sorted([lines[1], lines[3], lines[5]])


def test_an_avro_record_is_kept_as_a_file_with_it_alone(tmp_path: Path) -> None:
    about = {"ldpbeam.attribute": "x", "ldpbeam.service": "pm"}
    (tmp_path / "in.avro").write_bytes(
        container(SCHEMA, [GOOD, BAD, GOOD, {**BAD, "userid": "eve"}], **about, another="entry")
    )
    found = [fastavro.reader(io.BytesIO(record)) for record in whole(tmp_path / "in.avro")]
    assert [list(reader) for reader in found] == [[BAD], [{**BAD, "userid": "eve"}]]
    assert {name: text for name, text in found[0].metadata.items() if "avro" not in name} == about
    records = [{"user_id": b"bob", "other": b"12", "payload": own} for own in (0.5, 99.5)]
    (tmp_path / "in.avro").write_bytes(container(FIXED, records))
    (record,) = whole(tmp_path / "in.avro")
    assert list(fastavro.reader(io.BytesIO(record))) == [records[1]]


def row_of(record: bytes) -> dict[str, Any]:
    (row,) = pa.ipc.open_stream(record).read_all().to_pylist()
    return row


def test_a_row_of_columns_is_kept_as_a_stream_with_it_alone(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([GOOD, {**BAD, "extra": None}, BAD])
    table = table.set_column(0, "userid", table.column("userid").dictionary_encode())
    table = table.append_column("time", pa.array([0, 1, 2], pa.timestamp("ns")))
    table = table.append_column("raw", pa.array([b"\xff"] * 3)).append_column("nested", pa.array([[1]] * 3))
    table = table.replace_schema_metadata({"ldpbeam.service": "pm", "another": "entry"})
    pq.write_table(table, tmp_path / "in.parquet")
    columns = wanted_columns(STUDY, "x", "pm", whole=True)
    for found in (whole(tmp_path / "in.parquet"), kept([*decode_messages([arrow(table)], columns)])):
        first, second = map(row_of, found)
        assert {**second, "time": second["time"].value} == {**BAD, "time": 2, "raw": b"\xff"}
        assert first["extra"] is None
        assert pa.ipc.open_stream(found[0]).schema.metadata == {b"ldpbeam.service": b"pm"}


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_a_record_whose_schema_is_longer_than_64_kb_is_not_kept(tmp_path: Path, kind: str) -> None:
    """Each record has the schema of its input, so a file of a megabyte could fill a disk."""
    path, wide = tmp_path / "in", {**BAD, "x" * 2**16: 0.5}
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([wide] * 2), path)
    else:
        path.write_bytes(container({**SCHEMA, "doc": "x" * 2**16}, [BAD] * 2))
    assert whole(path) == [b"", b""]


RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([99.5]))
UNION = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([99.5] * 2), pa.array(["a"] * 2)])


@pytest.mark.parametrize("name", ["payload", "other"])
@pytest.mark.parametrize("column", [RUNS, UNION], ids=["runs", "union"])
def test_a_column_of_which_arrow_takes_no_rows_is_no_part_of_a_kept_record(
    name: str, column: pa.Array
) -> None:
    fields = {"user_id": pa.array(["ann", None]), "payload": pa.array([0.5, 99.5]), name: column}
    columns = wanted_columns(STUDY, "x", "pm", whole=True)
    found = kept([*decode_messages([arrow(pa.table(fields))], columns)])
    rest = {} if name == "payload" else {"payload": 99.5}
    assert {field: value for field, value in row_of(found[-1]).items() if value is not None} == rest


@pytest.mark.parametrize("count", [1, 3])
def test_a_message_is_kept_as_it_came(count: int) -> None:
    columns = wanted_columns(STUDY, "x", "pm", whole=True)
    pretty = json.dumps(BAD, indent=1).encode() + b"\n "
    messages = [Message(str(place), pretty, "application/json") for place in range(count)]
    assert kept([*decode_messages(messages, columns)]) == [pretty] * count
    lines = Message("1", LINE + b"\n" + json.dumps(GOOD).encode() + b"\n" + LINE, "application/x-ndjson")
    assert kept([*decode_messages([lines], columns)]) == [LINE, LINE]
