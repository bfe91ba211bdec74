"""Every kind of bad record and file at once: the accounting closes exactly, and dead letters say why."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

HOUR = 3_600_000
START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
REPORT = {
    "type": "record",
    "name": "Report",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in (("user_id", "string"), ("attribute", "string"), ("service", "string"),
                           ("event_time", "long"), ("report_id", ["null", "string"]), ("payload", "double"))
    ],
}  # fmt: skip


def report(user: str, **changes: Any) -> dict[str, Any]:
    given = {"user_id": user, "attribute": "x", "service": "a", "event_time": START, "payload": 0.5}
    return {key: value for key, value in (given | changes).items() if value is not None}


def avro(records: list[dict[str, Any]], codec: str = "deflate") -> tuple[bytearray, list[int]]:
    """A file of blocks of ten records, and where its sync markers are."""
    stream = io.BytesIO()
    writer = fastavro.write.Writer(stream, REPORT, codec=codec, sync_interval=10**9)
    for place, record in enumerate(records, 1):
        writer.write({"report_id": None, **record})
        if place % 10 == 0:
            writer.dump()
    writer.flush()
    data = stream.getvalue()
    return bytearray(data), [at for at in range(len(data)) if data[at : at + 16] == data[-16:]]


class Case(NamedTuple):
    """The study and some files of every kind, and what must become of what is in them."""

    study: str
    folder: Path
    expected: Counter[str]
    reasons: Counter[str]
    lines: list[tuple[int, str, bytes | dict[str, Any]]]  # (offset, reason, line or fields) in lines.jsonl
    corrupt: tuple[int, int]  # positions of the corrupt block and of the cut one


LINES: list[tuple[str, Any]] = [
    ("not_json", "user u1 sent 0.5"),
    ("not_json", '{"user_id": "u1", '),
    ("not_json", "[1, 2]"),
    ("used", report("one")),
    ("used", report("two")),
    ("no_user_id", report("", user_id=None)),
    ("user_id_too_long", report("u" * 300)),
    ("no_attribute", report("m1", attribute=None)),
    ("unknown_attribute", report("m2", attribute="y")),
    ("no_service", report("m3", service=None)),
    ("unknown_service", report("m4", service="bus")),
    ("no_event_time", report("m5", event_time=None)),
    ("no_payload", report("m6", payload=None)),
    ("payload_not_a_number", report("m7", payload=float("nan"))),
    ("payload_outside_mechanism", report("m8", payload=4.5)),
    ("payload_outside_mechanism", report("m9", service="b", payload=-46.0)),
    # Bad and out of range: bad comes first.
    ("payload_outside_mechanism", report("m10", payload=4.5, event_time=START - 1)),
    ("out_of_range", report("r1", event_time=START - 1)),
    ("out_of_range", report("r2", event_time=START + 3 * HOUR)),
    ("used", report("r3", event_time=START + 3 * HOUR - 1)),
    # The same user, service and window; not another window, nor another service.
    ("used", report("d1", payload=0.1)),
    ("duplicates", report("d1", payload=0.1)),
    ("duplicates", report("d1", event_time=START + 5, payload=0.0)),
    ("used", report("d1", event_time=START + HOUR)),
    ("used", report("d1", service="b")),
    # The same report id of a user in a service, whenever it was sent; another user's is another one.
    ("used", report("i1", report_id="r")),
    ("duplicates", report("i1", report_id="r", event_time=START + 2 * HOUR)),
    ("used", report("i3", report_id="r", service="b")),
    ("used", report("i2", report_id="r", event_time=START + 2 * HOUR)),
    # A repeat of an id and of a user is one duplicate.
    ("duplicates", report("i1", report_id="r", event_time=START + 1)),
]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, small_text: str) -> Case:
    folder = tmp_path_factory.mktemp("bad")
    fates: Counter[str] = Counter(fate for fate, _ in LINES)
    lines, parts, at = [], [], 0
    for fate, record in LINES:
        text = (record if isinstance(record, str) else json.dumps(record)).encode() + b"\n"
        if fate not in ("used", "duplicates", "out_of_range"):
            lines.append((at, fate, text[:-1] if isinstance(record, str) else record))
        parts.append(text)
        at += len(text)
    (folder / "lines.jsonl").write_bytes(b"".join(parts))
    (folder / "text.jsonl").write_text(json.dumps(report("s1", payload="0.5")) + "\n")
    fates["payload_not_a_number"] += 1
    # The third of six blocks is damaged: it says that it has ten records.
    data, ends = avro([report(f"a{i}", event_time=START + i) for i in range(60)])
    data[ends[2] + 19 : ends[3]] = b"\xff" * (ends[3] - ends[2] - 19)
    (folder / "damaged.avro").write_bytes(data)
    fates += Counter(used=50, corrupt_block=10)
    # The file ends inside its third block, which says that it has ten records.
    cut, cut_ends = avro([report(f"c{i}", service="b") for i in range(30)])
    (folder / "cut.avro").write_bytes(cut[: cut_ends[2] + 40])
    fates += Counter(used=20, corrupt_block=10)
    zipped = [json.dumps(report(f"g{i}", service="b")) for i in range(40)]
    (folder / "more.jsonl.gz").write_bytes(gzip.compress("\n".join([*zipped, "broken", ""]).encode()))
    fates += Counter(used=40, not_json=1)
    rows = [report(f"p{i}") for i in range(30)] + [report("p98", payload=float("nan")), report("p99")]
    table = pa.Table.from_pylist([{**row, "payload": row["payload"]} for row in rows])
    payloads = pa.array([*table.column("payload").to_pylist()[:-1], None], pa.float64())
    table = table.set_column(table.schema.get_field_index("payload"), "payload", payloads)
    pq.write_table(table, folder / "table.parquet", row_group_size=10)
    fates += Counter(used=30, payload_not_a_number=1, no_payload=1)
    (folder / "README.md").write_text("# Reports of November\n")
    fates["bad_file"] += 1
    kept = ("used", "duplicates", "out_of_range")
    reasons = Counter({fate: n for fate, n in fates.items() if fate not in kept})
    expected = Counter({fate: fates[fate] for fate in kept}, dead_letters=reasons.total(), late=0)
    study = small_text + "windows: {size: 1h}\n"
    return Case(study, folder, expected, reasons, lines, (ends[2] + 16, cut_ends[2] + 16))


SPAN = ("--from", "2026-11-20T10:00:00Z", "--to", "2026-11-20T13:00:00Z", "--on-bad-file", "skip")


@pytest.fixture(scope="module")
def run(case: Case, tmp_path_factory: Any, run_estimate: Callable[..., Any]) -> Any:
    given = [case.folder / "*"], *SPAN, "--keep-bad-records"
    return run_estimate(tmp_path_factory.mktemp("run"), case.study, *given)


def test_the_accounting_of_everything_bad_at_once_closes_exactly(run: Any, case: Case) -> None:
    found = run.accounting
    assert found["dead_letters_by_reason"] == dict(sorted(case.reasons.items()))
    assert {key: found[key] for key in case.expected} == dict(case.expected)
    assert found["in"] == case.expected.total()
    used, dead = case.expected["used"], case.expected["dead_letters"]
    line = f"{found['in']} reports in = {used} used + 4 duplicates + 0 late + 2 out of range + {dead} dead"
    assert line in run.out


def test_the_good_reports_are_all_in_the_statistics(run: Any, case: Case) -> None:
    assert sum(s.statistic.reports for s in run.snapshots) == case.expected["used"]
    # d1 answered both services in the first hour; i1 and i3, of one id, are two users. Three are later.
    assert run.snapshots[0].statistic.users == case.expected["used"] - 1 - 3


def test_more_bad_input_than_allowed_is_exit_code_3_with_the_outputs(run: Any, case: Case) -> None:
    assert run.code == 3
    share = case.expected["dead_letters"] / case.expected.total()
    assert f"{share:.2%} of the input is bad, more than --max-bad-fraction 0.01" in run.err
    assert f"what was wrong with them: ldpbeam dead-letters {run.path}" in run.err
    assert "3 files are damaged: how many reports they lost is not known" in run.err
    assert run.accounting["damaged_files"] == 3
    for reason, reports in case.reasons.items():
        assert any(line.split() == [*reason.split("_"), str(reports)] for line in run.out.splitlines())
    # One of the three hours has one report.
    assert [e["name"] for e in run.estimates] == ["mean", "both"] * 2
    assert "(publish.at_least): 1, with 1 report in all; 1 window with one report each" in run.err


def test_dead_letters_say_where_they_stood_why_and_their_hash(run: Any, case: Case) -> None:
    by_file: dict[str, list[Any]] = {}
    for letter in run.dead_letters:
        by_file.setdefault(Path(letter["file"]).name, []).append(letter)
        assert letter["record"] is not None
        if letter["reason"] in ("not_json", "corrupt_block", "bad_file"):
            assert hashlib.sha256(letter["record"]).hexdigest() == letter["sha256"]
    assert len(by_file["lines.jsonl"]) == len(case.lines)
    for letter, (at, reason, what) in zip(by_file["lines.jsonl"], case.lines, strict=True):
        assert (letter["position"], letter["row"], letter["reason"]) == (at, 0, reason)
        assert letter["reports"] == 1
        if isinstance(what, bytes):
            assert letter["sha256"] == hashlib.sha256(what).hexdigest()
            assert letter["detail"].startswith("not ")
        else:
            assert letter["record"] == json.dumps(what).encode()
    ((damaged,), (cut,)) = by_file["damaged.avro"], by_file["cut.avro"]
    assert (damaged["position"], damaged["reports"], damaged["reason"]) == (
        case.corrupt[0],
        10,
        "corrupt_block",
    )
    assert (cut["position"], cut["reports"], cut["reason"]) == (case.corrupt[1], 10, "corrupt_block")
    ((readme,), (zipped,)) = by_file["README.md"], by_file["more.jsonl.gz"]
    assert (readme["reason"], readme["position"], readme["reports"]) == ("bad_file", None, 1)
    assert zipped["sha256"] == hashlib.sha256(b"broken").hexdigest()
    assert [(d["position"], d["row"], d["reason"]) for d in by_file["table.parquet"]] == [
        (3, 0, "payload_not_a_number"),
        (3, 1, "no_payload"),
    ]
