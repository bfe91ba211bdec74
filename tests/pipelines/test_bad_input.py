"""What bad input gets: each row of DESIGN.md's table (options and output folders: test_arguments)."""

from __future__ import annotations

import gzip
import io
import json
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.mechanisms import Piecewise
from ldpbeam.schemas.study.yaml_file import parse_study


def report(user: str, **changes: Any) -> dict[str, Any]:
    return {"user_id": user, "attribute": "x", "service": "a", "event_time": 0, "payload": 0.5, **changes}


@pytest.fixture
def good(tmp_path: Path, write_lines: Callable[..., Path]) -> Path:
    """Two hundred good reports."""
    return write_lines(tmp_path / "in" / "good.jsonl", [report(f"u{i}") for i in range(200)])


def test_good_input_is_used_without_a_word_of_complaint(
    small_text: str, tmp_path: Path, run_estimate: Any, write_lines: Any
) -> None:
    sent = Piecewise(1.0).perturb(np.full(200, 0.5), np.random.default_rng(1))
    reports = [report(f"u{i}", payload=float(payload)) for i, payload in enumerate(sent)]
    good = write_lines(tmp_path / "in" / "good.jsonl", reports)
    again = write_lines(tmp_path / "in" / "again.jsonl", [report("u1", report_id="r")])
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        found = run_estimate(tmp_path, small_text, [good, again])
    assert (found.code, found.err) == (0, "")
    assert found.accounting["duplicates"] == 1
    # A person would see these on the screen; imports are done, so none is of somebody else's start.
    assert [str(w.message) for w in complaints if issubclass(w.category, FutureWarning)] == []


# A study file that is wrong: the place in the file, what was found, what is allowed; nothing started.
@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ("buckets: 8", "buckets: 1", [":5: buckets of attribute x: ", "than or equal to 2, found 1"]),
        ("epsilon: 1.0", "epsilon: -1", [":7: epsilon of service a of attribute x: ", "20, found -1"]),
        ("estimates:", "estimate:", ["estimate of attribute x: unknown key; did you mean 'estimates'?"]),
        ("piecewise", "picewise", ["unknown mechanism 'picewise'; did you mean 'piecewise'?"]),
        ("{estimator: ule}", "{estimator: ule, services: [c]}", ["unknown service 'c'; there are: a, b"]),
        ("[0, 1]", "[0, 1", ["this is not YAML"]),
        ("study: small", "study: small\nwindows: {size: 2h, period: 1m}", ["120 times", "60 is the most"]),
    ],
)  # fmt: skip
def test_a_wrong_study_file_gets_one_message_and_nothing_starts(
    old: str, new: str, messages: list[str], small_text: str, good: Path, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path, small_text.replace(old, new, 1), [good])
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"ldpbeam: {tmp_path}/study.yaml:")
    assert all(message in found.err for message in messages)
    assert not found.path.exists()


def test_a_study_file_that_is_not_there_is_named(command: Any, tmp_path: Path) -> None:
    found = command("explain", "--study", tmp_path / "nothing.yaml")
    assert found.code == 2
    assert f"{tmp_path}/nothing.yaml: cannot be read" in found.err


# A file that is no Avro, Parquet or JSON: named in the error; --on-bad-file skip makes it a dead letter.
@pytest.mark.parametrize(
    "data",
    [
        b"user,value\n1,2\n",
        b"\x89PNG\r\n\x1a\n",
        b'["not", "a", "record"]\n',
        b"PAR1" + bytes(100),  # what a copy that was cut short leaves: all its reports would be lost
        b"Obj\x01" + bytes(100),
    ],
)
def test_a_file_that_is_none_is_named_or_skipped_as_a_dead_letter(
    data: bytes, good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    other = tmp_path / "in" / "other.csv"
    other.write_bytes(data)
    found = run_estimate(tmp_path / "stop", small_text, [good, other])
    assert found.code == 2
    assert f"{other}: " in found.err
    assert "--on-bad-file skip" in found.err
    assert not found.path.exists()
    found = run_estimate(tmp_path / "skip", small_text, [good, other], "--on-bad-file", "skip")
    # What stood in the file is not known, so it may have been reports.
    assert found.code == 3
    assert [(d["file"], d["reason"]) for d in found.dead_letters] == [(str(other), "bad_file")]
    assert (found.accounting["used"], found.accounting["damaged_files"]) == (200, 1)


def test_a_pattern_without_a_file_is_named(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path, small_text, [good, tmp_path / "none*.avro"])
    assert found.code == 2
    assert f"--input {tmp_path}/none*.avro: no file has this name" in found.err
    assert not found.path.exists()


# A corrupt block in a good file: damage. With --on-bad-file skip it is a dead letter and the others count.
def test_a_corrupt_avro_block_is_a_dead_letter_and_the_others_count(
    small_text: str, tmp_path: Path, run_estimate: Any, simulate: Any, write_reports: Any
) -> None:
    sent = simulate(parse_study(small_text), "x", np.full(40_000, 0.5), services=["a"])
    (path,) = write_reports(tmp_path / "in", sent)
    data = bytearray(path.read_bytes())
    ends = [at for at in range(len(data)) if data[at : at + 16] == data[-16:]]
    data[ends[1]] ^= 1  # the marker behind the first of three blocks
    path.write_bytes(data)
    assert run_estimate(tmp_path / "stop", small_text, [path]).code == 2
    found = run_estimate(tmp_path, small_text, [path], "--on-bad-file", "skip")
    assert (found.code, found.accounting["in"], found.accounting["used"]) == (3, 40_000, 40_000 - 16_384)
    (letter,) = found.dead_letters
    assert (letter["reason"], letter["position"]) == ("corrupt_block", ends[0] + 16)
    assert letter["reports"] == 16_384


def test_a_corrupt_parquet_row_group_is_a_dead_letter_and_the_others_count(
    small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    path = tmp_path / "in.parquet"
    rows = [report(f"u{i:04}", payload=i / 4000) for i in range(4000)]
    pq.write_table(
        pa.Table.from_pylist(rows), path, row_group_size=1000, use_dictionary=False, compression="gzip"
    )
    data = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    data[start + 40 : start + 400] = bytes(360)
    path.write_bytes(data)
    stopped = run_estimate(tmp_path / "stop", small_text, [path])
    assert (stopped.code, f"{path}, row group 2: it does not decode" in stopped.err) == (2, True)
    found = run_estimate(tmp_path, small_text, [path], "--on-bad-file", "skip")
    assert [(d["reason"], d["position"], d["reports"]) for d in found.dead_letters] == [
        ("corrupt_block", 2, 1000)
    ]
    assert (found.code, found.accounting["used"], found.accounting["in"]) == (3, 3000, 4000)


def test_of_a_gzip_file_that_was_cut_short_nothing_counts(
    small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    # Cut where a line ends, so that what is there is whole: only the missing end of the stream tells.
    packer = zlib.compressobj(wbits=31)
    lines = [json.dumps(report(f"u{i}")).encode() + b"\n" for i in range(1000)]
    data = packer.compress(b"".join(lines[:500])) + packer.flush(zlib.Z_SYNC_FLUSH)
    whole = data + packer.compress(b"".join(lines[500:])) + packer.flush()
    assert gzip.decompress(whole) == b"".join(lines)
    (tmp_path / "cut.jsonl.gz").write_bytes(data)
    found = run_estimate(tmp_path, small_text, [tmp_path / "cut.jsonl.gz"], "--on-bad-file", "skip")
    assert [d["reason"] for d in found.dead_letters] == ["bad_file"]
    assert (found.accounting["in"], found.accounting["used"], found.estimates) == (1, 0, [])


# A record that is none: a dead letter with its reason, counted per reason.
@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("no_user_id", {"user_id": None}),
        ("no_service", {"service": None}),
        ("no_payload", {"payload": None}),
        ("unknown_service", {"service": "c"}),
        ("unknown_attribute", {"attribute": "y"}),
        ("payload_not_a_number", {"payload": float("nan")}),
        ("payload_not_a_number", {"payload": "0.5"}),
        ("payload_outside_mechanism", {"payload": 4.0831}),
        ("payload_outside_mechanism", {"service": "b", "payload": 45.001}),  # 1 + 44 scales of 2 / epsilon
    ],
)
def test_a_record_that_is_no_report_is_a_dead_letter(
    reason: str, changes: dict[str, Any], good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    with good.open("a") as stream:
        stream.write(json.dumps(report("bad", **changes)) + "\n")
    found = run_estimate(tmp_path, small_text, [good])
    assert found.code == 0
    assert (found.accounting["in"], found.accounting["used"]) == (201, 200)
    assert found.accounting["dead_letters_by_reason"] == {reason: 1}
    assert [*reason.split("_"), "1"] in [line.split() for line in found.out.splitlines()]


# A good record outside --from and --to: counted, and no error.
def test_a_record_out_of_range_is_counted_and_no_error(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    found = run_estimate(tmp_path, small_text, [good], "--from", "1970-01-01T00:00:00.001Z")
    assert found.code == 0
    assert found.accounting["out_of_range"] == found.accounting["in"] == 200
    assert found.estimates == found.dead_letters == []


# An event time in another unit than milliseconds: dead letters that say so.
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "avro"])
@pytest.mark.parametrize(
    ("factor", "unit"), [(1e-3, "seconds"), (1e3, "microseconds"), (1e6, "nanoseconds")], ids=str
)
def test_event_times_in_another_unit_are_dead_letters_that_say_so(
    factor: float, unit: str, kind: str, small_text: str, tmp_path: Path, run_estimate: Any, write_lines: Any
) -> None:
    now = 1_763_628_000_000
    times = [now, int(now * factor), int(now * factor) + 1]
    records = [report(f"u{place}", event_time=time) for place, time in enumerate(times)]
    path = tmp_path / f"r.{kind}"
    if kind == "jsonl":
        write_lines(path, records)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        kinds = {"event_time": "long", "payload": "double"}
        fields = [{"name": name, "type": kinds.get(name, "string")} for name in records[0]]
        with path.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "R", "fields": fields}, records)
    options = ("--max-bad-fraction", 1)
    found = run_estimate(tmp_path / "a", small_text + "windows: {size: 1h}\n", [path], *options)
    assert found.code == 0, found.err
    assert found.accounting["dead_letters_by_reason"] == {f"event_time_looks_like_{unit}": 2}
    assert all(letter["detail"].startswith(f"looks like {unit}") for letter in found.dead_letters)
    assert [s.window for s in found.snapshots] == [(1_763_625_600_000, 1_763_629_200_000)]
    # A study that has no use for event times takes these reports.
    found = run_estimate(tmp_path / "b", small_text, [path])
    assert (found.code, found.accounting["used"]) == (0, 3)


def test_event_times_before_1990_are_used_where_a_from_says_so(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    windowed = small_text + "windows: {size: 1h}\n"
    refused = run_estimate(tmp_path / "a", windowed, [good])
    assert (refused.code, refused.accounting["dead_letters"]) == (3, 200)
    found = run_estimate(tmp_path / "b", windowed, [good], "--from", "1970-01-01T00:00:00Z")
    assert (found.code, found.accounting["used"]) == (0, 200)


# The same report twice: counted once.
@pytest.mark.parametrize("changes", [{}, {"event_time": 5, "payload": -1.0}, {"report_id": "r"}])
def test_a_second_report_of_a_user_and_service_is_a_duplicate(
    changes: dict[str, Any], good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    with good.open("a") as stream:
        stream.write(json.dumps(report("u7", **changes)) + "\n")
    found = run_estimate(tmp_path, small_text, [good])
    assert (found.code, found.accounting["used"], found.accounting["duplicates"]) == (0, 200, 1)


# Too many bad: outputs are written, exit 3, the table of reasons printed.
@pytest.mark.parametrize(
    ("bad", "options", "code"), [(2, (), 0), (3, (), 3), (3, ("--max-bad-fraction", 0.5), 0)]
)
def test_more_bad_records_than_allowed_is_exit_code_3(
    bad: int, options: tuple[Any, ...], code: int, tmp_path: Path, small_text: str, run_estimate: Any,
    write_lines: Any,
) -> None:  # fmt: skip
    # Two of 200 are exactly the 1% that is allowed.
    records = [report(f"u{i}", payload=99.0 if i < bad else 0.5) for i in range(200)]
    found = run_estimate(tmp_path, small_text, [write_lines(tmp_path / "r.jsonl", records)], *options)
    assert found.code == code
    assert ("more than --max-bad-fraction" in found.err) == (code == 3)
    assert f"payload outside mechanism        {bad}" in found.out
    assert found.estimates[0]["reports"] == 200 - bad


def test_avro_of_something_else_is_dead_letters_not_a_traceback(
    good: Path, small_text: str, tmp_path: Path, run_estimate: Any
) -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, {"type": "array", "items": "long"}, [[1, 2], [3]])
    (tmp_path / "in" / "numbers.avro").write_bytes(stream.getvalue())
    found = run_estimate(tmp_path, small_text, [tmp_path / "in" / "*"], "--on-bad-file", "skip")
    assert found.accounting["dead_letters_by_reason"] == {"corrupt_block": 2}
    assert found.accounting["used"] == 200
