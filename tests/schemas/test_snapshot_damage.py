"""Damaged files of snapshots: refused in one sentence, or read as they were written."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import fastavro
import numpy as np
import pytest
from support.inputs import answered, snapshot_file

from ldpbeam import Attribute
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.study import Study

HOURS = [(3_600_000 * hour, 3_600_000 * (hour + 1)) for hour in range(3)]


@pytest.fixture(scope="module")
def attribute(commute: Study) -> Attribute:
    return commute.attribute("minutes")


@pytest.fixture(scope="module")
def snapshots(attribute: Attribute) -> list[Snapshot]:
    return [
        Snapshot("minutes", HOURS[0], group, 0, answered(attribute, seed, 150))
        for seed, group in enumerate(("north", "south", "west"))
    ]


def written(snapshots: list[Snapshot], attribute: Attribute, block_bytes: int) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ldpbeam.schemas.outputs.snapshots.BLOCK_BYTES", block_bytes)
        return snapshot_file(snapshots, attribute, study="commute", study_fingerprint="f" * 32, run="r1")


@pytest.fixture(scope="module")
def apart(snapshots: list[Snapshot], attribute: Attribute) -> bytes:
    """A file in which each snapshot has a block."""
    return written(snapshots, attribute, 0)


@pytest.fixture(scope="module", params=[0, 2**20], ids=["a block each", "one block"])
def data(snapshots: list[Snapshot], attribute: Attribute, request: pytest.FixtureRequest) -> bytes:
    return written(snapshots, attribute, request.param)


def read(data: bytes) -> list[Snapshot] | str:
    """What a file has, with the names of its runs, which no comparison sees; or why it is refused."""
    try:
        return list(read_snapshots(io.BytesIO(data)))
    except ValueError as error:
        assert "\n" not in str(error)
        return str(error)


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


def test_a_file_that_ends_with_a_whole_block_is_refused(apart: bytes, attribute: Attribute) -> None:
    marker = bytes.fromhex(attribute.fingerprint)
    parts = apart.split(marker)
    assert len(parts) == 1 + 1 + 3
    for blocks in range(3):
        problem = read(marker.join(parts[: blocks + 1]) + marker)
        assert problem == f"damaged: it has {blocks} snapshots, and its header says 3"
    twice = read(apart + parts[3] + marker)
    assert twice == "damaged: it has 4 snapshots, and its header says 3"


def test_a_header_that_lost_the_count_of_its_snapshots_is_refused(data: bytes) -> None:
    assert "its header says None" in read(data.replace(b"ldpbeam.snapshots", b"ldpbeam.snapshotz"))
    assert "its header says 4" in read(data.replace(b"ldpbeam.snapshots\x023", b"ldpbeam.snapshots\x024"))


def test_a_hash_is_of_the_schema_and_the_bytes_of_its_block_before_it(
    apart: bytes, snapshots: list[Snapshot], attribute: Attribute
) -> None:
    text = json.dumps(schema("statistic"), sort_keys=True, separators=(",", ":")).encode()
    for record in records_of(apart):
        assert record["sha256"] == hashlib.sha256(text + encoded(record)[:-33]).digest()
    *others, last = records_of(written(snapshots, attribute, 2**20))
    block = b"".join(map(encoded, [*others, last]))
    # Three records are 0x06 in Avro.
    assert last["sha256"] == hashlib.sha256(text + b"\x06" + block[:-33]).digest()
    assert [record["sha256"] for record in others] == [b"", b""]


def test_blocks_hold_as_many_records_as_fit(
    apart: bytes, snapshots: list[Snapshot], attribute: Attribute
) -> None:
    sizes = [len(encoded(record)) - 32 for record in records_of(apart)]
    blocks = fastavro.block_reader(io.BytesIO(written(snapshots, attribute, sizes[0] + sizes[1])))
    assert [block.num_records for block in blocks] == [2, 1]


def encoded(record: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema("statistic"), record)
    return stream.getvalue()


def records_of(data: bytes) -> list[dict[str, Any]]:
    return [{**record} for record in fastavro.reader(io.BytesIO(data))]  # type: ignore[dict-item]
