"""The same reports as an input of every format."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import fastavro
import numpy as np
import pyarrow as pa

from ldpbeam import Answers, Attribute, Statistic, tally
from ldpbeam.schemas.encodings.avro_headers import HEADER_SCHEMA, MAGIC
from ldpbeam.schemas.outputs.snapshots import Snapshot, encode_snapshot, write_encoded
from ldpbeam.schemas.study.yaml_file import parse_study
from support import fixed_avro
from support.encoded import parquet_file

STUDY_TEXT = """\
study: damage
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services: {a: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
windows: {size: 1h}
"""
STUDY = parse_study(STUDY_TEXT)
REPORTS, BLOCK = 1_000, 250
START = 1_767_225_600_000
SYNC = hashlib.sha256(b"sync").digest()[:16]
HOUR = 3_600_000


def reports() -> list[dict[str, Any]]:
    """The reports as records."""
    rng = np.random.default_rng(1)
    payloads = STUDY.attribute("x").versions[0].mechanism.perturb(rng.random(REPORTS), rng)
    return [
        {"user_id": f"user-{n:05d}", "attribute": "x", "service": "a", "event_time": START + n, "payload": p}
        for n, p in enumerate(payloads.tolist())
    ]


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data)[2:-4],
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": lambda data: bytes(cramjam.zstd.compress(data)),
}


def container(codec: str) -> bytes:
    """Fixed-width records, as ``ldpbeam perturb`` writes them, in any codec."""
    schema = fixed_avro.fixed_report_schema({"user_id": 12})
    rows = [(r["user_id"].encode(), r["event_time"], r["payload"]) for r in reports()]
    records = np.array(rows, dtype=fixed_avro.fixed_dtype(schema))
    meta = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    meta |= {"ldpbeam.attribute": "x", "ldpbeam.service": "a"}
    header = {"magic": MAGIC, "meta": {name: text.encode() for name, text in meta.items()}, "sync": SYNC}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, HEADER_SCHEMA, header)
    for start in range(0, REPORTS, BLOCK):
        data = CODECS[codec](records[start : start + BLOCK].tobytes())
        fastavro.schemaless_writer(stream, "long", BLOCK)
        fastavro.schemaless_writer(stream, "long", len(data))
        stream.write(data + SYNC)
    return stream.getvalue()


def parquet(checksums: bool) -> bytes:
    """A Parquet file of row groups."""
    table = pa.Table.from_pylist(reports())
    return parquet_file(table, row_group_size=BLOCK, write_page_checksum=checksums)


def arrow(compression: str | None) -> bytes:
    """An Arrow stream of batches."""
    table = pa.Table.from_pylist(reports())
    stream = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(stream, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=BLOCK)
    return stream.getvalue()


def snapshots() -> bytes:
    """Snapshots of the reports' statistic, in four windows."""
    attribute = STUDY.attribute("x")
    payloads = np.array([report["payload"] for report in reports()])
    statistic = tally(attribute, REPORTS, [Answers(0, np.arange(REPORTS), payloads)])
    windows = [(START + n * HOUR, START + (n + 1) * HOUR) for n in range(4)]
    snapshots = [Snapshot("x", window, None, 0, statistic) for window in windows]
    return snapshot_file(snapshots, attribute, study="damage", study_fingerprint="f" * 32, run="r")


def snapshot_file(snapshots: list[Snapshot], attribute: Attribute, **about: str) -> bytes:
    """A file of snapshots of one attribute."""
    stream = io.BytesIO()
    records = (encode_snapshot(snapshot, attribute, **about) for snapshot in snapshots)
    write_encoded(stream, records, len(snapshots), attribute)
    return stream.getvalue()


def answered(attribute: Attribute, seed: int, users: int) -> Statistic:
    """The statistic of users who each answered some of the services."""
    source, answers = np.random.default_rng(seed), []
    for index, version in enumerate(attribute.versions):
        rows = np.flatnonzero(source.random(users) < 0.6)
        answers.append(Answers(index, rows, version.mechanism.perturb(source.random(len(rows)), source)))
    return tally(attribute, users, answers)
