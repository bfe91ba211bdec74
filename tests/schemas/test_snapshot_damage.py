"""Damaged, contradictory and hostile files of snapshots: refused in one sentence, or without effect."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from ldpbeam import Answers, Attribute, tally
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.files.avro_headers import write_block, write_header
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots, write_snapshots
from ldpbeam.study import Study

SYNC = bytes(range(16))
HOURS = [(3_600_000 * hour, 3_600_000 * (hour + 1)) for hour in range(3)]


@pytest.fixture(scope="module")
def attribute(commute: Study) -> Attribute:
    return commute.attribute("minutes")


@pytest.fixture(scope="module")
def snapshots(attribute: Attribute) -> list[Snapshot]:
    source, made = np.random.default_rng(1), []
    for group in ("north", "south", "west"):
        answers = []
        for index, version in enumerate(attribute.versions):
            rows = np.flatnonzero(source.random(150) < 0.6)
            answers.append(Answers(index, rows, version.mechanism.perturb(source.random(len(rows)), source)))
        made.append(Snapshot("minutes", HOURS[0], group, 0, tally(attribute, 150, answers)))
    return made


@pytest.fixture(scope="module")
def data(snapshots: list[Snapshot], attribute: Attribute) -> bytes:
    stream = io.BytesIO()
    write_snapshots(stream, snapshots, attribute, study="commute", study_fingerprint="f" * 32, run="r1")
    return stream.getvalue()


@pytest.fixture(scope="module")
def records(data: bytes) -> list[dict[str, Any]]:
    return [{**record} for record in fastavro.reader(io.BytesIO(data))]  # type: ignore[dict-item]


def read(data: bytes) -> list[Snapshot] | str:
    """What a file has, with the names of its runs, which no comparison sees; or why it is refused."""
    try:
        return list(read_snapshots(io.BytesIO(data)))
    except ValueError as error:
        assert "\n" not in str(error)
        return str(error)


def as_earlier(records: list[dict[str, Any]]) -> bytes:
    """A file of version 0.1.0, without hashes."""
    stream, earlier = io.BytesIO(), schema("statistic")
    earlier["fields"] = [field for field in earlier["fields"] if field["name"] != "sha256"]
    fastavro.writer(stream, earlier, records, codec="deflate", sync_marker=SYNC)
    return stream.getvalue()


def test_of_a_thousand_flipped_bits_none_changes_what_is_read(data: bytes) -> None:
    whole, source = read(data), np.random.default_rng(2)
    refused = 0
    for _ in range(1000):
        damaged = bytearray(data)
        damaged[source.integers(len(data))] ^= 1 << source.integers(8)
        found = read(bytes(damaged))
        refused += isinstance(found, str)
        assert isinstance(found, str) or (found == whole and {s.run for s in found} == {"r1"})
    assert refused > 990


def test_a_file_that_is_cut_anywhere_is_refused(data: bytes) -> None:
    for end in [*range(0, len(data), len(data) // 200), len(data) - 1]:
        assert isinstance(read(data[:end]), str), end


def test_a_file_that_ends_with_a_whole_block_is_refused(
    data: bytes, attribute: Attribute, records: list[dict[str, Any]]
) -> None:
    marker = bytes.fromhex(attribute.fingerprint)
    parts = data.split(marker)
    assert len(parts) == 1 + 1 + 3
    for blocks in range(3):
        problem = read(marker.join(parts[: blocks + 1]) + marker)
        assert problem == f"damaged: it has {blocks} snapshots, and was written with 3"
    twice = read(data + parts[3] + marker)
    assert twice == "damaged: it has 4 snapshots, and was written with 3"
    earlier = as_earlier(records)
    assert "damaged: it has 0 snapshots" in read(earlier[: earlier.index(SYNC) + len(SYNC)])


def test_flipped_bits_of_a_file_without_hashes_leave_its_counts_in_agreement(
    records: list[dict[str, Any]], snapshots: list[Snapshot]
) -> None:
    data, source = as_earlier(records), np.random.default_rng(3)
    whole = read(data)
    assert whole == snapshots
    assert not any(snapshot.hashed for snapshot in whole)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[source.integers(len(data))] ^= 1 << source.integers(8)
        for found in read(bytes(damaged)):
            if isinstance(found, Snapshot):
                counted = sum(int(histogram.sum()) for histogram in found.statistic.histograms)
                assert counted == found.statistic.reports


def first(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda record: {name: [change(record[name][0]), *record[name][1:]]}


def last_moments(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The sums of those who answered every channel."""
    return lambda record: {"moments": [*record["moments"][:-1], {**record["moments"][-1], **changes}]}


def one_more(data: bytes, by: int = 1) -> bytes:
    counts = np.frombuffer(data, "<i8").copy()
    counts[counts > 0] += by
    return counts.tobytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: {"reports": r["reports"] + 1}, "its sums are not of as many reports"),
        (lambda r: {"reports": -1}, "reports is -1"),
        (lambda r: {"users": r["users"] - 1}, "its sums are not of as many users"),
        (first("histograms", one_more), "a histogram counts"),
        (first("histograms", lambda own: b"\xff" * len(own)), "a histogram has counts below zero"),
        (first("histograms", lambda own: own[:-1]), "multiple of"),
        (lambda r: {"histograms": r["histograms"][1:]}, "its histograms are not one per channel"),
        (last_moments(users=0), "the sums of 0 users"),
        (last_moments(answered=8), "sums of the unknown channels 1000"),
        (last_moments(answered=-1), "sums of the unknown channels"),
        (last_moments(sums=["1", "2"]), "its sums are not one per channel"),
        (last_moments(sums=["x", "0", "0"]), "invalid literal"),
        (last_moments(squares=["0", "0", "0"]), "a sum"),
        (lambda r: {"moments": r["moments"] * 2}, "a set of channels has sums twice"),
        (lambda r: {"joint_counts": r["joint_counts"][8:]}, "its joint cells and their counts"),
        (lambda r: {"joint_counts": one_more(r["joint_counts"], 1000)}, "are of more users than it has"),
        (lambda r: {"joint_counts": bytes(len(r["joint_counts"]))}, "a joint count is below one"),
        (lambda r: {"joint_cells": bytes(len(r["joint_cells"]))}, "not in ascending order"),
        (lambda r: {"window_start": None}, "a window has a start and an end, or neither"),
        (lambda r: {"window_end": r["window_start"]}, "its window starts at 0 and ends at 0"),
        (lambda r: {"pane_timing": "soon"}, "pane_timing 'soon' is unknown"),
        (lambda r: {"pane_index": -1}, "pane_index is -1"),
        (lambda r: {"other_groups": 3}, "a group of its own is also the rest"),
        (lambda r: {"parts": ["a", "a"]}, "a part is named twice"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]], said: str, records: list[dict[str, Any]]
) -> None:
    found = read(as_earlier([{**records[0], **change(records[0])}]))
    assert isinstance(found, str)
    assert found.startswith("damaged: snapshot 1: ")
    assert said in found


def hostile(fields: list[Any], block: bytes) -> bytes:
    """A file of statistics with other fields, and one block."""
    stream = io.BytesIO()
    write_header(stream, {**schema("statistic"), "fields": fields}, {}, SYNC, "deflate")
    deflate = zlib.compressobj(wbits=-15)
    write_block(stream, 1, deflate.compress(block) + deflate.flush(), SYNC)
    return stream.getvalue()


def long(value: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", value)
    return stream.getvalue()


def chain(levels: int) -> Any:
    kind: Any = "long"
    for level in range(levels):
        kind = {"type": "record", "name": f"R{level}", "fields": [{"name": "r", "type": kind}]}
    return kind


#: Reads a file, and says why it is refused and how many kilobytes that took.
READ = """
import resource, sys
from ldpbeam.schemas.outputs.snapshots import read_snapshots
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    with open(sys.argv[1], "rb") as stream:
        list(read_snapshots(stream))
except ValueError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
NOTHING = {"type": "array", "items": "null"}
BYTES = {"type": "array", "items": "bytes"}


@pytest.mark.parametrize(
    ("kind", "block", "said"),
    [
        (NOTHING, long(2**40), "an array whose items have no bytes"),
        (NOTHING, long(-(2**62)) + long(1), "an array whose items have no bytes"),
        (BYTES, long(2**40) + bytes(2**26), "more than 1,048,576 values"),
        ("bytes", long(2**40) + b"x", "1099511627776 bytes are claimed, and 1 are left"),
        ("bytes", long(-5) + b"xxxxx", "-5 bytes are claimed"),
        ("long", b"\xff" * 30, "an integer of more than 64 bits"),
        ({"type": "fixed", "name": "f", "size": 2**40}, b"x", "a fixed of size 1099511627776"),
        (["null", "long"], long(7), "branch 7 of 2"),
        ("ldpbeam.Statistic", b"x", "the record ldpbeam.Statistic within itself"),
        (chain(300), b"x", ""),
        ("bytes", bytes(2**28), "it would be more than 128 MB"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_hostile_file_is_refused_in_little_memory(
    kind: Any, block: bytes, said: str, tmp_path: Path
) -> None:
    fields = [{"name": "x", "type": kind}, *schema("statistic")["fields"][:-1]]
    path = tmp_path / "hostile.avro"
    path.write_bytes(hostile(fields, block))
    ran = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    problem, _, added = ran.stdout.strip().rpartition("\n")
    assert said in problem
    assert int(added) < 512 * 2**10


def test_a_header_that_lost_the_count_of_its_snapshots_is_refused(data: bytes) -> None:
    assert "its header does not say" in read(data.replace(b"ldpbeam.snapshots", b"ldpbeam.snapshotz"))
    assert "written with 4" in read(data.replace(b"ldpbeam.snapshots\x023", b"ldpbeam.snapshots\x024"))


def test_a_hash_is_of_the_schema_and_the_bytes_before_it(records: list[dict[str, Any]]) -> None:
    text = json.dumps(schema("statistic"), sort_keys=True, separators=(",", ":"))
    for record in records:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema("statistic"), record)
        assert record["sha256"] == hashlib.sha256(text.encode() + stream.getvalue()[:-33]).digest()
