"""A report is decoded to the same values in every format: times to the last bit, ids, and what is missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from support.faces import arrow_faces, avro_faces, record_faces

from ldpbeam.schemas.reports.casts import UNREADABLE
from ldpbeam.schemas.reports.event_times import COARSE

MILLISECOND = 1_000_000
HOUR = 1_763_632_800_000 * MILLISECOND  # 2025-11-20T10:00:00Z
#: In nanoseconds since 1970: ends of windows, before 1970, finer than a millisecond, the first and the last.
INSTANTS = [
    *(base + step for base in (HOUR, 0, -HOUR, -86_400_000 * MILLISECOND)
      for step in (0, 1, -1, 500_000, -500_000, 1_000, -1_000, MILLISECOND, -MILLISECOND, 999_999)),
    -2_208_988_800_000 * MILLISECOND,
    7_258_118_400_000 * MILLISECOND - 1,
]  # fmt: skip


def in_units(nanoseconds: int) -> list[tuple[int, int]]:
    """The instants that a unit can tell, as (instant, its count)."""
    return [(instant, instant // nanoseconds) for instant in INSTANTS if instant % nanoseconds == 0]


def milliseconds(instants: list[int]) -> list[int]:
    return [instant // MILLISECOND for instant in instants]


def text(instant: int, hours: int = 0) -> str:
    second, rest = divmod(instant, 10**9)
    at = datetime(1970, 1, 1) + timedelta(seconds=second + 3600 * hours)
    return f"{at.isoformat()}.{rest:09}" + (f"{hours:+03}:00" if hours else "Z")


def decimals(kind: pa.DataType) -> list[tuple[int, Decimal]]:
    found = []
    for instant in INSTANTS:
        value = Decimal(instant) / MILLISECOND
        try:
            pa.array([value], kind)
        except pa.ArrowInvalid:
            continue
        found.append((instant, value))
    return found


#: Instants that a double of milliseconds can tell.
DOUBLES = [(i, i / MILLISECOND) for i in INSTANTS if Fraction(i / MILLISECOND) == Fraction(i, MILLISECOND)]
UNITS = {"s": 10**9, "ms": MILLISECOND, "us": 1_000, "ns": 1}


def check(faces: dict[str, list[Any]], expected: list[Any]) -> None:
    assert faces
    assert {face: values for face, values in faces.items() if values != expected} == {}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "-03:30"])
@pytest.mark.parametrize("unit", UNITS)
def test_timestamps_of_every_unit_are_rounded_down(unit: str, zone: str, tmp_path: Path) -> None:
    instants, counts = map(list, zip(*in_units(UNITS[unit]), strict=True))
    check(
        arrow_faces("event_time", pa.array(counts, pa.timestamp(unit, zone)), tmp_path),
        milliseconds(instants),
    )


@pytest.mark.parametrize(
    "kind",
    [pa.int64(), pa.float64(), pa.decimal32(9, 4), pa.decimal64(18, 4), pa.decimal128(38, 0),
     pa.decimal128(38, 18), pa.decimal256(76, 6), pa.decimal128(20, -3), pa.string(), pa.large_string(),
     pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)  # fmt: skip
def test_numbers_and_texts_of_every_type_are_rounded_down(kind: pa.DataType, tmp_path: Path) -> None:
    if pa.types.is_decimal(kind):
        pairs: list[tuple[int, Any]] = list(decimals(kind))
    elif pa.types.is_floating(kind):
        pairs = list(DOUBLES)
    elif pa.types.is_integer(kind):
        pairs = list(in_units(MILLISECOND))
    else:
        pairs = [(i, text(i, hours)) for hours in (0, 2, -5) for i in (INSTANTS[:-2] if hours else INSTANTS)]
    instants, values = map(list, zip(*pairs, strict=True))
    assert any(instant < 0 for instant in instants)
    check(arrow_faces("event_time", pa.array(values, kind), tmp_path), milliseconds(instants))


@pytest.mark.parametrize(
    "kind", ["integers", "floats", "texts", "decimals", "datetimes", "pandas", "numpy", "beam"]
)
def test_values_of_python_are_rounded_down(kind: str, tmp_path: Path) -> None:
    pairs: dict[str, list[tuple[int, Any]]] = {
        "integers": [*in_units(MILLISECOND)],
        "floats": [*DOUBLES],
        "texts": [(i, text(i)) for i in INSTANTS],
        "decimals": [(i, Decimal(i) / MILLISECOND) for i in INSTANTS],
        "datetimes": [
            (i, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)) for i, n in in_units(1_000)
        ],
        "pandas": [(i, pd.Timestamp(i, tz="UTC")) for i in INSTANTS],
        "numpy": [(i, np.int64(n)) for i, n in in_units(MILLISECOND)],
        "beam": [(i, Timestamp(micros=n)) for i, n in in_units(1_000)],
    }
    instants, values = map(list, zip(*pairs[kind], strict=True))
    faces = record_faces("event_time", values, tmp_path)
    if kind == "beam":
        faces = {face: found for face, found in faces.items() if face.startswith("beam")}
    check(faces, milliseconds(instants))


def long(logical: str) -> dict[str, str]:
    return {"type": "long", "logicalType": logical}


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        ("long", in_units(MILLISECOND)),
        ("double", DOUBLES),
        ("string", [(i, text(i)) for i in INSTANTS]),
        *((long(f"timestamp-{name}"), in_units(UNITS[unit]))
          for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}, in_units(MILLISECOND)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 6},
         [(i, Decimal(i) / MILLISECOND) for i in INSTANTS]),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 9},
         [(i, Decimal(i) / MILLISECOND) for i in INSTANTS]),
    ],
    ids=str,
)  # fmt: skip
def test_times_of_avro_are_rounded_down(kind: Any, pairs: list[tuple[int, Any]], tmp_path: Path) -> None:
    instants, values = map(list, zip(*pairs, strict=True))
    if isinstance(kind, dict) and kind["logicalType"] == "decimal":
        values = list(map(Decimal, values))
    check(avro_faces("event_time", kind, values, tmp_path), milliseconds(instants))


@pytest.mark.parametrize("kind", [np.float32, np.float16], ids=lambda kind: kind.__name__)
def test_times_that_are_too_coarse_are_told_from_missing_ones(kind: Any, tmp_path: Path) -> None:
    values, expected = np.array([60_000.0, 0.0, np.nan, np.inf], kind), [COARSE, COARSE, None, None]
    check(arrow_faces("event_time", pa.array(values), tmp_path), expected)
    check(record_faces("event_time", list(values), tmp_path), expected)
    if kind is np.float32:
        check(avro_faces("event_time", "float", values.tolist(), tmp_path), expected)


@pytest.mark.parametrize("name", ["user_id", "report_id", "group", "version", "service", "attribute"])
def test_what_is_missing_is_missing_in_every_format(name: str, tmp_path: Path) -> None:
    nan, infinite = float("nan"), float("inf")
    #: Values, and what they are as text.
    floats = [nan, infinite, -infinite, 1e16, 7.0, -0.0, 1e10, 0.5]
    unreadable = None if name in ("user_id", "report_id") else UNREADABLE
    texts: list[Any] = [None, unreadable, unreadable, unreadable, "7", "0", "10000000000", "0.5"]

    def expected(given: list[Any]) -> list[Any]:
        filled = {"attribute": "x", "service": "s"}.get(name)
        own = [filled if text is None else text for text in given]
        return [text.encode() if text and name in ("user_id", "report_id") else text for text in own]

    narrow = [nan, infinite, 2.0**24, 7.0, 0.5]
    narrow_texts = [None, unreadable, unreadable, "7", "0.5"]
    check(arrow_faces(name, pa.array(floats), tmp_path), expected(texts))
    check(arrow_faces(name, pa.array(np.array(narrow, np.float32)), tmp_path), expected(narrow_texts))
    check(record_faces(name, floats, tmp_path), expected(texts))
    check(record_faces(name, [np.float32(number) for number in narrow], tmp_path), expected(narrow_texts))
    check(avro_faces(name, "double", floats, tmp_path), expected(texts))
    check(avro_faces(name, "float", narrow, tmp_path), expected(narrow_texts))
    for kind in (pa.decimal128(38, 0), pa.decimal128(38, 18), pa.decimal256(40, 2)):
        check(arrow_faces(name, pa.array([Decimal(7), None], kind), tmp_path), expected(["7", None]))
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
    check(
        avro_faces(name, decimal, [Decimal("7.00"), None, Decimal("0.50")], tmp_path),
        expected(["7", None, "0.5"]),
    )
    check(arrow_faces(name, pa.nulls(2), tmp_path), expected([None, None]))
