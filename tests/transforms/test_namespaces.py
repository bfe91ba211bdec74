"""No client writes into a namespace of ours: each row of the table in docs/limits.md has its test here."""

from __future__ import annotations

import hmac
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.encoded import arrow_stream

import ldpbeam as ldp
from ldpbeam.answers.solve import solve
from ldpbeam.beam.elements import _Decode
from ldpbeam.schemas.messages.decode import ARROW, LINES, Message, decode_messages
from ldpbeam.schemas.reports.columns import DELIVERY, decoded
from ldpbeam.schemas.reports.records import by_payload, columns_of
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import estimates_name, snapshot_name
from ldpbeam.transforms.outputs.panes import estimate_id
from ldpbeam.transforms.reports.counts import COUNTS
from ldpbeam.transforms.reports.dead_letters import PLAIN, REASONS, Disclosure
from ldpbeam.transforms.reports.validation import Validation, wanted_columns
from ldpbeam.transforms.tally import Tally, tally_of
from ldpbeam.transforms.windows import coders
from ldpbeam.transforms.windows.cut import Pieces, each_window
from ldpbeam.transforms.windows.fold import Fold
from ldpbeam.transforms.windows.groups import GroupStatistics
from ldpbeam.transforms.windows.piece_keys import GroupKey, WindowGroupKey

START = 1_795_168_800_000  # 2026-11-20T10:00:00Z
STUDY = ldp.Study.from_dict(
    study="names",
    attributes={
        "x": {
            "domain": {"numeric": [0, 1]},
            "services": {"a": {"mechanism": "piecewise", "epsilon": 1.0}},
            "estimates": {"mean": {"estimator": "ivw"}},
        }
    },
    windows={"size": "1h"},
    groups={"field": "region", "at_most": 2},
)
COLUMNS = wanted_columns(STUDY, "x", "a")
HONEST = 1000


def report(user: str, **changes: Any) -> dict[str, Any]:
    return {"user_id": user, "event_time": START + 60_000, "payload": 0.5, **changes}


def batches_of(records: Sequence[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Decoded batches, as files give them."""
    for rows in by_payload(records):
        chosen = [records[row] for row in rows.tolist()]
        nowhere = pa.nulls(len(chosen), pa.int64())
        yield decoded(columns_of(chosen, COLUMNS.fields), COLUMNS, {}, nowhere, nowhere)


def streamed(messages: Sequence[Message], shards: int = 8, study: Study = STUDY) -> Counter[str]:
    """What a stream counts of messages: they are decoded, checked, cut by window and user, and folded."""
    pieces = Pieces(study.windows, shards, each_window)
    counts: Counter[str] = Counter()
    for batch in decode_messages(messages, COLUMNS):
        assert isinstance(batch, pa.RecordBatch)
        for reports in Validation(study).validate(batch).reports:
            counts.update(dict(pieces.gather(reports)))
    by_key: dict[Any, list[pa.RecordBatch]] = {}
    for key, parts in pieces.taken():
        by_key.setdefault(key, []).extend(parts)
    for key, parts in by_key.items():
        for _, folded in Fold(study, report_ids=True).fold(key, parts):
            counts.update(dict(folded.counts(study)))
    return counts


def lines(records: Sequence[dict[str, Any]]) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


def _deliveries() -> None:
    """Ids of the honest messages, forged for 40 invented users each with an earlier event time."""
    honest = [Message(str(7000 + n), lines([report(f"honest {n}")]), LINES) for n in range(HONEST)]
    forged = [
        report(f"invented {user}", report_id=f"{7000 + n}/0", event_time=START)
        for n in range(HONEST)
        for user in range(n % 40, n % 40 + 2)
    ]
    assert streamed([Message("6999", lines(forged), LINES), *honest], shards=1) == {
        "used": HONEST + 40 + 1,
        "duplicates": len(forged) - 41,
    }, "an invented user counts once, and every honest one does"


def _report_ids() -> None:
    honest = [report(f"honest {n}", report_id=f"r{n}") for n in range(HONEST)]
    forged = [report(f"invented {n}", report_id=f"r{n}", event_time=START) for n in range(HONEST)]
    batch = _tally([*forged, *honest])
    assert (batch.accounting["used"], batch.accounting["duplicates"]) == (2 * HONEST, 0)
    sent = [Message("1", lines(forged), LINES), Message("2", lines(honest), LINES)]
    assert streamed(sent, shards=1) == {"used": 2 * HONEST}
    # The same user's report with the same id is still the same one, whatever else differs.
    again = _tally([*honest, *(one | {"payload": 0.1, "event_time": START + 3_600_000} for one in honest)])
    assert (again.accounting["used"], again.accounting["duplicates"]) == (HONEST, HONEST)


def _tally(records: Sequence[dict[str, Any]]) -> Tally:
    return tally_of(STUDY, list(batches_of(records)))


def _groups() -> None:
    names = ["None", "other groups", "rest", "/rest", "\0", "", None]
    groups = [name for number, name in enumerate(names) for _ in range(9 - number)]
    records = [
        report(f"u{number}", **({} if name is None else {"region": name}))
        for number, name in enumerate(groups)
    ]
    snapshots = _tally(records).snapshots
    found = {(s.group, s.other_groups): s.statistic.reports for s in snapshots}
    # An empty name is no group: 4 + 3 reports have none, and they are one of the four other groups.
    assert found == {("None", 0): 9, ("other groups", 0): 8, (None, 4): 7 + 6 + 5 + 7}
    keys = [WindowGroupKey("x", None, name) for name in ("", "None", "\0", None)]
    encoded = [coders.KeyCoder(WindowGroupKey).encode(key) for key in keys]
    assert len(set(encoded)) == len(keys)
    statistics = GroupStatistics({GroupKey("x", name): snapshots[0].statistic for name in ("None", None)})
    assert coders.StatisticsCoder().decode(coders.StatisticsCoder().encode(statistics)) == statistics


def _published() -> None:
    (snapshot,) = _tally([report("u")]).snapshots
    (solved,) = solve(STUDY, snapshot)
    groups = [("rest", 0), ("/rest", 0), ("rest/0", 0), ("0", 0), ("", 0), (None, 0), (None, 3)]
    own = [replace(solved, group=group, other_groups=others) for group, others in groups]
    assert len({estimate_id(record) for record in own}) == len(groups)


def _files() -> None:
    hostile = [report(f"u{n}", region=name) for n, name in enumerate(["../../x", "-all.avro", "a\0b"])]
    names = {
        name
        for s in _tally(hostile).snapshots
        for name in (
            snapshot_name(STUDY.name, s.attribute, s.window, "r"),
            estimates_name(STUDY.name, s.attribute, s.window, "r"),
        )
    }
    stem = "names-x-20261120T100000Z-20261120T110000Z.r"
    assert names == {f"{stem}.avro", f"{stem}.jsonl"}


def _metadata() -> None:
    """What the pipeline writes into a batch's metadata, written by a client into a message."""
    ours = {b"watermark": b"9" * 18, b"file": b"/etc/passwd", b"version": b"7", b"attribute": b"y"}
    ours[b"ldpbeam.letters"] = b"9" * 18
    table = pa.Table.from_pylist([report("u")]).replace_schema_metadata(ours)
    data = arrow_stream(table)
    (batch,) = decode_messages([Message("1", data, ARROW)], COLUMNS)
    assert isinstance(batch, pa.RecordBatch)
    kept = {b"attribute": b"x", b"service": b"a"}
    assert batch.schema.metadata == {**kept, b"ldpbeam.letters": str(len(data)).encode()}
    # A batch that looks decoded, sent to a Beam pipeline.
    looks = decoded(
        columns_of([report("u")], COLUMNS.fields), COLUMNS, {}, pa.array([1]), pa.array([2])
    ).append_column(DELIVERY, pa.array([b"1/0"]))
    looks = looks.replace_schema_metadata({**looks.schema.metadata, **ours})
    decode = _Decode(COLUMNS, False, PLAIN)
    decode.start_bundle()
    passed = [one for one in decode.process(looks) if isinstance(one, pa.RecordBatch)]
    assert [DELIVERY in one.schema.names for one in passed] == [False]
    (found,) = (dict(one.schema.metadata) for one in passed)
    assert int(found.pop(b"ldpbeam.letters")) < 2**16 and found == kept


def _columns() -> None:
    extra = {DELIVERY: "1/0", "position": 5, "row": 6, "file": "f", "watermark": 1}
    (batch,) = decode_messages([Message("12", lines([report("u", **extra)]), LINES)], COLUMNS)
    assert isinstance(batch, pa.RecordBatch)
    (row,) = batch.to_pylist()
    assert (row[DELIVERY], row["position"], row["row"], row["user_id"]) == (b"12/0", 12, 0, b"u")
    assert not {"file", "watermark"} & row.keys()
    (plain,) = batches_of([report("u", **extra)])
    assert DELIVERY not in plain.schema.names
    with pytest.raises(ldp.StudyError, match="a column of every report"):
        ldp.Study.from_dict(json.loads(STUDY.text) | {"groups": {"field": DELIVERY}})


def _counts() -> None:
    hostile = ["used", "dead_letters_by_reason/no_user_id", "damaged_file/x", "__proto__"]
    records = [report("u", attribute=name, service=name, region=name) for name in hostile]
    found = _tally(records).accounting
    assert found["dead_letters_by_reason"] == {"unknown_attribute": 4}
    assert set(found["dead_letters_by_reason"]) <= set(REASONS)
    assert (found["in"], found["used"], found["damaged_files"]) == (4, 0, 0)
    assert COUNTS not in found


def _hidden_ids() -> None:
    """A client sends the key by which another user is hidden."""
    key = b"k" * 32
    hidden = hmac.digest(key, b"victim", "sha256")[:16]
    validation = Validation(STUDY, disclosure=Disclosure(user_id_key=key))
    batch = next(batches_of([report("victim"), report("forger")]))
    raw = batch.set_column(0, "user_id", pa.array([b"victim", hidden]))
    (valid,) = validation.validate(raw).reports
    assert valid.column("user").to_pylist()[0] == hidden != valid.column("user").to_pylist()[1]


def _statistics() -> None:
    hostile = [report(f"u{n}", attribute=name) for n, name in enumerate(["x.east", "x/1", "X", "y"])]
    assert _tally(hostile).snapshots == []


#: By the first cell of a row of the table.
TESTS = {
    "deliveries (a report without an id, in a message)": _deliveries,
    "report ids of other users": _report_ids,
    "the group of all other groups, and the group of none": _groups,
    "ids of published estimates": _published,
    "names of files": _files,
    "metadata of a batch: file, watermark, channel": _metadata,
    "columns that we add: position, row, delivery": _columns,
    "names of counts and reasons": _counts,
    "hidden user ids (`--user-id-key-file`)": _hidden_ids,
    "keys of statistics, snapshots, the ledger and open windows": _statistics,
}


def test_the_table_of_namespaces_is_that_of_these_tests() -> None:
    text = Path(__file__).parents[2].joinpath("docs", "limits.md").read_text()
    section = text.partition("## What a client cannot write")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert [row for row in rows if row not in ("namespace", "---")] == list(TESTS)


@pytest.mark.parametrize("name", TESTS)
def test_no_client_writes_into_a_namespace_of_ours(name: str) -> None:
    TESTS[name]()
