"""Snapshots of statistics: in files, on the wire, and across versions of their schema."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import io
import json
from typing import Any

import fastavro
import numpy as np
import pytest
from support.inputs import answered, snapshot_file

from ldpbeam import Attribute, empty, merge
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.outputs.snapshots import (
    Snapshot,
    decode_statistic,
    encode_statistic,
    read_snapshots,
    statistic_fields,
    statistic_of,
)
from ldpbeam.study import Study

WINDOW = (1_767_225_600_000, 1_767_229_200_000)
NAMES = {"study": "commute", "study_fingerprint": "f" * 32, "run": "r1"}


@pytest.fixture(scope="module")
def attribute(commute: Study) -> Attribute:
    return commute.attribute("minutes")


@pytest.fixture(scope="module")
def snapshots(attribute: Attribute) -> list[Snapshot]:
    """A group of its own, the rest of the groups, and one without a window."""
    one, other = answered(attribute, 1, 200), answered(attribute, 2, 200)
    return [
        Snapshot("minutes", WINDOW, "north", 0, one, pane_index=2, pane_timing="late"),
        Snapshot("minutes", WINDOW, None, 7, merge([one, other])),
        Snapshot("minutes", None, None, 0, empty(attribute), pane_timing="early", complete=False),
    ]


def written(snapshots: list[Snapshot], attribute: Attribute) -> bytes:
    return snapshot_file(snapshots, attribute, **NAMES)


def read(data: bytes) -> list[Snapshot]:
    return list(read_snapshots(io.BytesIO(data)))


def rewritten(data: bytes, other: Any, **more: Any) -> bytes:
    """A file's records as a program with another schema would have written them."""
    stream = io.BytesIO()
    records: list[Any] = [{**record, **more} for record in fastavro.reader(io.BytesIO(data))]
    for record in records:
        record["sha256"] = hashed(other, record)
    metadata = {"ldpbeam.snapshots": str(len(records))}
    fastavro.writer(stream, other, records, codec="deflate", metadata=metadata, sync_interval=1)
    return stream.getvalue()


def hashed(other: Any, record: dict[str, Any]) -> bytes:
    """What a record's last field must be."""
    stream = io.BytesIO()
    earlier = {**other, "fields": other["fields"][:-1]}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(copy.deepcopy(earlier)), record)
    text = json.dumps(other, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode() + stream.getvalue()).digest()


def without(*names: str) -> Any:
    """Our schema, less some fields."""
    whole = schema("statistic")
    return {**whole, "fields": [field for field in whole["fields"] if field["name"] not in names]}


def test_snapshots_read_back_are_equal(attribute: Attribute, snapshots: list[Snapshot]) -> None:
    assert snapshots[0].statistic.reports > 300
    assert len(snapshots[0].statistic.joint_cells) > 100
    assert len(snapshots[0].statistic.moments) == 8
    assert read(written(snapshots, attribute)) == snapshots


def test_a_file_says_what_its_snapshots_are_of(attribute: Attribute, snapshots: list[Snapshot]) -> None:
    reader: Any = fastavro.reader(io.BytesIO(written(snapshots, attribute)))
    records = list(reader)
    for record, snapshot in zip(records, snapshots, strict=True):
        assert {name: record[name] for name in NAMES} == NAMES
        assert record["attribute"] == "minutes"
        assert record["channels"] == ["maps", "taxi", "survey"]
        assert record["fingerprint"] == attribute.fingerprint == snapshot.statistic.fingerprint
        assert (record["reports"], record["users"]) == (snapshot.statistic.reports, snapshot.statistic.users)
    assert [record["window_start"] for record in records] == [WINDOW[0], WINDOW[0], None]
    first = np.frombuffer(records[0]["histograms"][0], "<i8")
    np.testing.assert_array_equal(first, snapshots[0].statistic.histograms[0])


def test_the_same_snapshots_give_the_same_bytes(attribute: Attribute, snapshots: list[Snapshot]) -> None:
    data = written(snapshots, attribute)
    backwards = [
        dataclasses.replace(
            snapshot,
            statistic=dataclasses.replace(
                snapshot.statistic, moments=dict(reversed(list(snapshot.statistic.moments.items())))
            ),
        )
        for snapshot in snapshots
    ]
    assert written(backwards, attribute) == data == written(read(data), attribute)
    assert written(snapshots[:2], attribute) != data


def test_a_statistic_on_the_wire_is_equal_and_has_no_schema(snapshots: list[Snapshot]) -> None:
    for snapshot in snapshots:
        data = encode_statistic(snapshot.statistic)
        assert decode_statistic(data) == snapshot.statistic
        assert b"histograms" not in data
        assert encode_statistic(decode_statistic(data)) == data


def test_numbers_beyond_64_bits_and_unknown_users_survive(attribute: Attribute) -> None:
    whole = answered(attribute, 3, 200)
    (mask, moments), *_ = whole.moments.items()
    histograms = tuple(histogram + (2**62 + 1) for histogram in whole.histograms)
    large = dataclasses.replace(moments, sums=(-(2**80), 0, 1), squares=(2**200, 2**64, 0))
    statistic = dataclasses.replace(
        whole, histograms=histograms, users=None, moments={mask: large, 2**61: large}
    )
    assert decode_statistic(encode_statistic(statistic)) == statistic
    assert statistic_of(statistic_fields(statistic)) == statistic
    assert decode_statistic(encode_statistic(statistic)).users is None


def test_a_file_of_an_older_schema_is_read_with_the_defaults(
    attribute: Attribute, snapshots: list[Snapshot]
) -> None:
    older = without(
        *("other_groups", "pane_index", "pane_timing", "shard", "group"),
        *("window_start", "window_end", "users"),
    )
    expected = [
        dataclasses.replace(
            *(snapshot,), other_groups=0, pane_index=0, pane_timing="on_time", group=None, window=None,
            statistic=dataclasses.replace(snapshot.statistic, users=None),
        )
        for snapshot in snapshots
    ]  # fmt: skip
    assert read(rewritten(written(snapshots, attribute), older)) == expected != snapshots


def test_a_file_of_a_newer_schema_is_read_without_its_new_fields(
    attribute: Attribute, snapshots: list[Snapshot]
) -> None:
    newer = schema("statistic")
    region = {"type": "record", "name": "Region", "fields": [{"name": "code", "type": "string"}]}
    newer["fields"].insert(3, {"name": "region", "type": ["null", region], "default": None})
    newer["fields"].insert(-1, {"name": "noise", "type": "double", "default": 0.5})
    (moments,) = (field for field in newer["fields"] if field["name"] == "moments")
    moments["type"]["items"]["fields"].insert(0, {"name": "weight", "type": "double", "default": 1.0})
    data = rewritten(written(snapshots, attribute), newer, region={"code": "n"})
    assert next(iter(fastavro.reader(io.BytesIO(data))))["region"] == {"code": "n"}
    assert read(data) == snapshots


def test_a_file_without_what_a_statistic_needs_is_refused(
    attribute: Attribute, snapshots: list[Snapshot]
) -> None:
    data = rewritten(written(snapshots, attribute), without("joint_counts"))
    with pytest.raises(ValueError, match=r"its fields are not those of a snapshot: .*joint_counts"):
        read(data)


def test_every_field_with_a_default_stands_in_the_schema_for_older_files() -> None:
    fields = {field["name"]: field.get("default", "none") for field in schema("statistic")["fields"]}
    optional = {name for name, default in fields.items() if default != "none"}
    assert optional == {
        *("group", "other_groups", "window_start", "window_end"),
        *("complete", "joined", "pane_index", "pane_timing", "parts", "sha256", "shard", "table", "users"),
    }


def test_a_snapshot_read_back_names_its_run_and_what_was_merged_into_it(
    attribute: Attribute, snapshots: list[Snapshot]
) -> None:
    (alone, *_) = found = list(read_snapshots(io.BytesIO(written(snapshots, attribute))))
    assert len({snapshot.run for snapshot in found}) == 1
    assert alone.run
    assert alone.names == (f"{alone.run}/minutes/1767225600000-1767229200000/north",)
    rolled_up = dataclasses.replace(alone, parts=("a/x/all/", "b/x/all/"))
    (again,) = read_snapshots(io.BytesIO(written([rolled_up], attribute)))
    assert again.names == again.parts == ("a/x/all/", "b/x/all/")
