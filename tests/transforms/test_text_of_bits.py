"""Bits as texts and lists, and records that have a report to every attribute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.tallied import tallied

import ldpbeam as ldp
from ldpbeam.command_line.main import main

TEXT = """\
study: bits
users: none
attributes:
  x:
    domain: {categories: 11}
    services: {app: {mechanism: oue, epsilon: 1, payload: FORM}}
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
    )
]


def check(accounting: dict[str, Any]) -> None:
    assert (accounting["in"], accounting["used"], accounting["duplicates"]) == (11, 6, 2)
    assert accounting["dead_letters_by_reason"] == {"no_payload": 2, "payload_wrong_length": 1}


def test_a_record_is_a_report_to_every_attribute_of_one_user_and_time() -> None:
    tally = tallied(SEVERAL, pa.Table.from_pylist(RECORDS))
    found = {each.attribute: each.statistic for each in tally.snapshots}
    assert {name: (s.users, s.histograms[0].tolist()) for name, s in found.items()} == {
        "x": (3, [1, 2, 2, 1, 1, 2]),
        "y": (3, [1, 2, 2, 1]),
    }
    check(tally.accounting)


def test_lists_are_read_of_json(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(SEVERAL)
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))
    study, reports, out = (str(tmp_path / name) for name in ("study.yaml", "in.jsonl", "out"))
    given = ["--study", study, "--input", reports, "--output", out]
    assert main(["estimate", *given, "--max-bad-fraction", "1"]) == 0
    check(json.loads((tmp_path / "out" / "accounting.json").read_text()))


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


def test_whole_records_with_several_reports_are_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.yaml").write_text(SEVERAL)
    given = ["--study", f"{tmp_path}/study.yaml", "--input", "in.jsonl", "--output", f"{tmp_path}/out"]
    assert main(["estimate", *given, "--keep-bad-records"]) == 2
    assert "records with several attributes cannot be kept" in capsys.readouterr().err
