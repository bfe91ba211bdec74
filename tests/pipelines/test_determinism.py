"""The same reports give the same counts and the same bits, however they are split, ordered and written."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.files import json_lines, parquet
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.windows import split as windows

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
FIELDS = ("user_id", "attribute", "service", "event_time", "report_id", "payload", "region")
SCHEMA = {
    "type": "record",
    "name": "Report",
    "fields": [
        {"name": name, "type": {"event_time": "long", "payload": "double"}.get(name, ["null", "string"])}
        for name in FIELDS
    ],
}


@pytest.fixture(scope="module")
def study(small_text: str) -> str:
    """Windows that overlap, and more groups than stand alone."""
    return small_text + "windows: {size: 2h, period: 1h}\ngroups: {field: region, at_most: 2}\n"


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """Reports of 300 users, with repeats by user and by report id, some without an id or a group."""
    rng = random.Random(17)
    made = []
    for place in range(900):
        made.append(
            {
                "user_id": f"user {rng.randrange(300)}",
                "attribute": "x",
                "service": rng.choice("ab"),
                "event_time": START + rng.randrange(0, 3 * HOUR, HOUR // 4),
                "report_id": rng.choice([None, f"r{rng.randrange(400)}"]),
                "payload": rng.choice([rng.uniform(-4, 4), 0.5, -0.5]),
                "region": rng.choice(["north", "north", "south", "east", "west", None]),
            }
        )
        if place % 10 == 0:
            made.append(dict(made[-1]))
    return made


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_bytes(lines(records))


def lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(
        json.dumps({key: value for key, value in record.items() if value is not None}) + "\n"
        for record in records
    ).encode()


def write_gz(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_bytes(gzip.compress(lines(records)))


def write_avro(path: Path, records: list[dict[str, Any]]) -> None:
    with path.open("wb") as stream:
        fastavro.writer(stream, SCHEMA, records, codec="deflate", sync_interval=2000)


def write_parquet(path: Path, records: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(records)
    times = table.column("event_time").cast(pa.timestamp("ms", "UTC"))
    table = table.set_column(3, "event_time", times)
    pq.write_table(table, path, row_group_size=83)


WRITERS = {"jsonl": write_jsonl, "gz": write_gz, "avro": write_avro, "parquet": write_parquet}


def write(folder: Path, records: list[dict[str, Any]], kinds: list[str], seed: int | None) -> Path:
    """One file a kind, the reports dealt out to them, shuffled."""
    folder.mkdir()
    if seed is not None:
        records = random.Random(seed).sample(records, len(records))
    for place, kind in enumerate(kinds):
        WRITERS[kind](folder / f"{place}.{kind}", records[place :: len(kinds)])
    return folder / "*"


@pytest.fixture(scope="module")
def plain(study: str, records: list[dict[str, Any]], tmp_path_factory: Any, run_estimate: Any) -> Any:
    """One file, in order, everything by default."""
    folder = tmp_path_factory.mktemp("plain")
    plain = run_estimate(folder, study, [write(folder / "in", records, ["jsonl"], None)])
    assert plain.code == 0, plain.err
    assert plain.accounting["duplicates"] > 100
    assert {snapshot.group for snapshot in plain.snapshots} > {"north", None}
    assert {snapshot.other_groups for snapshot in plain.snapshots} > {0}
    return plain


def test_formats_orders_shards_sizes_and_workers_do_not_matter(
    plain: Any,
    study: str,
    records: Any,
    tmp_path: Path,
    run_estimate: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (avro, parquet):
        monkeypatch.setattr(module, "BATCH_REPORTS", 3)
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 900)
    monkeypatch.setattr(files, "RANGE_BYTES", 2_100)
    monkeypatch.setattr(windows, "GATHERED_REPORTS", 15)
    inputs = [write(tmp_path / "in", records, [*WRITERS], seed=4)]
    again = run_estimate(
        tmp_path, study, inputs, "--runner", "direct", "--shards", 7, "--estimate-on", "worker"
    )
    assert again.code == 0, again.err
    assert again.accounting == plain.accounting
    assert again.snapshots == plain.snapshots
    # Text, so that no bit of a number is lost on the way.
    assert json.dumps(again.estimates) == json.dumps(plain.estimates)
