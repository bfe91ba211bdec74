"""Files that released versions wrote are read for ever: docs/formats.md says what is promised.

What the files hold stands beside them as plain JSON, which fastavro wrote (``tests/data/write_formats.py``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.messages.decode import Message, decode_messages
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.reports.columns import Columns

DATA = Path(__file__).parents[1] / "data"
VERSIONS = sorted(DATA.glob("[0-9]*"))
FORMATS = ("avro", "parquet", "jsonl")

pytestmark = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)


def listed(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def writer_schema(path: Path) -> Any:
    with path.open("rb") as stream:
        return fastavro.reader(stream).writer_schema


def as_today(path: Path, name: str) -> list[dict[str, Any]]:
    """The records of a file as a program with today's schema reads them."""
    with path.open("rb") as stream:
        return list(fastavro.reader(stream, reader_schema=schema(name)))  # type: ignore[arg-type]


def snapshots_in(*paths: Path) -> list[Snapshot]:
    snapshots: list[Snapshot] = []
    for path in paths:
        with path.open("rb") as stream:
            snapshots += read_snapshots(stream)
    return snapshots


def plain(snapshot: Snapshot) -> dict[str, Any]:
    """What a snapshot says, but for the run that made it, as the JSON beside the files says it."""
    statistic = snapshot.statistic
    start, end = snapshot.window or (None, None)
    return {
        "attribute": snapshot.attribute,
        "group": snapshot.group,
        "other_groups": snapshot.other_groups,
        "window_start": start,
        "window_end": end,
        "pane_index": snapshot.pane_index,
        "pane_timing": snapshot.pane_timing,
        "complete": snapshot.complete,
        "parts": list(snapshot.parts),
        "fingerprint": statistic.fingerprint,
        "reports": statistic.reports,
        "users": statistic.users,
        "histograms": [histogram.tolist() for histogram in statistic.histograms],
        "moments": [
            {
                "answered": answered,
                "users": moments.users,
                "sums": list(map(str, moments.sums)),
                "squares": list(map(str, moments.squares)),
            }
            for answered, moments in sorted(statistic.moments.items())
        ],
        "joint_cells": statistic.joint_cells.tolist(),
        "joint_counts": statistic.joint_counts.tolist(),
    }


def written_beside(version: Path, attribute: str | None = None) -> list[dict[str, Any]]:
    """What the JSON beside the files says of their snapshots, in the order of their files."""
    of_files = ("run", "shard", "channels", "study", "study_fingerprint")
    return [
        {name: value for name, value in entry.items() if name not in of_files}
        for entry in listed(version / "statistics.json")
        if attribute in (None, entry["attribute"])
    ]


def test_snapshots_are_read(version: Path) -> None:
    snapshots = snapshots_in(*sorted((version / "out" / "statistics").iterdir()))
    assert list(map(plain, snapshots)) == written_beside(version)
    assert {snapshot.run for snapshot in snapshots} == {listed(version / "out" / "run.json")["run"]}


def test_a_report_is_the_same_one_in_every_format(version: Path, tmp_path: Path, run_estimate: Any) -> None:
    """Users and times are the same, so that all but one of each report's copies are duplicates."""
    study = (version / "study.yaml").read_text(encoding="utf-8")
    inputs = [path for kind in FORMATS for path in sorted((version / "reports" / kind).iterdir())]
    ran = run_estimate(tmp_path, study, inputs)
    used = listed(version / "out" / "accounting.json")["used"]
    assert (ran.accounting["used"], ran.accounting["duplicates"]) == (used, 2 * used)
    assert list(map(plain, ran.snapshots)) == written_beside(version)


def test_a_run_says_what_a_run_of_the_version_said(version: Path, tmp_path: Path, run_estimate: Any) -> None:
    study = (version / "study.yaml").read_text(encoding="utf-8")
    inputs = [*sorted((version / "reports" / "avro").iterdir()), version / "reports" / "bad.jsonl"]
    ran = run_estimate(tmp_path, study, inputs, "--max-bad-fraction", 1)
    kept = listed(version / "out" / "accounting.json")
    assert {name: ran.accounting[name] for name in kept} == kept
    assert set(listed(version / "out" / "run.json")) <= set(ran.json("run.json"))
    entries, now = listed(version / "out" / "ledger.json"), ran.json("ledger.json")
    assert _without_new_fields(now, entries) == entries


def _without_new_fields(now: Any, then: Any) -> Any:
    """Lists and objects of JSON as they are now, with the fields that they had then."""
    if isinstance(then, dict):
        return {name: _without_new_fields(now[name], value) for name, value in then.items()}
    if isinstance(then, list):
        return [_without_new_fields(*pair) for pair in zip(now, then, strict=True)]
    return now


def test_statistics_are_estimated_again(version: Path, tmp_path: Path, command: Any) -> None:
    """The channels' fingerprints are the same, and with them the unbiased means, but for newer weights."""
    ran = command(
        *("rollup", "--study", version / "study.yaml", "--output", tmp_path / "out", "--window", "1h"),
        *("--statistics", *sorted((version / "out" / "statistics").iterdir())),
    )
    assert ran.code == 0, ran.err
    again, kept = lines(tmp_path / "out" / "estimates.jsonl"), lines(version / "out" / "estimates.jsonl")
    fields = ("attribute", "name", "group", "window_start", "window_end", "reports", "users")
    assert [[line[name] for name in fields] for line in again] == [
        [line[name] for name in fields] for line in kept
    ]
    means = [
        (now["mean"], then["mean"], then["standard_error"])
        for now, then in zip(again, kept, strict=True)
        if then["estimator"] == "ivw"
    ]
    assert means
    # Versions weight services differently; a mean of other reports would be further off.
    assert all(abs(now - then) < error for now, then, error in means)


def test_dead_letters_are_read_with_todays_schema(version: Path) -> None:
    paths = sorted((version / "out" / "dead_letters").iterdir())
    records = [record for path in paths for record in as_today(path, "dead_letter")]
    kept = listed(version / "dead_letters.json")
    assert len(records) == len(kept) > 0
    for record, letter in zip(records, kept, strict=True):
        record["record"] = record["record"].decode()
        assert {name: record[name] for name in letter} == letter


def test_a_single_object_is_read(version: Path) -> None:
    data = (version / "message.bin").read_bytes()
    (batch,) = decode_messages([Message("1", data, "application/avro")], Columns())
    assert isinstance(batch, pa.RecordBatch)
    (row,) = batch.to_pylist()
    assert (row["user_id"], row["attribute"], row["service"]) == (b"person-0", "minutes", "maps")
    assert (row["event_time"], row["payload"]) == (1_795_158_000_000, 0.5)


@pytest.mark.parametrize("name", ["statistic", "dead_letter"])
def test_a_schema_only_grows_by_fields_with_defaults(version: Path, name: str) -> None:
    """New fields have a default and stand last, in snapshots before the hash; types fit those of the file."""
    folder, pattern = {"statistic": ("statistics", "*.avro"), "dead_letter": ("dead_letters", "*.avro")}[name]
    path = next((version / "out" / folder).glob(pattern))
    before = writer_schema(path)
    assert as_today(path, name)
    names = [field["name"] for field in before["fields"]]
    fields = schema(name)["fields"]
    assert [field["name"] for field in fields if field["name"] in names] == names
    last = ["sha256"] if name == "statistic" else []
    old = [name for name in names if name not in last]
    assert [field["name"] for field in fields][: len(old)] == old
    assert all("default" in field for field in fields[len(old) :])
    if last:
        assert fields[-1]["name"] == last[0]
