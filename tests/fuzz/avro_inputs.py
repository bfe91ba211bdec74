"""Avro with hostile schemas, counts, lengths, codecs and data: containers and single objects."""

from __future__ import annotations

import bz2
import functools
import io
import json
import lzma
import zlib
from random import Random
from typing import Any

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form
from support import fixed_avro
from support.inputs import CODECS

from fuzz.mutations import edge, mutated, zigzag
from ldpbeam.schemas.encodings import avro

REPORT = avro.schema("report")
_START = b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(REPORT), "CRC-64-AVRO"))
FIELDS = ("user_id", "attribute", "service", "event_time", "report_id", "payload", "app", "other")
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    "timestamp-millis", "timestamp-micros", "date", "decimal", "uuid", "duration", "local-timestamp-nanos",
)  # fmt: skip
_CODECS = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")
#: A piece of what a bomb unpacks to, and how many of them one is.
PIECE, PIECES = 2**24, (4, 48)


def container(rng: Random) -> bytes:
    """An Avro container whose parts are each right, or wrong in one of many ways."""
    schema = rng.choice((REPORT, _fixed(rng), hostile_schema(rng), hostile_schema(rng)))
    codec = rng.choice(("null", "null", "null", *_CODECS))
    sync = rng.choice((bytes(range(16)), bytes(16), b"\xff" * 16, rng.randbytes(16)))
    meta = {"avro.schema": _text_of(rng, schema), "avro.codec": codec.encode()}
    meta |= {"ldpbeam.attribute": b"x", "ldpbeam.service": b"a"} if rng.random() < 0.5 else {}
    if rng.random() < 0.1:
        meta[rng.choice(("avro.codec", "avro.schema", "ldpbeam.service", "other"))] = rng.choice(
            (b"", b"\xff\xfe", b"null\0", b"lz4", b"{", b"[]", rng.randbytes(rng.randrange(40)))
        )
    head = b"Obj\x01" + _metadata(rng, meta) + sync
    data = head + b"".join(_block(rng, schema, codec, sync) for _ in range(_few(rng)))
    if rng.random() < 0.02:
        data += (b"\x00\x00" + sync) * rng.choice((10, 1_000, 20_000))
    return mutated(rng, data, ()) if rng.random() < 0.3 else data


def single_object(rng: Random) -> bytes:
    """An Avro single object of a known schema, or nearly."""
    if rng.random() < 0.05:
        return b"\xc3\x01" + rng.randbytes(rng.randrange(40))
    data = _START + datum(rng, REPORT)
    return mutated(rng, data, ()) if rng.random() < 0.5 else data


def object_of(record: dict[str, Any]) -> bytes:
    """A report as an Avro single object."""
    fastavro.schemaless_writer(stream := io.BytesIO(), REPORT, record)
    return _START + stream.getvalue()


def _metadata(rng: Random, meta: dict[str, bytes]) -> bytes:
    """Avro's map of bytes; its block sometimes has a size in bytes, which decoders may skip by."""
    body = b"".join(_sized(name.encode()) + _sized(value) for name, value in meta.items())
    if rng.random() < 0.05:
        return zigzag(-len(meta)) + zigzag(rng.choice((len(body), edge(rng)))) + body + b"\0"
    return zigzag(edge(rng) if rng.random() < 0.02 else len(meta)) + body + b"\0"


def _sized(data: bytes) -> bytes:
    return zigzag(len(data)) + data


def _few(rng: Random) -> int:
    return rng.choice((0, 1, 1, 1, 2, 3, 8))


def _text_of(rng: Random, schema: Any) -> bytes:
    text = json.dumps(schema)
    if rng.random() < 0.01:
        depth = rng.choice((50, 300, 900, 5_000))
        start, end = rng.choice(
            (
                ('{"type": "record", "name": "R%d", "fields": [{"name": "payload", "type": ', "}]}"),
                ('{"type": "record", "name": "R", "fields": [{"name": "user_id", "type": ', "}]}"),
                ('{"type": "array", "items": ', "}"),
                ('{"type": ', "}"),
                ("[", "]"),
            )
        )
        text = "".join(start % n if "%d" in start else start for n in range(depth)) + text + end * depth
    return text.encode() if rng.random() < 0.98 else repr(schema).encode()


def _fixed(rng: Random) -> dict[str, Any]:
    """A schema of fixed-width fields, as ``ldpbeam perturb`` writes it; widths may be impossible."""
    widths = {"user_id": 16, "payload": rng.choice((0, 0, 4, 8)), "app": rng.choice((0, 1, 5))}
    schema = fixed_avro.fixed_report_schema({name: width for name, width in widths.items() if width})
    if rng.random() < 0.3:
        field = rng.choice(schema["fields"])
        field["type"] = {
            "type": "fixed",
            "name": "w",
            "size": rng.choice((0, 1, 16, edge(rng), 1.5, "4", None)),
        }
    return schema


def hostile_schema(rng: Random) -> Any:
    """A schema by which few bytes may be many values, or none, or values of any type."""
    if rng.random() < 0.02:
        return rng.choice(("string", [], {}, None, 5, ["null", "Report"], {"type": "array", "items": "null"}))
    names = rng.sample(FIELDS, rng.randint(0, len(FIELDS)))
    if rng.random() < 0.05:
        names += rng.choices(FIELDS, k=2)
    fields = [{"name": name, "type": _kind(rng, rng.choice((0, 1, 1, 2, 4)))} for name in names]
    if rng.random() < 0.02:
        fields = fields * rng.choice((3, 200))
    schema: Any = {"type": "record", "name": rng.choice(("Report", "a.b.R", "string", "")), "fields": fields}
    return schema


def _kind(rng: Random, depth: int) -> Any:
    kinds = ["primitive"] * 4 + ["fixed", "logical", "enum", "named"]
    if depth:
        kinds += ["array", "map", "union", "union", "record"]
    kind = rng.choice(kinds)
    name = rng.choice(("A", "B", "n.C", "Report"))
    if kind == "primitive":
        return rng.choice(_PRIMITIVES)
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": rng.choice((0, 1, 4, 16, 16, 36, edge(rng)))}
    if kind == "logical":
        own = {
            "type": rng.choice(("int", "long", "bytes", "string")),
            "logicalType": rng.choice((*_LOGICAL, None, 3)),
        }
        return own | rng.choice(({}, {"precision": edge(rng), "scale": edge(rng)}))
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": rng.choice((["x", "a"], [], ["x", "x"]))}
    if kind == "named":
        return rng.choice(("Report", "A", "B", "C", "n.C", "ldpbeam.Report"))
    if kind == "array":
        return {"type": "array", "items": _kind(rng, depth - 1)}
    if kind == "map":
        return {"type": "map", "values": _kind(rng, depth - 1)}
    if kind == "union":
        return [_kind(rng, depth - 1) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
    fields = [{"name": own, "type": _kind(rng, depth - 1)} for own in rng.sample(FIELDS, rng.randint(0, 3))]
    return {"type": rng.choice(("record", "record", "error")), "name": name, "fields": fields}


def datum(rng: Random, kind: Any, depth: int = 0) -> bytes:
    """Bytes that a decoder of a schema reads far into; names that it uses again are a few random bytes."""
    if isinstance(kind, list):
        if not kind:
            return b""
        branch = rng.randrange(len(kind))
        return zigzag(edge(rng) if rng.random() < 0.02 else branch) + datum(rng, kind[branch], depth + 1)
    own = kind.get("type") if isinstance(kind, dict) else kind
    if own in ("record", "error") and depth < 30:
        return b"".join(datum(rng, field["type"], depth + 1) for field in kind["fields"])
    if own in ("array", "map") and depth < 30:
        count = rng.choice((0, 1, 2, edge(rng))) if rng.random() < 0.5 else rng.randrange(3)
        key = b"" if own == "array" else _sized(b"k")
        inner = kind["items" if own == "array" else "values"]
        items = b"".join(key + datum(rng, inner, depth + 1) for _ in range(min(max(count, 0), 5)))
        return zigzag(count) + items + rng.choice((b"\0", b"\0", b""))
    if own in ("string", "bytes"):
        data = rng.choice(
            (b"x", b"a", b"u1", b"", b"\xff\xfe", bytes(16), b"2026-11-20T10:00:00Z", b"0a0b" * 4)
        )
        return (zigzag(edge(rng)) if rng.random() < 0.05 else zigzag(len(data))) + data
    if own == "fixed":
        size = kind["size"]
        return rng.randbytes(min(size, 64)) if isinstance(size, int) and size > 0 else b""
    if own in ("int", "long", "enum"):
        return zigzag(rng.choice((0, 1, 1_767_225_600_000, edge(rng), edge(rng) * 2**40)))
    if own in ("float", "double"):
        return rng.choice((bytes(8), b"\xff" * 8, rng.randbytes(8)))[: 4 if own == "float" else 8]
    return b"" if own == "null" else rng.randbytes(1)


def _block(rng: Random, schema: Any, codec: str, sync: bytes) -> bytes:
    if codec != "null" and rng.random() < 0.01:
        data, count = _bomb(codec, rng.choice(PIECES)), rng.choice((1, PIECE // 24, 2**31))
    else:
        count = rng.choice((0, 1, 2, 5, 100))
        data = b"".join(datum(rng, schema) for _ in range(count))
        if rng.random() < 0.1:
            data = rng.choice((b"", bytes(1_000), mutated(rng, data, ()), data * 50))
        if rng.random() < 0.12:
            count = edge(rng)
        data = _packed(rng, codec, data)
    size = edge(rng) if rng.random() < 0.05 else len(data)
    return zigzag(count) + zigzag(size) + data + (sync if rng.random() < 0.95 else rng.randbytes(16))


def _packed(rng: Random, codec: str, data: bytes) -> bytes:
    packed = COMPRESS[codec](data)
    return mutated(rng, packed, ()) if rng.random() < 0.1 else packed


COMPRESS = {**CODECS, "bzip2": bz2.compress, "xz": lzma.compress}


@functools.cache
def _bomb(codec: str, pieces: int) -> bytes:
    """Bytes that a codec unpacks to ``pieces`` pieces of zeros."""
    if codec == "snappy":
        return COMPRESS[codec](bytes(PIECE * min(pieces, 4)))
    if codec == "deflate":
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        return (packer.compress(bytes(PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)) * pieces + b"\x03\x00"
    return COMPRESS[codec](bytes(PIECE)) * pieces


def prepare() -> None:
    """Make the bombs before limits apply."""
    for codec in _CODECS[1:]:
        for pieces in PIECES:
            _bomb(codec, pieces)
