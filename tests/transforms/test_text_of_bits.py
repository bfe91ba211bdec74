"""Bits as texts and lists, and records that have a report to every attribute."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.encoded import avro_file
from support.tallied import tallied

import ldpbeam as ldp
from ldpbeam.library.tables import decoded_batches
from ldpbeam.schemas.outputs.records import DeadLetterRecord
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports import validation
from ldpbeam.transforms.reports.dead_letters import Disclosure, disclosed
from ldpbeam.transforms.reports.validation import Validation, checked_columns
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.again import read_again
from ldpbeam.transforms.sources.read import read_range
from ldpbeam.transforms.tally import tally_of

TEXT = """\
study: bits
users: none
attributes:
  x: {domain: {categories: 11}, services: {app: {mechanism: oue, epsilon: 1, payload: FORM}}}
"""
SEVERAL = """\
study: several
attributes:
  x:
    field: "values[0]"
    domain: {categories: 3}
    services: &app {app: {mechanism: oue, epsilon: 1, payload: bits}}
  y: {field: "values[2]", domain: {categories: 2}, services: *app}
windows: {size: 1h}
intervals: false
"""
BITS = np.random.default_rng(3).random((200, 11)) < 0.3
BYTES = [bytes(row) for row in np.packbits(BITS, 1, "little")]
PACKED = tallied(TEXT.replace("FORM", "packed"), {"payload": BYTES})
TEXTS = ["".join(map(str, row)) for row in BITS.astype(int)]
PLACES = [np.flatnonzero(row).tolist() for row in BITS]


@pytest.mark.parametrize(
    ("form", "payloads"),
    [
        ("bits", TEXTS),
        ("bits", BITS.astype(int).tolist()),
        ("bits", pa.array(BITS.astype(float).tolist())),
        ("bits", BYTES),
        ("places", PLACES),
        ("places", [", ".join(map(str, row)) for row in PLACES]),
    ],
    ids=["texts", "lists", "lists of floats", "packed", "lists of places", "texts of places"],
)
def test_each_form_counts_as_packed_bits(form: str, payloads: Any) -> None:
    tally = tallied(TEXT.replace("FORM", form), {"payload": payloads})
    assert tally.snapshots == PACKED.snapshots and tally.accounting["used"] == 200


@pytest.mark.parametrize("form", ["bits", "places"])
@pytest.mark.parametrize("payload", ["0100", "01000000002", "1 11", "-1", "a", "1..2", "11"])
def test_another_text_is_a_dead_letter(form: str, payload: str) -> None:
    if (form, payload) not in {("places", "0100")}:
        accounting = tallied(TEXT.replace("FORM", form), {"payload": [payload]}).accounting
        assert accounting["dead_letters_by_reason"] == {"payload_wrong_length": 1}


def test_no_set_place_is_a_report_and_none_is_missing() -> None:
    accounting = tallied(TEXT.replace("FORM", "places"), {"payload": ["", None]}).accounting
    assert accounting["used"] == 1 and accounting["dead_letters_by_reason"] == {"no_payload": 1}


RECORDS: list[dict[str, Any]] = [
    {"event_time": "2026-01-01T00:10:00Z", **record}
    for record in (
        {"user_id": "ann", "values": ["010", "11", "01"]},
        {"user_id": "bob", "values": ["101", "11", "10"]},
        {"user_id": "bob", "values": ["101", "11", "10"]},
        {"user_id": "carl", "values": ["101", "11"]},
        {"user_id": "dora", "values": ["1011", "11", "10"]},
        {"user_id": "emil"},
        {"user_id": "fay", "values": ["010", "11", None]},
    )
]
TABLE = pa.Table.from_pylist(RECORDS)
COLUMNS = checked_columns(parse_study(SEVERAL), None, None)
FATES = {"in": 13, "used": 7, "duplicates": 2, "dead_letters": 4}
REASONS = {"no_payload": 3, "payload_wrong_length": 1}

#: The users and the histogram of each attribute, and the counts.
Found = tuple[dict[str, tuple[int | None, list[int]]], Mapping[str, int]]


def counted(batches: Iterable[Any]) -> Found:
    """What decoded batches are counted as."""
    tally = tally_of(parse_study(SEVERAL), batches)
    assert tally.accounting["dead_letters_by_reason"] == REASONS
    found = {
        one.attribute: (one.statistic.users, one.statistic.histograms[0].tolist()) for one in tally.snapshots
    }
    return found, tally.accounting


def in_memory(reports: Any) -> Callable[[Path], Found]:
    return lambda _: counted(decoded_batches(reports, COLUMNS))


def of_file(path: Path, columns: Columns) -> Iterator[Any]:
    found = files.sniff(str(path), path.stat().st_size)
    assert isinstance(found, files.ReportFile)
    return (item for part in files.split(found) for item in read_range(part, columns))


def in_a_file(write: Callable[[Path], object]) -> Callable[[Path], Found]:
    def way(folder: Path) -> Found:
        write(folder / "reports")
        return counted(of_file(folder / "reports", COLUMNS))

    return way


def json_lines() -> bytes:
    return "\n".join(map(json.dumps, RECORDS)).encode()


def write_avro(path: Path, records: list[dict[str, Any]], **lists: str) -> None:
    """Records of texts, and of lists of some type."""
    kinds: dict[str, Any] = dict.fromkeys(records[0], "string")
    kinds |= {name: ["null", {"type": "array", "items": ["null", kind]}] for name, kind in lists.items()}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    path.write_bytes(avro_file({"type": "record", "name": "R", "fields": fields}, records))


WAYS: dict[str, Callable[[Path], Found]] = {
    "a table": in_memory(TABLE),
    "polars": in_memory(pl.from_arrow(TABLE)),
    "JSON lines": in_a_file(lambda path: path.write_bytes(json_lines())),
    "Parquet": in_a_file(lambda path: pq.write_table(TABLE, path)),
    "Parquet of large lists": in_a_file(
        lambda path: pq.write_table(TABLE.cast(TABLE.schema.set(
            2, TABLE.schema.field(2).with_type(pa.large_list(pa.string())))), path, row_group_size=4)
    ),
    "Avro": in_a_file(lambda path: write_avro(path, RECORDS, values="string")),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_record_is_a_report_to_every_attribute_of_one_user_and_time(way: str, tmp_path: Path) -> None:
    found, counts = WAYS[way](tmp_path)
    assert found == {"x": (4, [2, 2, 2, 2, 2, 2]), "y": (3, [1, 2, 2, 1])}
    assert {name: counts[name] for name in FATES} == FATES


def test_short_records_of_many_reports_are_read_in_parts_and_have_few_dead_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "MOST_REPORTS", 100)
    users = [f"u{n}" for n in range(1_000)]
    table = {"user_id": users, "event_time": RECORDS[0]["event_time"], "values": [[""]] * 1_000}
    tally = tally_of(parse_study(SEVERAL), decoded_batches(table, COLUMNS))
    assert tally.accounting["dead_letters_by_reason"] == {"no_payload": 2_000}
    # Of each part one for each record, and one for all others.
    assert tally.dead_letter_table.num_rows == 1_000 + 20


LISTS = BITS.astype(int).tolist()


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_text("\n".join(json.dumps({"payload": row}) for row in LISTS)),
        lambda path: pq.write_table(pa.table({"payload": pa.array(LISTS, pa.list_(pa.int8()))}), path),
        lambda path: pq.write_table(pa.table({"payload": pa.array(LISTS, pa.list_(pa.int64(), 11))}), path),
        lambda path: write_avro(path, [{"payload": row} for row in LISTS], payload="int"),
    ],
    ids=["JSON lines", "Parquet", "Parquet of one length", "Avro"],
)
def test_lists_in_files_count_as_packed_bits(write: Callable[[Path], object], tmp_path: Path) -> None:
    study = parse_study(TEXT.replace("FORM", "bits"))
    write(tmp_path / "reports")
    tally = tally_of(study, of_file(tmp_path / "reports", checked_columns(study, None, None)))
    assert tally.snapshots == PACKED.snapshots


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('field: "values[2]", ', "", "field: give every attribute its own place in one list"),
        ("values[2]", "values[0]", "field: give every attribute its own place in one list"),
        ("values[2]", "others[2]", "field: give every attribute its own place in one list"),
        (", payload: bits", "", "a value in a list needs payload: bits"),
        ("mechanism: oue", "mechanism: grr", "payload: bits is for reports of bits, as of oue and sue"),
        ("values[2]", "values", "field"),
    ],
)
def test_what_a_study_cannot_say(old: str, new: str, said: str) -> None:
    with pytest.raises(ldp.StudyError, match=said):
        ldp.Study.from_yaml(SEVERAL.replace(old, new))


@pytest.mark.parametrize("way", ["JSON lines", "Parquet", "Avro"])
def test_of_a_kept_record_the_refused_report_alone_is_read_again(way: str, tmp_path: Path) -> None:
    WAYS[way](tmp_path)
    columns = checked_columns(parse_study(SEVERAL), None, None, whole=True)
    letters = [
        DeadLetterRecord(**fields)
        for batch in of_file(tmp_path / "reports", columns)
        for part in Validation(parse_study(SEVERAL)).validate(batch).letters
        for fields in disclosed(part, Disclosure(records=True)).to_pylist()
    ]
    assert sorted(letter.detail for letter in letters) == ["", "values[0]", "values[2]", "values[2]"]
    fixed = SEVERAL.replace("categories: 3", "categories: 4")
    counts = tally_of(parse_study(fixed), read_again(letters, columns)).accounting
    assert (counts["in"], counts["used"], counts["dead_letters"]) == (4, 1, 3)
    elsewhere = SEVERAL.replace("values[0]", "values[1]")
    counts = tally_of(parse_study(elsewhere), read_again(letters, columns)).accounting
    assert (counts["in"], counts["used"]) == (4, 0)
