"""Every way in which reports come: files, messages, tables of the library, and elements of Beam pipelines.

A face takes the values of one column, and gives what is decoded of them, one value for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa

from ldpbeam.beam.elements import _Decode
from ldpbeam.library.tables import decoded_batches
from ldpbeam.schemas.messages.binary import Message
from ldpbeam.schemas.messages.decode import ARROW, LINES, decode_messages
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import PLAIN
from ldpbeam.transforms.sources import files
from ldpbeam.transforms.sources.read import read_range
from support.encoded import arrow_stream, avro_file, parquet_file

#: A report has a group and a version field besides; times may be missing.
COLUMNS = Columns("x", "s", extras=("group", "version"), timed=False)
#: Another field of every record, which keeps the order.
ORDER = "payload"


def _column(name: str, batches: Iterable[pa.RecordBatch], rows: int) -> list[Any]:
    values: dict[float, Any] = {}
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch), batch
        given = batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows
        values.update(zip(batch.column(ORDER).to_pylist(), given, strict=True))
    assert len(values) == rows
    return [values[row] for row in range(rows)]


def read_file(data: bytes, folder: Path) -> list[pa.RecordBatch]:
    """The batches of a file of some bytes."""
    path = folder / "reports"
    path.write_bytes(data)
    found = files.sniff(str(path), len(data))
    assert isinstance(found, files.ReportFile), found
    return [item for part in files.split(found) for item in read_range(part, COLUMNS)]  # type: ignore[misc]


def _message(data: bytes, kind: str) -> list[Any]:
    return list(decode_messages([Message("1", data, kind)], COLUMNS))


def _elements(elements: Iterable[Any]) -> list[Any]:
    decode = _Decode(COLUMNS, stamped=False, disclosure=PLAIN)
    decode.start_bundle()
    outputs = [
        output
        for element in elements
        for output in decode.process(element, beam.utils.timestamp.Timestamp(0))
    ]
    outputs += [
        value.value for value in decode.finish_bundle() if not isinstance(value, beam.pvalue.TaggedOutput)
    ]
    return [output for output in outputs if isinstance(output, pa.RecordBatch)]


def arrow_faces(name: str, array: pa.Array, folder: Path) -> dict[str, list[Any]]:
    """What every face that takes columns of Arrow makes of one."""
    columns = {"user_id": pa.repeat("u", len(array)), ORDER: pa.array(np.arange(len(array))), name: array}
    table = pa.table(columns)
    faces: dict[str, Callable[[], Any]] = {
        "parquet": lambda: read_file(parquet_file(table), folder),
        "arrow message": lambda: _message(arrow_stream(table), ARROW),
        "table": lambda: decoded_batches(table, COLUMNS),
        "polars": lambda: decoded_batches(pl.from_arrow(table), COLUMNS),
        "columns": lambda: decoded_batches(columns, COLUMNS),
        "beam batch": lambda: _elements(table.to_batches()),
    }
    kinds = {"parquet": _PARQUET, "polars": _POLARS}
    return {
        face: _column(name, read(), len(array))
        for face, read in faces.items()
        if not any(is_none(array.type) for is_none in kinds.get(face, ()))
    }


#: The types that Parquet and polars do not have.
_PARQUET = (lambda kind: pa.types.is_decimal(kind) and kind.scale < 0,)
_POLARS = (
    lambda kind: pa.types.is_decimal(kind) and (kind.bit_width != 128 or kind.scale < 0),
    lambda kind: pa.types.is_timestamp(kind) and (kind.unit == "s" or kind.tz[0] == "-"),
    lambda kind: kind in (pa.binary(16), pa.float16(), pa.null()),
)


def record_faces(name: str, values: Sequence[Any], folder: Path) -> dict[str, list[Any]]:
    """What every face that takes records of Python makes of the values of a field, each face by itself."""
    records = [{"user_id": "u", ORDER: float(row), name: value} for row, value in enumerate(values)]
    columns = {"user_id": "u", ORDER: np.arange(len(values)), name: list(values)}
    faces: dict[str, Callable[[], Any]] = {
        "dicts": lambda: decoded_batches(records, COLUMNS),
        "columns": lambda: decoded_batches(columns, COLUMNS),
        "beam dicts": lambda: _elements(records),
        "beam rows": lambda: _elements(beam.Row(**record) for record in records),
    }
    if all(value is None or isinstance(value, str | int | float) for value in values):
        lines = "".join(json.dumps(record) + "\n" for record in records).encode()
        faces["json lines"] = lambda: read_file(lines, folder)
        faces["json message"] = lambda: _message(lines, LINES)
    return {face: _column(name, read(), len(values)) for face, read in faces.items()}


def avro_faces(name: str, kind: Any, values: Sequence[Any], folder: Path) -> dict[str, list[Any]]:
    """What Avro files make of values as they are stored, of a field of some type."""
    fields = [{"name": name, "type": ["null", kind]}, {"name": ORDER, "type": "double"}]
    schema = {"type": "record", "name": "R", "fields": fields}
    records = [{name: value, ORDER: float(row)} for row, value in enumerate(values)]
    faces = {"avro": read_file(avro_file(schema, records), folder)}
    if None not in values:
        plain = {**schema, "fields": [{"name": name, "type": kind}, fields[1]]}
        faces["avro without null"] = read_file(avro_file(plain, records), folder)
    return {face: _column(name, batches, len(values)) for face, batches in faces.items()}
