"""``estimate --again``: kept records are read by today's study, and count once."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.output_folders import HOUR, START, contents
from support.schema_registry import FLEET, framed, schema, served
from support.sent_messages import single_object
from support.studies import SMALL

from ldpbeam.schemas import writer_schemas
from ldpbeam.schemas.outputs.snapshots import read_snapshots
from ldpbeam.transforms.outputs.letter_files import write_letters
from ldpbeam.transforms.reports.dead_letters import DeadLetter, Disclosure, disclosed, in_columns

STUDY = f"{SMALL}windows: {{size: 1h}}\n"
#: The fields of the fleet, which the first study did not know: its every report is a dead letter.
COLUMNS = ("--column", "user_id=uid", "--column", "event_time=at")
KEEP = ("--keep-bad-records", "--max-bad-fraction", 1)
ALL = ("--max-bad-fraction", 1)


def records(count: int = 240) -> list[dict[str, Any]]:
    rng = random.Random(7)
    return [
        {
            "uid": f"u{rng.randrange(60)}", "attribute": "x", "service": "ab"[place % 2],
            "at": START + 3 * HOUR * place // count,
            "payload": "bad" if place % 40 == 9 else round(rng.uniform(-1, 1), 6), "battery": 0.5,
        }
        for place in range(count)
    ]  # fmt: skip


def in_lines(path: Path) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records()))
    return path


def numbers() -> list[dict[str, Any]]:
    """Those whose payloads are numbers, as one column has them."""
    return [record for record in records() if record["payload"] != "bad"]


def in_parquet(path: Path) -> Path:
    """With ids in bytes, decimals, times and the file's own name of the attribute, none of which JSON has."""
    given = numbers()
    columns = {
        "uid": pa.array([record["uid"].encode() for record in given], pa.binary()),
        "service": pa.array([record["service"] for record in given]).dictionary_encode(),
        "at": pa.array([record["at"] for record in given], pa.timestamp("ms", "UTC")),
        "payload": pa.array([Decimal(str(record["payload"])) for record in given], pa.decimal128(12, 6)),
        "nested": pa.array([{"a": 1}] * len(given)),
    }
    table = pa.table(columns)
    # Kept records have so many bytes for each of their input.
    plain = {"compression": "none", "use_dictionary": False}
    pq.write_table(table.replace_schema_metadata({"ldpbeam.attribute": "x"}), path, **plain)
    return path


def outcome(folder: Path) -> Any:
    """The estimates, the statistics and the counts of a run that has its folder for itself."""
    lines = (folder / "estimates.jsonl").read_text().splitlines()
    estimates = [{**json.loads(line), "run": ""} for line in lines]
    return estimates, statistics(folder), json.loads((folder / "accounting.json").read_text())


def statistics(folder: Path, run: str = "") -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for path in sorted((folder / "statistics").glob(f"*{run and f'.{run}'}.avro")):
        with path.open("rb") as stream:
            for snapshot in read_snapshots(stream):
                found[snapshot.series, snapshot.window] = snapshot.statistic
    return found


@pytest.mark.parametrize("write", [in_lines, in_parquet])
def test_records_of_a_mended_study_count_as_if_it_had_been_right_from_the_start(
    tmp_path: Path, run_estimate: Any, command: Any, write: Any
) -> None:
    given = write(tmp_path / "in.reports")
    expected = run_estimate(tmp_path / "right", STUDY, [given], *COLUMNS, *ALL)
    wrong = run_estimate(tmp_path / "wrong", STUDY, [given], *KEEP)
    assert wrong.accounting["used"] == 0
    assert expected.accounting["used"] > 50
    given.unlink()
    study, again = tmp_path / "right" / "study.yaml", tmp_path / "again"
    asked = ("estimate", "--study", study, "--again", wrong.path, "--output", again, *COLUMNS, *KEEP)
    ran = command(*asked)
    assert ran.code == 0, ran.err
    assert outcome(again) == outcome(expected.path)
    left = contents(again)
    # Again twice changes nothing, and what is still dead can be read once more.
    assert command(*asked).code == 0
    assert contents(again) == left
    if write is in_lines:
        third = command(
            "estimate", "--study", study, "--again", again, "--output", tmp_path / "third", *COLUMNS, *ALL
        )
        assert third.code == 0, third.err
        dead = expected.accounting["dead_letters"]
        assert f"{dead} dead letters" in third.out
        assert "none of the 6 reports in the input is used" in third.err


def test_letters_in_two_folders_count_once_and_what_is_not_kept_is_told(
    tmp_path: Path, run_estimate: Any, command: Any
) -> None:
    given = in_lines(tmp_path / "in.jsonl")
    kept = run_estimate(tmp_path / "kept", STUDY, [given], *KEEP)
    hashed = run_estimate(tmp_path / "hashed", STUDY, [given], *ALL)
    study = tmp_path / "kept" / "study.yaml"

    def again(*folders: Path, output: str = "again") -> Any:
        asked = ("estimate", "--study", study, "--again", *folders, "--output", tmp_path / output)
        return command(*asked, *COLUMNS, *ALL)

    alone = again(hashed.path)
    assert alone.code == 2
    assert "its 240 dead letters have no records, so they cannot be read again" in alone.err
    copied = tmp_path / "copied"
    copied.mkdir()
    for name, data in contents(kept.path).items():
        (copied / name).parent.mkdir(parents=True, exist_ok=True)
        (copied / name).write_bytes(data)
    both = again(kept.path, copied)
    assert both.code == 0, both.err
    assert json.loads((tmp_path / "again" / "accounting.json").read_text())["in"] == 240
    other = in_lines(tmp_path / "other.jsonl")
    elsewhere = run_estimate(tmp_path / "elsewhere", STUDY, [other], *ALL)
    some = again(kept.path, elsewhere.path, output="some")
    assert some.code == 3
    assert "cannot be read again: 240 no_user_id" in some.err
    assert json.loads((tmp_path / "some" / "accounting.json").read_text())["in"] == 240
    inside = command("estimate", "--study", study, "--again", kept.path, "--output", kept.path, "--overwrite")
    assert inside.code == 2
    assert "the dead letters there would be replaced" in inside.err
    nothing = again(tmp_path / "again", output="nothing")
    assert nothing.code == 2
    assert "have no records" in nothing.err


def letters_of(folder: Path, letters: list[tuple[str, bytes, int]]) -> None:
    """Put dead letters of messages of a topic in place of those of a run: (reason, record, reports)."""
    for path in (folder / "dead_letters").glob("*.avro"):
        path.unlink()
    made = [
        DeadLetter("rides/0", place, 0, reason, "", reports, record)
        for place, (reason, record, reports) in enumerate(letters)
    ]
    batches = [disclosed(batch, Disclosure(records=True)) for batch in in_columns(made)]
    write_letters(str(folder / "dead_letters"), 0, batches)


def test_messages_of_every_form_are_read_again_and_what_no_study_mends_is_not_decoded(
    tmp_path: Path, run_estimate: Any, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_schemas, "TRIES_SECONDS", 0.001)
    kept = run_estimate(tmp_path / "kept", STUDY, [in_lines(tmp_path / "in.jsonl")], *KEEP).path
    report = {"user_id": "ann", "event_time": START, "payload": 0.5}
    line = json.dumps({**report, "user_id": "bob", "attribute": "x", "service": "a"}).encode()
    empty = {"attribute": "x", "service": "a", "report_id": None}
    fields = {
        name: empty.get(name, report.get(name)) for name in ("user_id", *empty, "event_time", "payload")
    }
    letters_of(
        kept,
        [
            ("unknown_schema", framed(7, {**report, "user_id": "eve"}), 1),
            ("unknown_schema", framed(8, report), 1),
            ("no_service", single_object(fields), 1),
            ("unknown_attribute", line, 1),
            # One of several, of which the others were not kept.
            ("unknown_service", line.replace(b"bob", b"joe"), 41),
            *(
                (reason, line.replace(b"bob", b"sue"), 1)
                for reason in ("defeated_decoder", "bad_file", "not_json")
            ),
            ("unknown_content_type", line.replace(b"bob", b"sue"), 1),
        ],
    )

    def again(registry: str) -> Any:
        output, names = tmp_path / "again", ("--column", "user_id=uid", "--attribute", "x", "--service", "a")
        asked = ("estimate", "--study", tmp_path / "kept" / "study.yaml", "--again", kept, "--output", output)
        return command(*asked, *ALL, "--overwrite", "--schemas", registry, *names)

    with served({"/schemas/ids/7": schema(FLEET)}) as registry:
        ran = again(registry.url)
    assert ran.code == 3, ran.err
    assert "cannot be read again: 40 unknown_service" in ran.err
    accounting = json.loads((tmp_path / "again" / "accounting.json").read_text())
    # The lines have user_id, which is read from uid here; a single object has our names.
    assert accounting["used"] == 2
    assert accounting["in"] == 9
    assert accounting["dead_letters_by_reason"] == {
        "no_user_id": 2, "unknown_schema": 1, "defeated_decoder": 1, "bad_file": 1, "not_json": 1,
        "unknown_content_type": 1,
    }  # fmt: skip
    assert accounting["damaged_files"] == 0
    # A registry that goes down is an error of the run, and no dead letter.
    with served({"/schemas/ids/7": (503, {})}) as registry:
        failed = again(registry.url)
    assert failed.code == 2
    assert f"the schema registry at {registry.url} refused: 503" in failed.err
