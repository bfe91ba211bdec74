"""Reports in Avro: NumPy reads blocks of fixed-width records without a copy, fastavro reads the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.schemas.encodings import compression, per_byte
from ldpbeam.schemas.encodings.avro_records import Records
from ldpbeam.schemas.encodings.avro_rows import Rows
from ldpbeam.schemas.files.avro_blocks import CORRUPT_BLOCK, Block
from ldpbeam.schemas.files.avro_headers import SYNC_SIZE, Header, write_block, write_header
from ldpbeam.schemas.reports.columns import Columns, with_most_letters

_WIDTHS = {"double": "<f8", "float": "<f4"}


def schema(name: str) -> dict[str, Any]:
    """The project's schema of this name: report, statistic or dead_letter."""
    text = (files("ldpbeam.schemas") / f"{name}.avsc").read_text(encoding="utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def fixed_dtype(writer_schema: Any) -> np.dtype[Any] | None:
    """The NumPy dtype of a record schema whose fields all have fixed widths; None for other schemas."""
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
        if isinstance(kind, dict) and kind.get("type") == "fixed" and kind.get("logicalType") != "decimal":
            named[kind["name"]] = kind["size"]
            kind = kind["name"]
        if not isinstance(kind, str) or (kind not in named and kind not in _WIDTHS):
            return None
        fields.append((field["name"], _WIDTHS.get(kind) or f"V{named[kind]}"))
    return np.dtype(fields)


#: The blocks of a range of a file may have this many plain bytes, and so many more for each compressed byte.
#: Ratios of 1,000 to 1 are read; much larger ones would take too long.
MOST_BYTES, MOST_RATIO = 2**28, 2_048


def decode_blocks(
    header: Header, blocks: Iterator[Block], wanted: Columns
) -> Iterator[pa.RecordBatch | Block]:
    """Decode blocks to batches of reports; a block that does not decode is returned with its problem.

    The reports of a block are used only if the whole block decodes. So a block that is too large for memory
    is decoded twice, the first time only to check it.

    Args:
        header: the header of the blocks' file.
        blocks: the blocks; one that has a problem already is passed on.
        wanted: which columns are read.
    """
    dtype = fixed_dtype(header.writer_schema)
    waiting: Any = Rows(header, dtype, wanted) if dtype is not None else Records(header, wanted)
    left = MOST_BYTES
    total = total_held = 0
    for block in blocks:
        if block.problem:
            yield block
            continue
        left += MOST_RATIO * len(block.data)
        held = len(block.data) + SYNC_SIZE
        most = int(per_byte.VALUES * held / header.shape.per_byte) if header.shape.per_byte else left
        try:
            per_byte.check(block.reports, held, per_byte.OF_RECORDS)
            per_byte.check(block.reports * header.shape.values, held, per_byte.VALUES, "values")
            size, parts = waiting.checked(block, min(left, most))
        except MemoryError:
            raise
        except Exception as error:  # each codec and fastavro raise their own errors
            reports = block.reports if 0 < block.reports <= len(block.data) else 1
            reason = per_byte.TOO_MANY_REPORTS if isinstance(error, per_byte.TooManyError) else CORRUPT_BLOCK
            if reports < block.reports and dtype is not None and header.codec == "null":
                reports = max(1, len(block.data) // dtype.itemsize)
            problem = f"it does not decode: {str(error) or repr(error)}"
            if isinstance(error, compression.TooLargeError) and most < left:
                reason = per_byte.TOO_MANY_REPORTS
                problem = f"it could have more than {per_byte.VALUES} values in arrays for each byte"
            elif isinstance(error, compression.TooLargeError):
                problem = (
                    f"it would be more than {MOST_BYTES // 2**20} MB and {MOST_RATIO:,} times its compressed "
                    "blocks"
                )
            yield Block(block.position, reports, block.data, problem, reason)
            continue
        left -= size
        total, total_held = total + block.reports, total_held + held
        for part in parts:
            waiting.add(block, part)
            if waiting.full:
                yield from _bounded(waiting.batches(), total, total_held)
    yield from _bounded(waiting.batches(), total, total_held)


def _bounded(
    items: Iterator[pa.RecordBatch | Block], reports: int, size: int
) -> Iterator[pa.RecordBatch | Block]:
    for item in items:
        yield item if isinstance(item, Block) else with_most_letters(item, reports, size)


def fixed_report_schema(widths: Mapping[str, int], *, users: bool = True) -> dict[str, Any]:
    """A report schema of fixed-width fields: fixed bytes for the fields in ``widths``, else doubles."""
    fields: list[dict[str, Any]] = []
    first = _FIRST if users else _FIRST[1:]
    for name in (*first, *(n for n in widths if n not in _FIRST)):
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
    """Write a whole container file of fixed-width records.

    Args:
        stream: the file.
        records: a structured array of the dtype ``fixed_dtype(writer_schema)``, shape (n,).
        writer_schema: the schema of the records.
        metadata: further entries of the header.
        sync: the sync marker, 16 bytes.
        block_records: the number of records in a block.
    """
    write_header(stream, writer_schema, metadata, sync)
    for start in range(0, len(records), block_records):
        block = records[start : start + block_records]
        write_block(stream, len(block), block.tobytes(), sync)
