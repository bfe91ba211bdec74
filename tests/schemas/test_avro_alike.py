"""Records with their bytes in the same places: the values are those that fastavro reads."""

from __future__ import annotations

import io
import uuid
from typing import Any

import fastavro
import numpy as np
import pytest

from ldpbeam.schemas.encodings.avro_alike import FEWEST, values_alike

RNG = np.random.default_rng(5)
COUNT = 40
#: Types, and values of as many bytes each.
ALIKE: dict[str, tuple[Any, list[Any]]] = {
    "uuid": ("string", [str(uuid.UUID(bytes=RNG.bytes(16))) for _ in range(COUNT)]),
    "no ascii": ("string", [f"é{place % 10}\0" for place in range(COUNT)]),
    "empty": ("string", [""] * COUNT),
    "nullable": (["null", "string"], ["ab"] * COUNT),
    "null": (["null", "long"], [None] * COUNT),
    "second": (["null", "long", "double"], [place / 7 for place in range(COUNT)]),
    "time": ("long", list(range(1_795_168_800_000, 1_795_168_800_000 + COUNT))),
    "negative": ("int", list(range(-64, -64 + COUNT))),
    "nine bytes": ("long", [2**62 - 1 - place for place in range(COUNT)]),
    "nine bytes below zero": ("long", [-(2**62) + place for place in range(COUNT)]),
    "float": ("float", RNG.normal(size=COUNT).astype(np.float32).tolist()),
    "double": ("double", [np.inf, -0.0, *RNG.normal(size=COUNT - 2).tolist()]),
    "bytes": ({"type": "bytes"}, [RNG.bytes(3) for _ in range(COUNT)]),
    "fixed": ({"type": "fixed", "name": "f", "size": 4}, [RNG.bytes(4) for _ in range(COUNT)]),
}
#: Types, and values of which one has more bytes, or another branch of a union, or is not read as a column.
OTHER: dict[str, tuple[Any, list[Any]]] = {
    "longer text": ("string", ["ab"] * (COUNT - 1) + ["abc"]),
    "longer number": ("long", [63] * (COUNT - 1) + [64]),
    "ten bytes": ("long", [2**63 - 1 - place for place in range(COUNT)]),
    "other branch": (["string", "bytes"], ["ab"] * (COUNT - 1) + [b"ab"]),
    "boolean": ("boolean", [True] * COUNT),
    "array": ({"type": "array", "items": "long"}, [[1]] * COUNT),
    "record": (
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]},
        [{"a": 1}] * COUNT,
    ),
    "enum": ({"type": "enum", "name": "e", "symbols": ["a", "b"]}, ["a"] * COUNT),
}


def encoded(columns: dict[str, tuple[Any, list[Any]]]) -> tuple[Any, bytes]:
    """(the schema of a record with these fields, the bytes of its records)."""
    fields = [{"name": name.replace(" ", "_"), "type": kind} for name, (kind, _) in columns.items()]
    schema: Any = fastavro.parse_schema({"type": "record", "name": "Report", "fields": fields})
    stream = io.BytesIO()
    for values in zip(*(values for _, values in columns.values()), strict=True):
        record = {field["name"]: value for field, value in zip(fields, values, strict=True)}
        fastavro.schemaless_writer(stream, schema, record)
    return schema, stream.getvalue()


def by_fastavro(schema: Any, data: bytes, count: int) -> dict[str, list[Any]]:
    stream = io.BytesIO(data)
    records: Any = [fastavro.schemaless_reader(stream, schema, None) for _ in range(count)]
    assert not stream.read(1)
    return {field["name"]: [record[field["name"]] for record in records] for field in schema["fields"]}


def alike(schema: Any, data: bytes, count: int = COUNT) -> dict[str, list[Any]] | None:
    return values_alike(schema["fields"], data, count, {field["name"] for field in schema["fields"]})


@pytest.mark.parametrize("name", [*ALIKE, None])
def test_values_are_those_of_fastavro(name: str | None) -> None:
    schema, data = encoded(ALIKE if name is None else {name: ALIKE[name], "time": ALIKE["time"]})
    found = alike(schema, data)
    assert repr(found) == repr(by_fastavro(schema, data, COUNT))


@pytest.mark.parametrize("name", OTHER)
def test_records_that_are_not_alike_are_left_to_fastavro(name: str) -> None:
    assert alike(*encoded({"time": ALIKE["time"], name: OTHER[name]})) is None


def test_text_that_is_too_short_in_one_field_and_too_long_in_the_next_is_not_alike() -> None:
    first, second = ["ab"] * COUNT, ["cd"] * COUNT
    first[7], second[7] = "abc", "d"
    schema, data = encoded({"first": ("string", first), "second": ("string", second)})
    assert len(data) % COUNT == 0 and alike(schema, data) is None


def test_few_records_and_parts_of_records_are_left_to_fastavro() -> None:
    schema, data = encoded(ALIKE)
    width = len(data) // COUNT
    assert alike(schema, data[: width * FEWEST], FEWEST) is not None
    assert alike(schema, data[: width * (FEWEST - 1)], FEWEST - 1) is None
    assert alike(schema, data[:-1]) is None and alike(schema, data, COUNT // 2) is None
    assert alike(schema, b"") is None


def test_whatever_bytes_come_nothing_else_is_read_than_by_fastavro() -> None:
    columns = {name: ALIKE[name] for name in ("uuid", "nullable", "time", "second", "bytes", "double")}
    schema, data = encoded(columns)
    width, same = len(data) // COUNT, 0
    for _ in range(3_000):
        changed = bytearray(data)
        places = RNG.integers(0, width if RNG.random() < 0.5 else len(data), RNG.integers(1, 4))
        for place in places.tolist():
            changed[place] = RNG.integers(0, 256)
        found = alike(schema, bytes(changed))
        if found is not None:
            assert repr(found) == repr(by_fastavro(schema, bytes(changed), COUNT))
            same += 1
    assert 200 < same < 2_800
