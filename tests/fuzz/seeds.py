"""``python -m fuzz.seeds``: write the valid seeds of every target."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.poll_inputs import ARROW, AVRO, JSON, LINES, written
from fuzz.targets import SEEDS
from ldpbeam.schemas.encodings import avro

HOUR = 1_767_225_600_000
RECORDS = [
    {
        "user_id": f"u{number}",
        "attribute": "x",
        "service": "a",
        "event_time": HOUR + number,
        "report_id": f"r{number}",
        "payload": number / 8,
    }
    for number in range(5)
]
SYNC = bytes(range(16))


def main() -> None:
    """Write the files."""
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
    containers = {
        f"valid-{codec}": _container(codec) for codec in ("null", "deflate", "snappy", "bzip2", "xz")
    }
    containers["valid-fixed"] = _fixed()
    table = pa.Table.from_pylist(RECORDS)
    everything: Mapping[str, Mapping[str, bytes]] = {
        "avro_file": containers,
        "avro_object": {"valid": _object()},
        "json_file": {"valid": lines},
        "json_lines": {"valid": lines},
        "json_report": {"valid": lines.partition(b"\n")[0]},
        "gzip_file": {"valid": gzip.compress(lines, mtime=0)},
        "parquet_file": {
            "valid": _parquet(table),
            "valid-checksums": _parquet(table, write_page_checksum=True),
        },
        "arrow_message": {"valid": _stream(table, None), "valid-zstd": _stream(table, "zstd")},
        "poll": {"valid": _poll(lines, _stream(table, None))},
    }
    for target, files in everything.items():
        folder = SEEDS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)


def _container(codec: str) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, avro.schema("report"), RECORDS, codec=codec, sync_marker=SYNC)
    return stream.getvalue()


def _fixed() -> bytes:
    schema = avro.fixed_report_schema({"user_id": 16})
    dtype = avro.fixed_dtype(schema)
    rows = [
        (bytes([1 + n] * 16), record["event_time"], record["payload"]) for n, record in enumerate(RECORDS)
    ]
    stream = io.BytesIO()
    said = {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}
    avro.write_fixed(stream, np.array(rows, dtype), schema, said, SYNC)
    return stream.getvalue()


def _object() -> bytes:
    schema = avro.schema("report")
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, RECORDS[0])
    return bytes.fromhex("c3019934b38716a2892c") + stream.getvalue()


def _parquet(table: pa.Table, **options: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def _stream(table: pa.Table, compression: str | None) -> bytes:
    stream = io.BytesIO()
    with pa.ipc.new_stream(
        stream, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table)
    return stream.getvalue()


def _poll(lines: bytes, stream: bytes) -> bytes:
    singles = [(line, JSON) for line in lines.splitlines()] + [(_object(), AVRO)] * 20
    return written([*singles, (lines, LINES), (stream, ARROW)])


if __name__ == "__main__":
    main()
