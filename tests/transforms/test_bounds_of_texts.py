"""The table of ``docs/limits.md``: a text beyond its bound is a dead letter."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.polls import batch_of
from support.security_page import rows_of, section

from ldpbeam.errors import UserError
from ldpbeam.inputs.files import check_stamps, find_input
from ldpbeam.pipelines.commands.stream import _panes_shown
from ldpbeam.schemas.encodings.avro_headers import write_header
from ldpbeam.schemas.files.json_lines import MOST_LINE_BYTES
from ldpbeam.schemas.messages.decode import JSON, Message, decode_messages
from ldpbeam.schemas.reports.columns import LETTERS_KEY, MECHANISM_KEY, NEEDED, Columns, with_most_letters
from ldpbeam.schemas.reports.fields import LONGEST_NAME, MOST_NAMES
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import MOST_GROUPS
from ldpbeam.transforms.outputs.panes import PANES
from ldpbeam.transforms.reports import validation
from ldpbeam.transforms.reports.dead_letters import DEAD, REASONS, Disclosure, disclosed, in_columns
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.sources.files import match, sniff_all, split
from ldpbeam.transforms.sources.read import MOST_LETTER_BYTES, MOST_LETTERS, file_input
from ldpbeam.transforms.sources.read_input import _ReadUnit
from ldpbeam.untrusted import MOST_REPEATED, shown

TEXT = """
study: bounds
groups: {field: city}
attributes:
  x:
    domain: {numeric: [0, 1]}
    services:
      app: {mechanism: piecewise, version_field: build, versions: {old: {epsilon: 1.0}}}
      asked: {mechanism: piecewise, epsilon: {field: eps, values: [1.0]}}
    estimates: {mean: {estimator: ivw}}
windows: {size: 1h}
"""
STUDY = parse_study(TEXT)
GOOD: dict[str, Any] = {
    "user_id": "u", "report_id": "r", "attribute": "x", "service": "app", "build": "old", "city": "Oslo",
    "event_time": 1_795_168_800_000, "payload": 0.5,
}  # fmt: skip
FIELDS = {"group field": "city", "version field": "build", "field of an epsilon": "eps"}
SECTION = section("What a client can fill")
ROWS = rows_of(SECTION)
SENTENCES = section("Texts in sentences")


def beyond(field: str, bound: str) -> list[Any]:
    """Values just beyond the bound of a row."""
    found = re.fullmatch(r"(\d+) bytes", bound)
    if found:
        return ["v" * (int(found[1]) + 1), "é" * (int(found[1]) // 2 + 1)]
    years = re.fullmatch(r"the years (\d+) to (\d+)", bound)
    if years:
        return [7_258_118_400_000]  # the first millisecond of 2200
    return [99.5] if field == "payload" else ["another", "v" * 100_000]


def of_batches(batches: list[Any]) -> list[str]:
    parts = [part for batch in batches for part in Validation(STUDY).validate(batch).letters]
    return [reason for part in parts for reason in part.column("reason").to_pylist()]


def reasons_of(record: dict[str, Any]) -> list[str]:
    """Of the dead letters of a message."""
    message = Message("1", json.dumps(record).encode(), JSON)
    return of_batches([*decode_messages([message], wanted_columns(STUDY, None, None))])


def test_every_field_of_a_report_has_a_row() -> None:
    fields = {FIELDS.get(row[0], row[0]) for row in ROWS}
    assert fields == {*wanted_columns(STUDY, None, None).names} == {*NEEDED, "report_id", *FIELDS.values()}
    assert {row[2] for row in ROWS} <= set(REASONS)


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    longest = {row[0]: row[1] for row in ROWS if row[1].endswith("bytes")}
    assert longest == {
        "user_id": f"{validation.LONGEST_USER_ID} bytes",
        "report_id": f"{validation.LONGEST_REPORT_ID} bytes",
        "group field": f"{validation.LONGEST_GROUP} bytes",
    }
    assert f"at most {LONGEST_NAME} characters" in SECTION.replace("\n", " ")
    assert f"{MOST_NAMES} names of a record" in SECTION
    assert f"at most {MOST_LINE_BYTES // 2**20} MB" in SECTION
    assert f"{MOST_GROUPS:,} groups in a window" in SECTION


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_text_beyond_its_bound_is_a_dead_letter(row: list[str]) -> None:
    name, bound, reason, _ = row
    field = FIELDS.get(name, name)
    good = GOOD | ({"service": "asked"} if field == "eps" else {})
    for value in beyond(field, bound):
        assert reasons_of({**good, field: value}) == [reason]
    longest = re.match(r"\d+ bytes", bound)
    at_the_bound = {field: "v" * int(bound.split()[0])} if longest else {}
    assert reasons_of({**GOOD, **at_the_bound}) == []


LONG = "\x1b[2J\n\u202e" * 10_000


def detail_of(*messages: Message) -> str:
    """The detail of the dead letter of messages that do not decode."""
    (letter,) = in_columns(batch_of("feed", wanted_columns(STUDY, None, None), messages).letters)
    (found,) = disclosed(letter, Disclosure()).column("detail").to_pylist()
    return str(found)


def dead_letters_of(path: Path) -> list[pa.RecordBatch]:
    """The batches of dead letters that reading a file gives."""
    good, _ = sniff_all(match([str(path)]))
    read = _ReadUnit(file_input().reading, wanted_columns(STUDY, None, None), Disclosure())
    outputs = [own for part in split(good[0]) for own in read.process(part)]
    return [own.value for own in outputs if getattr(own, "tag", None) == DEAD]


def of_content_type(_: Path) -> str:
    return detail_of(Message("1", b"{}", LONG))


def avro_file() -> bytes:
    """An Avro file whose codec is a text of its writer."""
    stream = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": [{"name": "payload", "type": "double"}]}
    write_header(stream, schema, {}, bytes(16), LONG)
    return stream.getvalue() + b"\x02\x10" + bytes(8 + 16)


def of_file_codec(tmp_path: Path) -> str:
    (tmp_path / "in.avro").write_bytes(avro_file())
    (letter,) = dead_letters_of(tmp_path / "in.avro")
    found: str = letter.column("detail")[0].as_py()
    return found


def of_stamp(tmp_path: Path) -> str:
    path, stamp = tmp_path / "in.parquet", {MECHANISM_KEY: LONG, "ldpbeam.attribute": "x"}
    pq.write_table(pa.Table.from_pylist([GOOD]).replace_schema_metadata(stamp), path)
    good = find_input([str(path)], "stop").files
    with pytest.raises(UserError) as found:
        check_stamps(good, STUDY, Columns())
    return str(found.value).partition("\nName the study")[0].removeprefix(f"{path}: ")


def of_log(_: Path) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), _panes_shown():
        PANES.warning("the server says %s", LONG)
    return said.getvalue().removesuffix("\n")


TEXTS: dict[str, Callable[[Path], str]] = {
    "content type of a message": of_content_type,
    "codec of an Avro file": of_file_codec,
    "stamp": of_stamp,
    "log line of a stream": of_log,
}


def test_every_row_of_sentences_is_tried() -> None:
    assert [row[:2] for row in rows_of(SENTENCES)] == [
        [name, f"{MOST_REPEATED:,} characters"] for name in TEXTS
    ]
    assert f"{MOST_LETTERS:,} or their lines have {MOST_LETTER_BYTES // 2**20} MB" in SENTENCES


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_client_wrote_is_cut_and_escaped_in_sentences(name: str, tmp_path: Path) -> None:
    text = TEXTS[name](tmp_path)
    assert len(text) <= MOST_REPEATED
    assert r"\x1b" in text
    assert text == shown(text)


def test_lines_that_do_not_decode_are_not_held_until_they_are_many(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + f"{{{'x' * 2**20}}}\n" * 20)
    assert [letters.num_rows for letters in dead_letters_of(path)] == [1] * 20


def test_a_part_of_a_batch_has_its_share_of_the_dead_letters() -> None:
    batch = with_most_letters(pa.record_batch({"payload": [1, 2, 3, 4]}), 4, 400)
    part = with_most_letters(batch.slice(1, 1), 4, 400)
    assert part.schema.metadata == {LETTERS_KEY.encode(): b"100"}
