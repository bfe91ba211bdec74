"""Reports in Avro: blocks of fixed-width fields are NumPy arrays as they stand, fastavro reads the others."""

from __future__ import annotations

import bz2
import contextlib
import io
import json
import lzma
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import IO, Any

import cramjam
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.schemas.containers import Block, Header, write_block, write_header
from ldpbeam.schemas.records import by_payload, columns_of
from ldpbeam.schemas.reports import Columns, decoded

_WIDTHS = {"double": "<f8", "float": "<f4"}
#: Blocks are gathered into batches of about this many reports.
BATCH_REPORTS = 65_536


def schema(name: str) -> dict[str, Any]:
    """One of our schemas by name: report, statistic, estimate or dead_letter."""
    text = (files("ldpbeam.schemas") / f"{name}.avsc").read_text(encoding="utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def fixed_dtype(writer_schema: Any) -> np.dtype[Any] | None:
    """The NumPy dtype of a record schema of fixed-width fields only, else None."""
    if not isinstance(writer_schema, dict) or writer_schema.get("type") != "record":
        return None
    if not writer_schema["fields"]:
        return None
    fields: list[tuple[str, str]] = []
    named: dict[str, int] = {}
    for field in writer_schema["fields"]:
        kind = field["type"]
        if isinstance(kind, dict) and kind.get("type") in _WIDTHS:
            kind = kind["type"]
        if isinstance(kind, dict) and kind.get("type") == "fixed":
            named[kind["name"]] = kind["size"]
            kind = kind["name"]
        if not isinstance(kind, str) or (kind not in named and kind not in _WIDTHS):
            return None
        fields.append((field["name"], _WIDTHS.get(kind) or f"V{named[kind]}"))
    return np.dtype(fields)


def _uncompressed(codec: str, data: bytes) -> bytes:
    """A block's bytes.

    Raises:
        ValueError: if the codec is not known, or the data is not what it wrote.
    """
    if codec == "null":
        return data
    if codec == "deflate":
        return zlib.decompress(data, -15)
    if codec == "snappy":
        plain = bytes(cramjam.snappy.decompress_raw(data[:-4]))
        if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
            raise ValueError("its checksum does not fit")
        return plain
    if codec == "bzip2":
        return bz2.decompress(data)
    if codec == "xz":
        return lzma.decompress(data)
    if codec == "zstandard":
        return bytes(cramjam.zstd.decompress(data))
    raise ValueError(f"codec {codec!r} is not one of null, deflate, snappy, bzip2, xz, zstandard")


def decode_blocks(
    header: Header, blocks: Iterator[Block], wanted: Columns
) -> Iterator[pa.RecordBatch | Block]:
    """Batches of reports from blocks; a block that cannot be decoded comes back with its problem."""
    dtype = fixed_dtype(header.writer_schema)
    plain = fastavro.parse_schema(_without_logical_types(header.writer_schema))
    rows: list[NDArray[Any]] = []
    starts: list[int] = []
    for block in blocks:
        if block.problem:
            yield block
            continue
        try:
            data = _uncompressed(header.codec, block.data)
            if dtype is None:
                yield from _decode_records(header, plain, block, data, wanted)
                continue
            if len(data) != block.reports * dtype.itemsize:
                raise ValueError(
                    f"{block.reports} records of {dtype.itemsize} bytes are not {len(data)} bytes"
                )
        except Exception as error:  # every codec and fastavro raise their own
            reports = block.reports if 0 < block.reports <= len(block.data) else 1
            if reports < block.reports and dtype is not None and header.codec == "null":
                reports = max(1, len(block.data) // dtype.itemsize)
            yield Block(block.position, reports, block.data, f"it does not decode: {error}")
            continue
        rows.append(np.frombuffer(data, dtype=dtype))
        starts.append(block.position)
        if sum(map(len, rows)) >= BATCH_REPORTS:
            yield _fixed_batch(rows, starts, header.metadata, wanted)
            rows, starts = [], []
    if rows:
        yield _fixed_batch(rows, starts, header.metadata, wanted)


def _fixed_batch(
    rows: Sequence[NDArray[Any]],
    starts: Sequence[int],
    metadata: Mapping[str, str],
    wanted: Columns,
) -> pa.RecordBatch:
    lengths = [len(part) for part in rows]
    records = rows[0] if len(rows) == 1 else np.concatenate(rows)
    columns: dict[str, pa.Array] = {}
    for name in records.dtype.names or ():
        if name in wanted.names:
            values = np.ascontiguousarray(records[name])
            if values.dtype.kind == "V":
                width = values.dtype.itemsize
                columns[name] = pa.Array.from_buffers(
                    pa.binary(width), len(values), [None, pa.py_buffer(values)]
                )
            else:
                columns[name] = pa.array(values)
    position = np.repeat(np.array(starts, dtype=np.int64), lengths)
    row = np.concatenate([np.arange(length) for length in lengths])
    return decoded(columns, wanted, metadata, pa.array(position), pa.array(row))


def _decode_records(
    header: Header, plain: Any, block: Block, data: bytes, wanted: Columns
) -> list[pa.RecordBatch]:
    """One block of any record schema, read by fastavro, and its columns as their types say."""
    if not isinstance(header.writer_schema, dict) or header.writer_schema.get("type") != "record":
        raise ValueError("its schema is no record")
    if block.reports > max(len(data), BATCH_REPORTS):
        raise ValueError(f"{len(data)} bytes are not {block.reports} records")
    stream = io.BytesIO(data)
    records: list[Any] = [fastavro.schemaless_reader(stream, plain, None) for _ in range(block.reports)]
    if stream.tell() != len(data):
        raise ValueError(f"bytes are left after its {block.reports} records")
    kinds = {field["name"]: field["type"] for field in header.writer_schema["fields"]}
    if "event_time" in kinds:
        _in_milliseconds(records, kinds["event_time"])
    batches = []
    for chosen in by_payload(records):
        columns = columns_of([records[index] for index in chosen], wanted.names)
        batches.append(
            decoded(
                {name: _as_declared(column, kinds[name]) for name, column in columns.items()},
                wanted,
                header.metadata,
                pa.array(np.full(len(chosen), block.position)),
                pa.array(chosen),
            )
        )
    return batches


def _without_logical_types(part: Any) -> Any:
    """A schema whose values are what was written: conversions would fail a whole block for one value."""
    if isinstance(part, dict):
        return {k: _without_logical_types(v) for k, v in part.items() if k != "logicalType"}
    if isinstance(part, list):
        return [_without_logical_types(entry) for entry in part]
    return part


#: How many of a logical type's units are a millisecond; 0 for times that are no moment.
_UNITS = {
    "timestamp-micros": 1_000,
    "timestamp-nanos": 1_000_000,
    "date": 0,
    "time-millis": 0,
    "time-micros": 0,
}


def _branches(kind: Any) -> list[dict[str, Any]]:
    """The types of a field, or of its union's branches, that are more than a name."""
    return [branch for branch in (kind if isinstance(kind, list) else [kind]) if isinstance(branch, dict)]


def _in_milliseconds(records: list[Any], kind: Any) -> None:
    """Event times that were written as integers of another unit, in milliseconds."""
    for branch in _branches(kind):
        unit = _UNITS.get(branch.get("logicalType", "").removeprefix("local-"))
        if unit is not None:
            for record in records:
                if isinstance(record["event_time"], int):
                    record["event_time"] = record["event_time"] // unit if unit else None


def _as_declared(column: pa.Array, kind: Any) -> pa.Array:
    """A column of bytes that were written with a fixed width, as such."""
    for branch in _branches(kind):
        if branch.get("type") == "fixed" and pa.types.is_binary(column.type):
            # In a union with text or bytes, values have widths of their own.
            with contextlib.suppress(pa.ArrowInvalid):
                column = pc.cast(column, pa.binary(branch["size"]))
    return column


def fixed_report_schema(widths: Mapping[str, int]) -> dict[str, Any]:
    """A report schema of fixed-width fields: doubles, but fixed bytes where a width is given."""
    fields: list[dict[str, Any]] = []
    for name in ("user_id", "event_time", "payload", *(n for n in widths if n not in _FIRST)):
        size = widths.get(name)
        kind = {"type": "fixed", "name": f"{name}_bytes", "size": size} if size else "double"
        fields.append({"name": name, "type": kind})
    return {"type": "record", "name": "Report", "namespace": "ldpbeam", "fields": fields}


_FIRST = ("user_id", "event_time", "payload")


def write_fixed(
    stream: IO[bytes],
    records: NDArray[Any],
    writer_schema: dict[str, Any],
    metadata: Mapping[str, str],
    sync: bytes,
    block_records: int = 16_384,
) -> None:
    """A whole container file of fixed-width records, a structured array of ``fixed_dtype``."""
    write_header(stream, writer_schema, metadata, sync)
    for start in range(0, len(records), block_records):
        block = records[start : start + block_records]
        write_block(stream, len(block), block.tobytes(), sync)
