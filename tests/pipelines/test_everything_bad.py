"""Bad records and files of every format at once: the accounting closes, and dead letters say where and why.

Each reason: tests/transforms/test_validate. Damage in each format: tests/transforms/test_read_files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.schemas.encodings import avro

pytestmark = pytest.mark.slow

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
SPAN = ("--from", "2026-11-20T10:00:00Z", "--to", "2026-11-20T13:00:00Z", "--on-bad-file", "skip")


def report(user: str | None, **changes: Any) -> dict[str, Any]:
    given = {"user_id": user, "attribute": "x", "service": "a", "event_time": START, "payload": 0.5}
    return given | changes


#: Lines and what becomes of them.
LINES: list[tuple[str, Any]] = [
    ("not_json", '{"user_id": "u1", '),
    ("used", report("one")),
    ("no_user_id", report(None)),
    # Bad and out of range: bad comes first.
    ("payload_outside_mechanism", report("m", payload=4.5, event_time=START - 1)),
    ("out_of_range", report("r1", event_time=START - 1)),
    ("used", report("r2", event_time=START + 3 * HOUR - 1)),
    ("duplicates", report("one", event_time=START + 5)),
    ("used", report("i1", report_id="r")),
    ("duplicates", report("i1", report_id="r", event_time=START + 2 * HOUR)),
]


def damaged_avro() -> tuple[bytes, int]:
    """Sixty reports in blocks of ten, with a damaged marker behind the third, and where that begins."""
    schema, stream = avro.fixed_report_schema({"user_id": 4}), io.BytesIO()
    rows = np.zeros(60, avro.fixed_dtype(schema))
    rows["user_id"] = np.arange(100, 160, dtype="<u4").view("V4")
    rows["event_time"], rows["payload"] = START, 0.5
    metadata = {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}
    avro.write_fixed(stream, rows, schema, metadata, bytes(range(16)), 10)
    data = bytearray(stream.getvalue())
    ends = [at for at in range(len(data)) if data[at : at + 16] == data[-16:]]
    data[ends[3]] ^= 1
    return bytes(data), ends[2] + 16


def test_the_accounting_of_everything_bad_closes_and_each_dead_letter_has_its_place(
    tmp_path: Path, small_text: str, run_estimate: Callable[..., Any]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    texts = [record if isinstance(record, str) else json.dumps(record) for _, record in LINES]
    (folder / "lines.jsonl").write_text("".join(f"{text}\n" for text in texts))
    data, block = damaged_avro()
    (folder / "damaged.avro").write_bytes(data)
    (folder / "more.jsonl.gz").write_bytes(
        gzip.compress(f"{json.dumps(report('zipped'))}\nbroken\n".encode())
    )
    payloads = [0.5] * 19 + [float("nan"), None]
    rows = pa.Table.from_pylist([report(f"p{n}", payload=payload) for n, payload in enumerate(payloads)])
    pq.write_table(rows, folder / "table.parquet", row_group_size=10)
    (folder / "README.md").write_text("# Reports of November\n")
    fates = Counter(fate for fate, _ in LINES) + Counter(used=50 + 1 + 19, corrupt_block=10, not_json=1)
    fates += Counter(payload_not_a_number=1, no_payload=1, bad_file=1)
    text = f"{small_text}windows: {{size: 1h}}\n"
    run = run_estimate(tmp_path, text, [folder / "*"], *SPAN, "--keep-bad-records")

    kept = {fate: fates.pop(fate) for fate in ("used", "duplicates", "out_of_range")}
    found, dead = run.accounting, fates.total()
    assert found == found | kept | {"in": sum(kept.values()) + dead, "dead_letters": dead, "damaged_files": 2}
    assert found["dead_letters_by_reason"] == dict(sorted(fates.items()))
    assert sum(s.statistic.reports for s in run.snapshots) == kept["used"]
    assert run.code == 3
    assert f"{dead / found['in']:.2%} of the input is bad, more than --max-bad-fraction 0.01" in run.err
    assert "2 files are damaged: how many reports they lost is not known" in run.err
    for reason, reports in fates.items():
        assert any(line.split() == [*reason.split("_"), str(reports)] for line in run.out.splitlines())

    broken = [(text.encode(), fate) for text, (fate, _) in zip(texts, LINES, strict=True) if fate in fates]
    places = [texts.index(text.decode()) for text, _ in broken]
    offsets = [sum(len(text) + 1 for text in texts[:place]) for place in places]
    letters = [(Path(letter["file"]).name, letter) for letter in run.dead_letters]
    assert [(name, d["position"], d["row"], d["reason"], d["reports"]) for name, d in letters] == [
        ("README.md", None, None, "bad_file", 1),
        ("damaged.avro", block, None, "corrupt_block", 10),
        *(("lines.jsonl", at, 0, fate, 1) for at, (_, fate) in zip(offsets, broken, strict=True)),
        ("more.jsonl.gz", letters[-3][1]["position"], 0, "not_json", 1),
        ("table.parquet", 1, 9, "payload_not_a_number", 1),
        ("table.parquet", 2, 0, "no_payload", 1),
    ]
    assert [d["record"] for name, d in letters if name == "lines.jsonl"] == [text for text, _ in broken]
    whole = [d for _, d in letters if d["reason"] in ("not_json", "corrupt_block", "bad_file")]
    assert all(hashlib.sha256(d["record"]).hexdigest() == d["sha256"] for d in whole)
