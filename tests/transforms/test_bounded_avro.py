"""Whatever the bytes of an Avro file, decoding adds at most 512 MB and takes linear time."""

from __future__ import annotations

import bz2
import functools
import io
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from support import fixed_avro
from support.bounded import Decoded, bounded, decode_file

from ldpbeam.schemas.encodings import avro_headers

SYNC = bytes(range(100, 116))
FIXED = fixed_avro.fixed_report_schema({"user_id": 8})
WIDTH = 24


def container(schema: Any, codec: str, *blocks: tuple[int, bytes], sync: bytes = SYNC) -> bytes:
    """An Avro file of blocks as they are given: their numbers of records, and their compressed bytes."""
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    stream = io.BytesIO()
    header = {"magic": avro_headers.MAGIC, "meta": meta, "sync": SYNC}
    fastavro.schemaless_writer(stream, avro_headers.HEADER_SCHEMA, header)
    for count, data in blocks:
        avro_headers.write_block(stream, count, data, sync)
    return stream.getvalue()


@functools.cache
def zeros(codec: str, megabytes: int) -> bytes:
    """So many megabytes of zero bytes, compressed 16 at a time."""
    part = bytes(2**24)
    if codec == "deflate":
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
        # What comes after a full flush refers to nothing before it, so that it can be repeated.
        compressor.compress(b"") + compressor.flush(zlib.Z_FULL_FLUSH)
        packed = compressor.compress(part) + compressor.flush(zlib.Z_FULL_FLUSH)
        return packed * (megabytes // 16) + compressor.flush()
    return bz2.compress(part) * (megabytes // 16)


def as_file(data: bytes, folder: Path, seconds: int = 60) -> Decoded:
    (folder / "file.avro").write_bytes(data)
    return bounded(decode_file, folder / "file.avro", seconds=seconds)


GENERAL = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "user_id", "type": "string"}, {"name": "payload", "type": ["null", "double"]}],
}


@pytest.mark.parametrize("schema", [FIXED, GENERAL], ids=["fixed", "records"])
def test_a_block_that_inflates_to_more_than_it_says_is_refused(schema: Any, tmp_path: Path) -> None:
    # Other codecs: test_no_codec_gives_more_than_is_permitted.
    data = container(schema, "deflate", (1000, zeros("deflate", 1024)), (1, b""))
    decoded = as_file(data, tmp_path)
    assert decoded.reports == 0
    assert decoded.letters == 2
    assert list(decoded.bad) == ["corrupt_block"]


@pytest.mark.parametrize("schema", [FIXED, GENERAL], ids=["fixed", "records"])
def test_a_block_of_many_large_streams_is_refused(schema: Any, tmp_path: Path) -> None:
    count = 8 * 2**30 // (WIDTH if schema is FIXED else 2)
    data = container(schema, "bzip2", (count, zeros("bzip2", 8192)))
    decoded = as_file(data, tmp_path)
    assert (decoded.reports, decoded.letters, list(decoded.bad)) == (0, 1, ["too_many_reports"])
    assert " more than " in decoded.problems[0]


def schema_of(*kinds: Any) -> Any:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": "R", "fields": fields}


SEVERAL = 2**40


def test_records_without_bytes_are_not_as_many_as_a_block_claims(tmp_path: Path) -> None:
    decoded = as_file(container(schema_of("null"), "null", *[(SEVERAL, b"")] * 100), tmp_path)
    assert (decoded.reports, decoded.letters, list(decoded.bad)) == (0, 100, ["too_many_reports"])


def test_a_block_has_no_more_values_in_arrays_than_fit_into_memory(tmp_path: Path) -> None:
    schema = schema_of("double", {"type": "array", "items": "boolean"})
    for items in (2**20, 2**21):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, "long", items)
        data = bytes(8) + stream.getvalue() + bytes(items) + b"\0"
        decoded = as_file(container(schema, "null", (1, data)), tmp_path)
        assert (decoded.reports, decoded.letters) == ((1, 0) if items == 2**20 else (0, 1))


def test_values_that_few_bytes_stand_for_do_not_add_up(tmp_path: Path) -> None:
    many = schema_of(*["null"] * 5000, "boolean") | {"name": "Wide"}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "payload", "type": {"type": "array", "items": many}}],
    }
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", 2**20)
    decoded = as_file(container(schema, "null", (1, stream.getvalue() + bytes(2**20) + b"\0")), tmp_path)
    assert (decoded.reports, decoded.letters) == (0, 1)
    few = b"\x14" + bytes(10) + b"\0"
    decoded = as_file(container(schema, "null", *[(1, few)] * 50), tmp_path)
    assert (decoded.reports, decoded.letters, list(decoded.bad)) == (0, 50, ["too_many_reports"])


@pytest.mark.slow
def test_eighteen_megabytes_of_empty_blocks_are_no_reports(tmp_path: Path) -> None:
    header = container(FIXED, "null")
    assert as_file(header + (bytes(2) + SYNC) * 10**6, tmp_path, 30) == Decoded(0, {}, 0, [])
    deflated = container(FIXED, "deflate") + (b"\0\4\3\0" + SYNC) * 200_000
    assert as_file(deflated, tmp_path, 30) == Decoded(0, {}, 0, [])


def blocks_without_markers() -> Iterator[bytes]:
    """Blocks with a marker each of their own, so that there is nothing to go by."""
    yield container(FIXED, "null")
    for _ in range(8):
        yield b"".join(b"\2\x30" + bytes(WIDTH) + os.urandom(16) for _ in range(100_000))


def test_a_file_without_any_marker_is_read_in_linear_time(tmp_path: Path) -> None:
    with (tmp_path / "file.avro").open("wb") as file:
        file.writelines(blocks_without_markers())
    decoded = bounded(decode_file, tmp_path / "file.avro", seconds=60)
    assert (decoded.reports, decoded.letters, list(decoded.bad)) == (0, 1, ["corrupt_block"])


def test_a_block_of_more_than_32_mb_is_said_to_be_too_large(tmp_path: Path) -> None:
    size = 33 * 2**20
    with (tmp_path / "file.avro").open("wb") as file:
        file.write(container(FIXED, "null"))
        avro_headers.write_block(file, size // WIDTH, bytes(size // WIDTH * WIDTH), SYNC)
        avro_headers.write_block(file, 10, bytes(10 * WIDTH), SYNC)
    decoded = bounded(decode_file, tmp_path / "file.avro")
    assert (decoded.reports, decoded.letters) == (10, 1)
    assert "32 MB" in decoded.problems[0]
