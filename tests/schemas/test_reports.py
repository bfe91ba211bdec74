"""Reports as columns: user keys, event times, payloads, report ids, and where constants come from."""

from __future__ import annotations

import itertools
import math
import unicodedata
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.schemas.reports.casts import UNREADABLE
from ldpbeam.schemas.reports.columns import ATTRIBUTE_KEY, SERVICE_KEY, Columns, decoded
from ldpbeam.schemas.reports.event_times import COARSE
from ldpbeam.schemas.reports.records import columns_of

EVERYTHING = Columns()
UUID = uuid.UUID("89abcdef-0123-4567-fedc-ba9876543210")
RAW = UUID.bytes
#: What is no number among numbers: not missing, so not null.
NAN = float("nan")
NEW_YEAR = 1_767_225_600_000  # 2026-01-01T00:00:00Z
EARLIEST, LATEST = -2_208_988_800_000, 7_258_118_399_999  # 1900 and the end of 2199


def batch_of(wanted: Columns = EVERYTHING, metadata: Any = None, **columns: pa.Array) -> pa.RecordBatch:
    place = pa.array(np.arange(len(next(iter(columns.values())))))
    return decoded(columns, wanted, metadata or {}, place, place)


def column(name: str, array: pa.Array | list[Any]) -> list[Any]:
    """One column as it is decoded."""
    return batch_of(**{name: pa.array(array)}).column(name).to_pylist()


def mixed(name: str, values: list[Any]) -> list[Any]:
    """A column of records that were decoded one by one."""
    found = columns_of([{"other": 1, name: value} for value in values], {name: name})
    return column(name, found[name]) if found else [None] * len(values)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([str(UUID)]),
        pa.array([str(UUID).upper()]),
        pa.array([str(UUID)], pa.large_string()),
        pa.array([str(UUID)], pa.string_view()),
        pa.array([str(UUID)]).dictionary_encode(),
        pa.array([str(UUID).encode()], pa.binary(36)),
        pa.array([str(UUID).encode()], pa.binary()),
        pa.array([RAW], pa.binary(16)),
        pa.array([RAW], pa.binary()),
        pa.array([RAW], pa.large_binary()),
        pa.array([RAW], pa.binary_view()),
        pa.array([RAW]).dictionary_encode(),
        pa.array([RAW], pa.uuid()),
        *(
            pa.array([form.format(digits)])
            for digits in (str(UUID), str(UUID).upper(), UUID.hex, UUID.hex.upper())
            for form in ("{}", "{{{}}}", "urn:uuid:{}", "URN:UUID:{}")
        ),
        pa.array([UUID.hex.encode()], pa.binary(32)),
        pa.array([f"{{{UUID}}}".encode(), None]).filter(pa.array([True, False])),
    ],
    ids=lambda array: str(array.type),
)
def test_a_uuid_is_the_same_user_whatever_type_its_column_has(array: pa.Array) -> None:
    assert column("user_id", array) == [RAW]


@pytest.mark.parametrize(
    ("array", "keys"),
    [
        (pa.array(["ann", "Zoë", "", None, " a"]), [b"ann", "Zoë".encode(), None, None, b" a"]),
        (
            pa.array(
                others := [
                    f"{{{UUID}", f"({UUID})", f"{UUID.hex}\n", f"uuid:{UUID}", f"{UUID}"[:-1], "g" * 32,
                ]
            ),
            [other.encode() for other in others],
        ),
        (pa.array([str(UUID)[:-1] + "g", "x" * 36]), [str(UUID)[:-1].encode() + b"g", b"x" * 36]),
        (pa.array([str(UUID).encode(), b"\xff" * 36], pa.binary(36)), [RAW, b"\xff" * 36]),
        (pa.array([b"ann\0\0", b"\0\0\0\0\0", None], pa.binary(5)), [b"ann", None, None]),
        (pa.array([b"a\0b\0", b"\0\0\0\1"], pa.binary(4)), [b"a\0b", b"\0\0\0\1"]),
        (pa.array([b"ann" + b"\0" * 13], pa.binary(16)), [b"ann" + b"\0" * 13]),
        (pa.array([b"ann\0", b""]), [b"ann\0", None]),
        (pa.array([7, -1, None, 2**63 - 1]), [b"7", b"-1", None, b"9223372036854775807"]),
        (pa.array([["ann"]]), [None]),
        (pa.nulls(2), [None, None]),
        (
            pa.array([" ", "\u200b", "\t\u00a0\ufeff", "\x01", " a", "\u200ba"]),
            [*[None] * 4, b" a", b"\xe2\x80\x8ba"],
        ),
        (pa.array(["  ", "a"]).dictionary_encode(), [None, b"a"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_user_keys_are_the_bytes_of_the_text_and_empty_or_blank_is_none(
    array: pa.Array, keys: list[Any]
) -> None:
    assert column("user_id", array) == keys


INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}
TEXTS = st.text(min_size=1, max_size=35).map(
    lambda text: (text, None if {*map(unicodedata.category, text)} <= INVISIBLE else text.encode())
)
UUIDS = st.tuples(
    st.uuids(), st.sampled_from([str, lambda u: u.hex, lambda u: u.urn, lambda u: f"{{{u}}}"])
).map(lambda drawn: (drawn[1](drawn[0]), drawn[0].bytes))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(users=st.lists(TEXTS | UUIDS | st.just((None, None)), min_size=1))
def test_each_user_key_is_that_of_its_own_text(users: list[tuple[Any, Any]]) -> None:
    assert column("user_id", pa.array([text for text, _ in users], pa.string())) == [key for _, key in users]


#: Numbers, and their text; none where a number would be that of many people.
IDS: list[tuple[Any, str | None]] = [
    (NAN, None), (math.inf, None), (-math.inf, None), (7.0, "7"), (-0.0, "0"), (0.5, "0.5"),
    (2.0**11, "2048"),
]  # fmt: skip
LARGE: list[tuple[Any, str | None]] = [(1e10, "10000000000"), (2.0**53 - 1, "9007199254740991"), (1e16, None)]


@pytest.mark.parametrize("name", ["user_id", "report_id", "attribute", "service", "app"])
@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array([number for number, _ in IDS + LARGE]), [text for _, text in IDS + LARGE]),
        # Of these types, whole numbers from 2^24 and 2^11 on are not told from others.
        (pa.array(np.array([n for n, _ in IDS] + [2**24 - 1, 2**24], np.float32)),
         [text for _, text in IDS] + ["16777215", None]),
        (pa.array(np.array([n for n, _ in IDS], np.float16)), [text for _, text in IDS[:-1]] + [None]),
        *((pa.array([Decimal("700"), Decimal("-0.5"), Decimal(0), None], kind), ["700", "-0.5", "0", None])
          for kind in (pa.decimal32(9, 2), pa.decimal64(18, 3), pa.decimal128(38, 18), pa.decimal256(76, 9))),
        (pa.array([Decimal(700), None], pa.decimal128(5, -2)), ["700", None]),
        (pa.Array.from_buffers(pa.decimal32(3, -5), 1, [None, pa.py_buffer(b"\1\0\0\0")]), ["100000"]),
        (pa.array([Decimal(10**37)], pa.decimal128(38, 0)), [str(10**37)]),
        (pa.array([7, -1, 2**63 - 1]), ["7", "-1", "9223372036854775807"]),
        (pa.array([NAN, None, 7.0]).dictionary_encode(), [None, None, "7"]),
        (pa.array(["nan", "", "None", "7"]), ["nan", None, "None", "7"]),
        (pa.array([[7.0]]), [None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_a_number_has_one_text_in_every_type_and_what_is_none_is_missing(
    name: str, array: pa.Array, texts: list[Any]
) -> None:
    batch = batch_of(Columns(extras=("app",)), **{name: array})
    found = batch.column(name).to_pylist() if name in batch.schema.names else [None] * len(array)
    # A name without a text is no missing one, which a file's own name would stand for.
    found = [None if value == UNREADABLE else value for value in found]
    assert [value.decode() if isinstance(value, bytes) else value for value in found] == texts


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-01T00:00:00Z", NEW_YEAR),
        ("2026-01-01t00:00:00z", NEW_YEAR),
        ("2026-01-01T05:30:00+05:30", NEW_YEAR),
        ("2025-12-31T14:00:00-1000", NEW_YEAR),
        ("2026-01-01T00:00:00.123999999Z", NEW_YEAR + 123),
        ("2026-01-01T01:00:00.001+01:00", NEW_YEAR + 1),
        ("1900-01-01T00:00:00Z", EARLIEST),
        ("2199-12-31T23:59:59.999Z", LATEST),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
    ],
)
def test_a_time_in_text_is_rfc_3339(text: str, time: int) -> None:
    assert column("event_time", [text, "no", None, text]) == [time, None, None, time]


NOT_TIMES = """2026-02-30T00:00:00Z,2026-13-01T00:00:00Z,2026-01-01T24:00:00Z,2026-01-01T00:00:00,2026-01-01
1899-12-31T23:59:59Z,2200-01-01T00:00:00Z
yesterday, 2026-01-01T00:00:00Z,1767225600000,2026-01-01T00:00:00.1234567890Z,2026-01-01T00:00Z,"""


@pytest.mark.parametrize("text", NOT_TIMES.replace("\n", ",").split(","))
def test_a_text_that_is_no_time_or_has_no_zone_costs_no_other(text: str) -> None:
    assert column("event_time", ["2026-01-01T00:00:00Z", text]) == [NEW_YEAR, None]


@pytest.mark.parametrize("array", [
    pa.array(["2026-01-01T00:00:00"]),
    *(pa.array([NEW_YEAR // 1000], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    pa.array([datetime(2026, 1, 1)]),
])  # fmt: skip
def test_a_time_without_a_zone_is_none(array: pa.Array) -> None:
    assert column("event_time", array) == [None]


@pytest.mark.parametrize(
    ("array", "times"),
    [
        (pa.array([0, -1, NEW_YEAR]), [0, -1, NEW_YEAR]),
        # Times that cannot be right are left for validation, which says what is wrong with them.
        (pa.array([EARLIEST - 1, LATEST + 1]), [EARLIEST - 1, LATEST + 1]),
        (pa.array([NEW_YEAR // 1000, NEW_YEAR * 1000]), [NEW_YEAR // 1000, NEW_YEAR * 1000]),
        (pa.array([2**61 - 2**9, -(2**61) + 2**9, 2**62]), [2**61 - 2**9, -(2**61) + 2**9, None]),
        (pa.array([2**60, 2**62], pa.timestamp("s", "UTC")), [None, None]),
        (pa.array([2**60, 2**62], pa.timestamp("ms", "UTC")), [2**60, None]),
        (pa.array([NEW_YEAR + 0.9, -0.5]), [NEW_YEAR, -1]),
        (pa.array([float("nan"), float("inf"), 1e300]), [None, None, None]),
        (pa.array(np.array([NEW_YEAR, 0, NAN, math.inf], np.float32)), [COARSE, COARSE, None, None]),
        (pa.array(np.array([1, NAN], np.float16)), [COARSE, None]),
        (pa.array([Decimal("1e30"), Decimal("-1e30"), Decimal(5)], pa.decimal128(38, 0)), [None, None, 5]),
        (
            pa.array([2**62, -(2**63), 5], pa.timestamp("us", "UTC")),
            [2**62 // 1000, -(2**63) // 1000, 5 // 1000],
        ),
        (pa.array([NEW_YEAR, 2**64 - 1], pa.uint64()), [NEW_YEAR, None]),
        (pa.array([True, None]), [None, None]),
    ],
)
def test_a_time_in_numbers_is_milliseconds(array: pa.Array, times: list[Any]) -> None:
    assert column("event_time", array) == times


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array([0.5, None], pa.float32()), pa.float64(), [0.5, None]),
        (pa.array([5]).cast(pa.decimal128(20, 0)), pa.float64(), [5.0]),
        (
            pa.array([b"\1\0\0\0", None, b"\0\0\0\xff"], pa.binary(4)),
            pa.binary(4),
            [b"\1\0\0\0", None, b"\0\0\0\xff"],
        ),
        (pa.array([2**64 - 1, None, 3], pa.uint64()), pa.float64(), [2.0**64, None, 3.0]),
        (pa.array(["0.5"]), pa.string(), ["0.5"]),
        (
            # Categories of polars are such a dictionary, which Arrow cannot decode.
            pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["2", "0.5"], pa.string_view())),
            pa.string(),
            ["0.5", "2"],
        ),
        (pa.array([True]), pa.bool_(), [True]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_payloads_are_numbers_or_stay_as_they_came(array: pa.Array, kind: pa.DataType, values: Any) -> None:
    payload = batch_of(payload=array).column("payload")
    assert (payload.type, payload.to_pylist()) == (kind, values)


@pytest.mark.parametrize("kind", [pa.binary(16), pa.binary(), pa.large_binary()], ids=str)
def test_sixteen_zero_bytes_are_no_report_id(kind: pa.DataType) -> None:
    assert column("report_id", pa.array([b"\0" * 16, RAW, None], kind)) == [None, RAW, None]


def test_a_records_own_service_comes_before_the_files_and_that_before_the_given_one() -> None:
    wanted, metadata = Columns("given", "given"), {SERVICE_KEY: "file"}

    def services(**columns: pa.Array) -> list[str]:
        batch = batch_of(wanted, metadata, user_id=pa.array(["a", "b"]), **columns)
        assert batch.schema.metadata[b"attribute"] == b"given"
        own = batch.to_pydict().get("service")
        return own or [batch.schema.metadata[b"service"].decode()] * 2

    assert services(service=pa.array(["own", "other"])) == ["own", "other"]
    assert services(service=pa.array([b"own\0", None], pa.binary(4))) == ["own", "file"]
    assert services(service=pa.nulls(2)) == services() == ["file", "file"]
    metadata[ATTRIBUTE_KEY] = "file"
    batch = batch_of(wanted, metadata, payload=pa.array([0.5]))
    assert batch.schema.metadata == {b"attribute": b"file", b"service": b"file"}
    assert batch.schema.names == ["payload", "user_id", "event_time", "position", "row"]
    assert not batch_of(payload=pa.array([0.5])).schema.metadata


def test_a_batch_has_the_columns_that_later_stages_need_and_no_others() -> None:
    batch = batch_of(Columns(extras=("app",)), app=pa.array([1, None]), colour=pa.array(["red", "blue"]))
    assert batch.schema.names == ["app", "user_id", "payload", "event_time", "position", "row"]
    assert batch.column("app").to_pylist() == ["1", None]
    assert batch.column("user_id").type == pa.binary()
    assert batch.column("event_time").to_pylist() == batch.column("payload").to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("user_id", pa.array(["ann", str(UUID), "", None, str(UUID).upper()])),
        ("user_id", pa.array([b"ann\0", b"\0\0\0\0", None, b"bobb", b"ann\0"], pa.binary(4))),
        ("user_id", pa.array([RAW, None, b"x" * 16, b"y" * 16, RAW], pa.binary(16))),
        ("event_time", pa.array(["2026-01-01T00:00:00Z", "no", None, "2026-01-01T00:00:01Z", "no"])),
        ("payload", pa.array([b"\1\0\0\0", None, b"\2\0\0\0", b"\3\0\0\0", None], pa.binary(4))),
        ("report_id", pa.array([RAW, b"\0" * 16, None, b"x" * 16, RAW], pa.binary(16))),
        ("service", pa.array([b"maps", b"\xff\0\0\0", None, b"a\0\0\0", b"\0\0\0\0"], pa.binary(4))),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_a_slice_decodes_as_its_part_of_the_whole(name: str, array: pa.Array) -> None:
    whole = column(name, array)
    for start, stop in itertools.combinations(range(len(array) + 1), 2):
        batch = batch_of(**{name: array[start:stop]})
        assert batch.to_pydict().get(name, [None] * (stop - start)) == whole[start:stop]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("user_id", ["ann", 5, None, ""], [b"ann", b"5", None, None]),
        ("user_id", [str(UUID), RAW], [RAW, RAW]),
        ("user_id", [RAW, str(UUID)], [RAW, RAW]),
        ("user_id", [UUID, "ann"], [RAW, b"ann"]),
        ("user_id", [2**53 + 1, 0.5], [b"9007199254740993", b"0.5"]),
        ("user_id", [2**70, 5], [str(2**70).encode(), b"5"]),
        ("user_id", ["\ud800", "ann"], [None, b"ann"]),
        (
            "user_id",
            [NAN, "ann", np.float32("nan"), pd.NA, pd.NaT, 7.0, 7],
            [None, b"ann", *[None] * 3, b"7", b"7"],
        ),
        ("user_id", [Decimal("NaN"), Decimal("7.0"), Decimal("1e40")], [None, b"7", None]),
        ("payload", [Decimal("sNaN"), Decimal("0.5"), Decimal("1e40")], [NAN, 0.5, 1e40]),
        ("event_time", [pd.NaT, Decimal("Infinity"), Decimal(-1), NEW_YEAR], [None, None, -1, NEW_YEAR]),
        ("event_time", [np.float32(NEW_YEAR), np.float16(1), NEW_YEAR], [COARSE, COARSE, NEW_YEAR]),
        ("user_id", [["ann"], "bob", {"a": 1}], [None, b"bob", None]),
        ("event_time", [NEW_YEAR, "2026-01-01T00:00:00Z", NEW_YEAR + 0.5, None], [NEW_YEAR] * 3 + [None]),
        ("event_time", [datetime(2026, 1, 1, tzinfo=UTC), NEW_YEAR], [NEW_YEAR] * 2),
        ("event_time", [NEW_YEAR, 10**30], [NEW_YEAR, None]),
        ("payload", [0.5, 3, "4", [1], None], [0.5, 3.0, NAN, NAN, None]),
        ("payload", [0.5, True], [0.5, NAN]),
        ("payload", [0.5, 2**60 + 1], [0.5, 2.0**60]),
        ("payload", [0.5, 10**30], [0.5, 1e30]),
        ("payload", [0.5, 10**400], [0.5, math.inf]),
        ("service", ["maps", 5, b"taxi", ["x"]], ["maps", "5", "taxi", UNREADABLE]),
        ("report_id", ["r", 5, b"\0" * 16], [b"r", b"5", None]),
    ],
)
def test_in_a_column_of_mixed_types_each_value_stands_alone(name: str, values: Any, expected: Any) -> None:
    assert list(map(repr, mixed(name, values))) == list(map(repr, expected))
