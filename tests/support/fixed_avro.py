"""Avro files of records whose fields have fixed widths, and so the bytes of NumPy's structured arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.schemas.encodings.avro_headers import write_block, write_header


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


def fixed_dtype(writer_schema: Mapping[str, Any]) -> np.dtype[Any]:
    """The NumPy dtype of the records of :func:`fixed_report_schema`."""
    kinds = [(field["name"], field["type"]) for field in writer_schema["fields"]]
    return np.dtype([(name, "<f8" if kind == "double" else f"V{kind['size']}") for name, kind in kinds])


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
