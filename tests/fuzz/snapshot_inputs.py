"""Snapshots: files whose records contradict themselves, or whose bytes are changed."""

from __future__ import annotations

import functools
import hashlib
import io
import json
from random import Random
from typing import Any

import fastavro
import numpy as np
from support.studies import SMALL

from fuzz.avro_inputs import COMPRESS
from fuzz.mutations import edge, mutated, zigzag
from ldpbeam import Answers, tally
from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.files.avro_headers import write_header
from ldpbeam.schemas.outputs.snapshots import Snapshot, write_snapshots
from ldpbeam.schemas.study.yaml_file import parse_study

STUDY = parse_study(SMALL)
HOUR = 3_600_000


@functools.cache
def valid() -> bytes:
    """A file of two snapshots."""
    attribute = STUDY.attribute("x")
    rng = np.random.default_rng(1)
    answers = [
        Answers(index, np.arange(30), version.mechanism.perturb(rng.random(30), rng))
        for index, version in enumerate(attribute.versions)
    ]
    statistic = tally(attribute, 30, answers)
    snapshots = [Snapshot("x", (n * HOUR, n * HOUR + HOUR), None, 0, statistic) for n in range(2)]
    sink = io.BytesIO()
    write_snapshots(sink, snapshots, attribute, study="small", study_fingerprint="f" * 32, run="r1")
    return sink.getvalue()


@functools.cache
def _records() -> tuple[Any, ...]:
    return tuple(fastavro.reader(io.BytesIO(valid())))


def snapshot(rng: Random) -> bytes:
    """A file of snapshots."""
    if rng.random() < 0.3:
        return mutated(rng, valid(), ())
    records = [dict(record) for record in _records()[: rng.choice((0, 1, 1, 2))]]
    for record in records:
        for name in rng.sample(sorted(record), rng.choice((0, 1, 1, 2))):
            record[name] = _changed(rng, record[name])
    fields = schema("statistic")["fields"]
    hashed = rng.random() < 0.4
    if not hashed:
        fields = [field for field in fields if field["name"] != "sha256"]
    if rng.random() < 0.2:
        dropped = rng.choice(fields)
        fields = [field for field in fields if field is not dropped]
    try:
        data = _container(rng, {**schema("statistic"), "fields": fields}, records, hashed)
    except Exception:  # a value of another type than its field's cannot be written
        return valid()
    return mutated(rng, data, (valid(),)) if rng.random() < 0.1 else data


def _container(rng: Random, written: Any, records: list[dict[str, Any]], hashed: bool) -> bytes:
    """A file of records; where they are hashed, the hashes fit."""
    codec = rng.choice(("null", "deflate", "deflate", "snappy", "bzip2", "xz"))
    count = str(len(records)) if rng.random() < 0.9 else str(edge(rng))
    said = {"ldpbeam.snapshots": count} if hashed else {}
    sync = bytes(range(16))
    blocks = b""
    for record in records:
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, fastavro.parse_schema(written), {**record, "sha256": b""})
        data = datum.getvalue()
        if hashed:
            canonical = json.dumps(written, sort_keys=True, separators=(",", ":")).encode()
            data = data[:-1] + b"\x40" + hashlib.sha256(canonical + data[:-1]).digest()
        packed = COMPRESS[codec](data)
        blocks += zigzag(1) + zigzag(len(packed)) + packed + sync
    head = io.BytesIO()
    write_header(head, written, said, sync, codec)
    return head.getvalue() + blocks


def _changed(rng: Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) or value is None:
        return rng.choice((None, edge(rng) % 2**63, -1, 0, 2**63 - 1, -(2**63)))
    if isinstance(value, bytes):
        size = len(value)
        return rng.choice(
            (b"", value[:-1], value[:-8], value + bytes(8), b"\xff" * size, rng.randbytes(size))
        )
    if isinstance(value, str):
        words = (
            "",
            "-1",
            "1e9",
            "9" * 5_000,
            "x",
            "٣",
            " 7 ",
            "1_0",
            "\0",
            "../x",
            "\x1b[2J",
            "NaN",
            "0" * 32,
        )
        return rng.choice(words)
    if isinstance(value, list):
        if value and rng.random() < 0.7:
            place = rng.randrange(len(value))
            return [*value[:place], _changed(rng, value[place]), *value[place + 1 :]]
        return rng.choice(([], value[:-1], value + value, value * 50))
    if isinstance(value, dict):
        name = rng.choice(sorted(value))
        return {**value, name: _changed(rng, value[name])}
    return value
