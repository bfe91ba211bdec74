"""Avro container files: split anywhere, read as any Avro reader would, and corrupt blocks cost themselves."""

from __future__ import annotations

import io
import math
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

import cramjam
import fastavro
import numpy as np
import pytest
from support import fixed_avro
from support.encoded import avro_file

from ldpbeam.schemas.encodings import avro, avro_blocks, avro_headers
from ldpbeam.schemas.reports.columns import Columns

SYNC = bytes(range(100, 116))
NEW_YEAR = 1_767_225_600_000
UUID = uuid.UUID("89abcdef-0123-4567-fedc-ba9876543210")
COLUMNS = Columns(extras=("app",))
FIXED_NAMES = ("user_id", "event_time", "payload", "report_id", "app")
FIXED = fixed_avro.fixed_report_schema({"user_id": 8, "payload": 4, "report_id": 16, "app": 3})
REPORT = avro.schema("report")


class Found(NamedTuple):
    rows: list[dict[str, Any]]
    bad: list[avro_blocks.Block]

    @property
    def places(self) -> list[tuple[int, int]]:
        return [(row["position"], row["row"]) for row in self.rows]


def read(data: bytes, start: int = 0, stop: int | None = None) -> Found:
    header = avro_headers.read_header(stream := io.BytesIO(data))
    blocks = avro_blocks.read_blocks(stream, header, start, len(data) if stop is None else stop)
    found = Found([], [])
    for item in avro.decode_blocks(header, blocks, COLUMNS):
        if isinstance(item, avro_blocks.Block):
            found.bad.append(item)
        else:
            found.rows.extend(item.to_pylist())
    return found


def fixed_records(count: int) -> np.ndarray:
    others = [(bytes(16), b"v1"), (UUID.bytes, b"v22")]
    rows = [
        (b"user%d" % n, NEW_YEAR + n + 0.75, n.to_bytes(4, "little"), *others[n % 2]) for n in range(count)
    ]
    return np.array(rows, fixed_avro.fixed_dtype(FIXED))


def fixed_file(count: int, block_records: int) -> bytes:
    stream = io.BytesIO()
    fixed_avro.write_fixed(
        stream, fixed_records(count), FIXED, {"ldpbeam.service": "maps"}, SYNC, block_records
    )
    return stream.getvalue()


def file_of(schema: Any, records: Iterable[Any], codec: str = "null", per_block: int = 16_000) -> bytes:
    return avro_file(schema, records, codec=codec, sync_interval=per_block, sync_marker=SYNC)


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def long(number: int) -> bytes:
    fastavro.schemaless_writer(stream := io.BytesIO(), "long", number)
    return stream.getvalue()


def frame(count: int, data: bytes, size: int | None = None, sync: bytes = SYNC) -> bytes:
    return long(count) + long(len(data) if size is None else size) + data + sync


@pytest.mark.parametrize("codec", ["", "deflate", "snappy", "bzip2", "xz"])
def test_a_fixed_width_file_is_read_as_fastavro_reads_it_whatever_its_codec(codec: str) -> None:
    data = fixed_file(50, 8)
    records: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    expected = [
        (r["user_id"].rstrip(b"\0"), math.floor(r["event_time"]), r["payload"])
        + (r["report_id"] if any(r["report_id"]) else None, r["app"].rstrip(b"\0").decode())
        for r in records
    ]
    found = read(file_of(FIXED, records, codec, per_block=300) if codec else data).rows
    assert [tuple(row[name] for name in FIXED_NAMES) for row in found] == expected


def test_a_file_split_anywhere_gives_each_report_once() -> None:
    data = fixed_file(7, 3)
    whole = read(data)
    assert [row["user_id"] for row in whole.rows] == [b"user%d" % number for number in range(7)]
    for cut in range(len(data) + 1):
        assert read(data, 0, cut).rows + read(data, cut).rows == whole.rows
    assert [row for at in range(len(data)) for row in read(data, at, at + 1).rows] == whole.rows
    assert avro_headers.read_header(io.BytesIO(data)).metadata == {"ldpbeam.service": "maps"}


RECORDS = [
    {"user_id": str(UUID).upper(), "event_time": "2026-01-01T00:00:00Z", "payload": 0.5, "report_id": "r1"},
    {"user_id": UUID.bytes, "event_time": NEW_YEAR, "payload": 3, "service": "maps"},
    {"user_id": "Zoë", "event_time": NEW_YEAR + 0.5, "payload": -2.5, "report_id": b"r2"},
    {"user_id": "ann", "event_time": None, "payload": 0.0, "attribute": "minutes"},
]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2"])
@pytest.mark.parametrize("per_block", [1, 16_000])
def test_files_of_other_programs_with_unions_are_read_whatever_the_codec(codec: str, per_block: int) -> None:
    names = (*FIXED_NAMES[:4], "service", "attribute")
    rows = read(file_of(REPORT, RECORDS, codec, per_block)).rows
    assert [tuple(row.get(name) for name in names) for row in rows] == [
        (UUID.bytes, NEW_YEAR, 0.5, b"r1", None, None),
        (UUID.bytes, NEW_YEAR, 3.0, None, "maps", None),
        ("Zoë".encode(), NEW_YEAR, -2.5, b"r2", None, None),
        (b"ann", None, 0.0, None, None, "minutes"),
    ]


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2**24}


@pytest.mark.parametrize(
    ("name", "kind", "written", "expected"),
    [
        ("event_time", MILLIS, [NEW_YEAR, 10**16], [NEW_YEAR, 10**16]),
        ("event_time", ["null", MILLIS, "string"], [NEW_YEAR, None, "x"], [NEW_YEAR, None, None]),
        ("event_time", MICROS, [NEW_YEAR * 1000 + 999], [NEW_YEAR]),
        ("event_time", ["string", MICROS], ["2026-01-01T00:00:00Z", NEW_YEAR * 1000], [NEW_YEAR] * 2),
        ("event_time", {"type": "int", "logicalType": "date"}, [20_454], [None]),
        ("event_time", {"type": "long", "logicalType": "local-timestamp-millis"}, [NEW_YEAR], [None]),
        ("event_time", {"type": "long", "logicalType": "local-timestamp-micros"}, [NEW_YEAR * 1000], [None]),
        ("user_id", {"type": "string", "logicalType": "uuid"}, [UUID], [UUID.bytes]),
        ("user_id", {"type": "fixed", "name": "F", "size": 5}, [b"ann\0\0"], [b"ann"]),
        ("user_id", {**DECIMAL, "scale": 1}, [b"F"], [b"7"]),
        ("user_id", {**DECIMAL, "scale": 2**24}, [b"F"], [b"F"]),
        ("payload", {"type": "fixed", "name": "F", "size": 4}, [b"\1\1\0\0"], [b"\1\1\0\0"]),
        ("payload", ["null", "long", "double"], [3, 0.5, None, 2**60 + 1], [3.0, 0.5, None, 2.0**60]),
    ],
)
def test_fields_of_other_types_are_read(name: str, kind: Any, written: Any, expected: Any) -> None:
    data = file_of(record((name, kind), ("more", "string")), [{name: w, "more": "x"} for w in written])
    assert [row[name] for row in read(data).rows] == expected


HEADER = file_of(FIXED, [])
GOOD, OTHER = fixed_records(3).tobytes(), fixed_records(4).tobytes()
BEFORE, AFTER = HEADER + frame(3, GOOD), frame(3, GOOD) * 2
CORRUPT = {
    "size": frame(4, OTHER, size=len(OTHER) + 1), "huge size": frame(4, OTHER, size=2**50),
    "negative size": frame(4, OTHER, size=-1), "sync": frame(4, OTHER, sync=b"\0" + SYNC[1:]),
    "records cut": frame(4, OTHER[:-1]), "huge count": frame(2**50, OTHER), "count": frame(5, OTHER),
    "negative count": frame(-4, OTHER), "noise": b"\xff" * 12 + OTHER + SYNC,
}  # fmt: skip


SAID = {"huge count": 1, "count": 5, "negative count": 1, "noise": 1}


@pytest.mark.parametrize("name", CORRUPT)
def test_a_corrupt_block_costs_only_itself_wherever_the_file_is_split(name: str) -> None:
    data = BEFORE + CORRUPT[name] + AFTER
    whole, third = read(data), len(BEFORE + CORRUPT[name])
    starts = (len(HEADER), third, third + len(frame(3, GOOD)))
    assert whole.places == [(start, row) for start in starts for row in range(3)]
    assert [(block.position, block.reports) for block in whole.bad] == [(len(BEFORE), SAID.get(name, 4))]
    assert whole.bad[0].problem
    # Anywhere from the marker before it to the one behind it; elsewhere it is as in a file that is whole.
    for cut in range(len(BEFORE) - len(SYNC), third + len(SYNC)):
        one, other = read(data, 0, cut), read(data, cut)
        assert (one.rows + other.rows, one.bad + other.bad) == whole


def test_a_file_whose_header_has_another_marker_than_its_blocks_is_damaged() -> None:
    found = read(HEADER.replace(SYNC, SYNC[::-1]) + AFTER)
    assert (found.rows, [block.position for block in found.bad]) == ([], [len(HEADER)])


@pytest.mark.parametrize("kept", [3, 60, -17, -1])
def test_a_truncated_file_loses_only_its_last_block(kept: int) -> None:
    found = read(BEFORE + frame(4, OTHER)[:kept])
    assert len(found.rows) == 3
    assert [(block.position, block.reports) for block in found.bad] == [(len(BEFORE), 4)]


# Snappy's last four bytes are a checksum of what the block holds.
@pytest.mark.parametrize(("codec", "at"), [("deflate", 0), ("bzip2", 0), ("snappy", 0), ("snappy", -1)])
@pytest.mark.parametrize("schema", [FIXED, REPORT], ids=["fixed", "unions"])
def test_a_block_that_does_not_decompress_costs_itself(codec: str, at: int, schema: Any) -> None:
    records = fastavro.reader(io.BytesIO(fixed_file(3, 3))) if schema is FIXED else RECORDS[:3]
    data = file_of(schema, records, codec, per_block=1)
    header = avro_headers.read_header(stream := io.BytesIO(data))
    first, second, third = avro_blocks.read_blocks(stream, header, 0, len(data))
    spoilt = bytearray(second.data)
    spoilt[at] ^= 0xFF
    found = read(data.replace(second.data, bytes(spoilt)))
    assert [(block.position, block.reports) for block in found.bad] == [(second.position, 1)]
    assert found.places == [(first.position, 0), (third.position, 0)]


@pytest.mark.parametrize("count", [1, 4, 2**50])
def test_records_that_are_not_as_many_as_their_block_says_are_not_used(count: int) -> None:
    header = file_of(REPORT, [])
    block = file_of(REPORT, RECORDS[:2])[len(header) :]
    found = read(header + block + long(count) + block[1:] + block)
    assert [row["user_id"] for row in found.rows] == [UUID.bytes] * 4
    assert [(b.position, b.reports <= len(block)) for b in found.bad] == [(len(header + block), True)]


@pytest.mark.parametrize("rest", [b"\0", b"\x02", b"\x80", b"\x80\x80"])
def test_a_block_with_bytes_after_its_last_record_is_not_used(rest: bytes) -> None:
    stream = io.BytesIO()
    for each in RECORDS[:2]:
        fastavro.schemaless_writer(stream, REPORT, each)
    decoded = read(file_of(REPORT, []) + frame(2, stream.getvalue() + rest))
    assert (decoded.rows, len(decoded.bad)) == ([], 1)


def test_a_corrupt_huge_size_does_not_read_the_rest_of_the_file() -> None:
    stream = io.BytesIO(HEADER + frame(3, GOOD, size=2**40) + frame(3, GOOD) * 50_000)
    blocks = avro_blocks.read_blocks(stream, avro_headers.read_header(stream), 0, len(HEADER) + 1)
    assert [block.position for block in blocks] == [len(HEADER)]
    assert stream.tell() < 2**21


def test_blocks_without_records_and_records_without_fields_are_no_problem() -> None:
    assert read(HEADER) == read(HEADER + frame(0, b"")) == ([], [])
    assert read(file_of(REPORT, []) + frame(0, b"")) == ([], [])
    assert [len(part) for part in read(BEFORE + frame(0, b"") + AFTER)] == [9, 0]
    assert len(read(file_of(record(), [{}] * 3)).rows) == 3
    assert [block.reports for block in read(file_of("double", [1.0, 2.0])).bad] == [2]


def test_zstandard_is_a_codec_too() -> None:
    header = HEADER.replace(b"\x08null", b"\x12zstandard")
    assert len(read(header + frame(3, bytes(cramjam.zstd.compress(GOOD)))).rows) == 3


NO_HEADER = [b"", b"Obj\x01", b"PAR1" * 20, b"Obj\x02" + HEADER[4:], HEADER[:-1], b"Obj\x01" + b"\xff" * 60]
WRONG = [(b"o.schema", b"o.skema."), (b"record", b"recurd"), (b"{", b"["), (b'"payload"', b'"user_id"')]
NO_HEADER += [HEADER.replace(*pair) for pair in WRONG]


@pytest.mark.parametrize("data", NO_HEADER)
def test_what_has_no_avro_header_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no (Avro header|valid Avro schema)"):
        avro_headers.read_header(io.BytesIO(data))


def record_schema(*kinds: Any) -> Any:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": "R", "namespace": "a.b", "fields": fields}


def crafted(schema: Any, *blocks: tuple[int, bytes]) -> bytes:
    avro_headers.write_header(stream := io.BytesIO(), schema, {}, SYNC)
    for count, data in blocks:
        avro_headers.write_block(stream, count, data, SYNC)
    return stream.getvalue()


LAUGHS = [{"type": "record", "name": "L0", "fields": []}] + [
    {"type": "record", "name": f"L{n}", "fields": [{"name": own, "type": f"L{n - 1}"} for own in "ab"]}
    for n in range(1, 30)
]
DEEP = b"\2" * 3_000_000 + b"\0"
MANY = b"\xfe\xff\xff\xff\xff\xff\x01\0"
LEVELS: Any = "long"
for level in range(300):
    LEVELS = {"type": "record", "name": f"N{level}", "fields": [{"name": "f", "type": LEVELS}]}
#: Each of these ends the process, or takes all memory, where it is read as it stands.
ENDLESS = {
    "record in itself": crafted(record_schema(["null", "R"]), (1, DEEP)),
    "record in itself, by its whole name": crafted(record_schema(["null", "a.b.R"]), (1, DEEP)),
    "record in itself, named with its namespace": crafted(
        record_schema(["null", "R"]) | {"name": "a.b.R", "namespace": "c"}, (1, DEEP)
    ),
    "record in a map in itself": crafted(
        record_schema({"type": "map", "values": "R"}), (1, b"\2\2a" * 1_000_000 + b"\0")
    ),
    "record in a record in itself": crafted(
        record_schema(record_schema(["null", "R"]) | {"name": "S"}), (1, DEEP)
    ),
    "array of nothing": crafted(record_schema({"type": "array", "items": "null"}), (1, MANY)),
    "array of an empty record": crafted(
        record_schema({"type": "array", "items": record_schema("null") | {"name": "E"}}), (1, MANY)
    ),
    "an array in an array in an array": crafted(
        record_schema(
            {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "null"}}}
        ),
        (1, b"\2\2" + MANY + b"\0\0"),
    ),
    "300 levels": crafted(LEVELS, (1, b"\2")),
    "records twice, again and again": crafted(record_schema(*LAUGHS), (1, b"")),
    "widths that overflow": crafted(
        record_schema(
            *({"type": "fixed", "name": f"F{n}", "size": n} for n in (2**31 - 1, 8)), "F2147483647"
        ),
        (1, bytes(6)),
    ),
    "width of nothing": crafted(record_schema({"type": "fixed", "name": "F", "size": 0}), (5, b"")),
    "width below nothing": crafted(
        record_schema({"type": "fixed", "name": "F", "size": -8}, "double"), (5, b"")
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_schemas_of_which_few_bytes_are_endless_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no Avro header: "):
        avro_headers.read_header(io.BytesIO(ENDLESS[name]))
