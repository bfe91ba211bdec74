"""Arrow's types as id, group, version, payload and time: each value is read, or its report is refused."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ldpbeam.schemas.reports.columns import decoded
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.validation import Validation, wanted_columns

STUDY = parse_study("""\
study: types
windows: {size: 1d}
groups: {field: g}
attributes:
  x:
    domain: {categories: 3}
    services:
      s: {version_field: v, versions: {"1": {mechanism: grr, epsilon: 1}, "2": {mechanism: grr, epsilon: 2}}}
""")
WANTED = wanted_columns(STUDY, "x", "s")
TIME, DAY = dt.datetime(2026, 1, 15, 10, tzinfo=dt.UTC), dt.date(2026, 1, 15)
KEY = uuid.UUID(int=2**127 + 7919)


def union(mode: str) -> pa.Array:
    kinds = pa.array([0], pa.int8())
    if mode == "dense":
        return pa.UnionArray.from_dense(kinds, pa.array([0], pa.int32()), [pa.array([1])])
    return pa.UnionArray.from_sparse(kinds, [pa.array([1])])


def extension(kind: pa.DataType, value: Any) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array([value], kind.storage_type))


NOON = 1_768_471_200_000
#: A value of each type, and what it is as group, as id, and as time in milliseconds; None: refused.
TYPES: dict[str, tuple[pa.Array, str | None, bytes | None, int | None]] = {}


def add(array: pa.Array, group: str | None, time: int | None = None, key: bytes | None = None) -> None:
    TYPES[str(array.type)] = (array, group, key or (None if group is None else group.encode()), time)


for bits in (8, 16, 32, 64):
    for sign in ("int", "uint"):
        add(pa.array([1], f"{sign}{bits}"), "1")
for kind in (pa.float16(), pa.float32(), pa.float64()):
    add(pa.array(np.array([1.0]), kind), "1")
for kind in (pa.decimal32(5, 1), pa.decimal64(9, 1), pa.decimal128(20, 1), pa.decimal256(50, 1)):
    add(pa.array([Decimal("1.0")], kind), "1")
for kind in (
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
):
    add(pa.array(["1"], pa.string()).cast(kind), "1")
add(pa.array([b"1\0\0"], pa.binary(3)), "1")
for kind in (pa.int8(), pa.int32()):
    add(pa.array(["1"]).dictionary_encode().cast(pa.dictionary(kind, pa.string())), "1")
add(pa.array([1]).dictionary_encode(), "1")
add(pa.array([True]), "true")
add(pa.array([DAY], pa.date32()), "2026-01-15")
add(pa.array([DAY], pa.date64()), "2026-01-15")
for unit in ("s", "ms", "us", "ns"):
    zeros = {"s": "", "ms": ".000", "us": ".000000", "ns": ".000000000"}[unit]
    add(pa.array([TIME.replace(tzinfo=None)], pa.timestamp(unit)), f"2026-01-15 10:00:00{zeros}")
    add(pa.array([TIME], pa.timestamp(unit, "UTC")), f"2026-01-15 10:00:00{zeros}Z", NOON)
    kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    add(pa.array([dt.time(10)], kind), f"10:00:00{zeros}")
add(extension(pa.uuid(), KEY.bytes), str(KEY), None, KEY.bytes)
encoded = pa.DictionaryArray.from_arrays(pa.array([0]), extension(pa.uuid(), KEY.bytes))
add(encoded, str(KEY), None, KEY.bytes)
add(extension(pa.bool8(), 1), "1")
add(extension(pa.json_(), "1"), "1")
add(extension(pa.opaque(pa.string(), "t", "v"), "1"), "1")
add(pa.array([KEY.bytes], pa.binary(16)), None, None, KEY.bytes)
add(pa.array([b"\xff\xfe"], pa.binary(2)), None, None, b"\xff\xfe")
for unit in ("s", "ms", "us", "ns"):
    add(pa.array([1], pa.duration(unit)), "1")
add(pa.array([pa.MonthDayNano([1, 2, 3])]), None)
add(pa.array([[1]], pa.list_(pa.int64())), None)
add(pa.array([[1]], pa.large_list(pa.int64())), None)
add(pa.array([[1]], pa.list_(pa.int64(), 1)), None)
add(pa.array([[1]], pa.list_view(pa.int64())), None)
add(pa.array([[1]], pa.large_list_view(pa.int64())), None)
add(pa.array([{"a": 1}]), None)
add(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), None)
add(union("dense"), None)
add(union("sparse"), None)
add(pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["1"])), None)
add(extension(pa.fixed_shape_tensor(pa.int64(), [1]), [1]), None)


def refused_and_read(**columns: pa.Array) -> tuple[dict[str, Any] | None, str]:
    """The report that is read, or None; and the reason why it is refused."""
    given = {
        "user_id": pa.array(["u"]), "payload": pa.array([1.0]), "event_time": pa.array([NOON]),
        "v": pa.array(["1"]), **columns,
    }  # fmt: skip
    place = pa.array([0])
    batch = decoded(given, WANTED, {}, place, place, lambda _: list(given))
    validated = Validation(STUDY).validate(batch)
    letters = [letter for part in validated.letters for letter in part.to_pylist()]
    (report,) = [row for part in validated.reports for row in part.to_pylist()] or [None]
    assert (report is None) == bool(letters)
    return report, letters[0]["reason"] if letters else ""


@pytest.mark.parametrize("name", TYPES)
def test_a_value_of_each_type_is_read_or_its_report_is_refused(name: str) -> None:
    array, group, key, time = TYPES[name]
    report, reason = refused_and_read(g=array)
    assert (report is None, reason) == (group is None, "group_unreadable" if group is None else "")
    assert group is None or report["group"] == group  # type: ignore[index]
    report, reason = refused_and_read(user_id=array)
    assert report["user"] == key if report else (key, reason) == (None, "no_user_id")
    report, reason = refused_and_read(v=array)
    assert (report is not None) == (group == "1") and reason in ("", "unknown_version")
    report, reason = refused_and_read(event_time=array)
    known = report is not None and report["event_time"] == time
    assert known or (time is None and reason.startswith(("no_event_time", "event_time")))
    report, reason = refused_and_read(payload=array)
    assert (report is not None and report["payload"] == 1) or reason.startswith("payload")


def test_a_value_that_is_null_in_any_type_is_no_group() -> None:
    for array, *_ in TYPES.values():
        if "union" in str(array.type) or "run_end" in str(array.type):
            continue
        report, reason = refused_and_read(g=pa.nulls(1, array.type))
        assert report is not None and report.get("group") is None, (array.type, reason)


def test_the_table_has_every_type_of_arrow() -> None:
    there = {array.type.id for array, *_ in TYPES.values()}
    every = {value: name for name, value in vars(pa.lib).items() if name.startswith("Type_")}
    others = {"Type_NA", "Type_INTERVAL_MONTHS", "Type_INTERVAL_DAY_TIME"}
    assert {every[kind] for kind in every.keys() - there} <= others
