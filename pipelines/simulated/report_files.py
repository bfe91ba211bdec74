"""Files of reports in the formats that ``ldpbeam estimate`` reads: Avro, Parquet and JSON Lines."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ldpbeam.clients.client import records_of
from ldpbeam.errors import UserError
from ldpbeam.schemas.encodings.avro_columns import write_columns
from ldpbeam.schemas.encodings.avro_headers import SYNC_SIZE
from ldpbeam.schemas.reports.columns import ATTRIBUTE_KEY, SERVICE_KEY
from ldpbeam.schemas.reports.payloads import payload_column

#: A file has at most this many reports.
FILE_REPORTS = 2**22


@dataclass(frozen=True)
class SentReports:
    """The reports that clients send to one service.

    Attributes:
        attribute: the attribute's name.
        service: the service's name.
        users: user ids, texts or 16 bytes, n values; of the type null where reports have no users.
        times: epoch milliseconds, shape (n,).
        payloads: the mechanism's outputs, shape (n,).
        extras: the study's group and version fields, n texts each.
        part: counts the payload types of a service from 0, where its versions have several.
        stamp: how the reports were made, for the file's metadata; empty if they are of several versions.
    """

    attribute: str
    service: str
    users: pa.Array
    times: NDArray[np.int64]
    payloads: NDArray[Any]
    extras: Mapping[str, pa.Array]
    part: int = 0
    stamp: Mapping[str, str] = field(default_factory=dict)


def make_room(folder: Path, attribute: str, service: str, overwrite: bool) -> None:
    """Delete a folder's reports of an attribute and service, so that no person counts twice.

    Raises:
        UserError: if there are such reports and ``overwrite`` is false.
    """
    before = sorted(folder.glob(f"{attribute}.{service}.*-of-*.*"))
    if before and not overwrite:
        raise UserError(
            f"--output {folder}: it has reports of {attribute} to {service} already ({before[0].name}); name "
            "another folder, or replace them with --overwrite"
        )
    for path in before:
        path.unlink()


def write_reports(folder: Path, sent: SentReports, kind: str) -> list[Path]:
    """Write reports to files of at most :data:`FILE_REPORTS` reports each; the file mode is 0600.

    Args:
        folder: where the files are created; it exists.
        sent: the reports.
        kind: the format: avro, parquet or jsonl.

    Returns:
        The paths of the files; one file if there is no report.

    Raises:
        OSError: if a file cannot be written.
    """
    count = max(1, -(-len(sent.payloads) // FILE_REPORTS))
    paths = []
    for index in range(count):
        rows = slice(index * FILE_REPORTS, (index + 1) * FILE_REPORTS)
        part = SentReports(
            sent.attribute, sent.service, sent.users[rows], sent.times[rows], sent.payloads[rows],
            {name: column[rows] for name, column in sent.extras.items()}, stamp=sent.stamp,
        )  # fmt: skip
        service = f"{sent.service}.{sent.part}" if sent.part else sent.service
        name = f"{sent.attribute}.{service}.{index:05d}-of-{count:05d}.{kind}"
        path = folder / name
        temporary = path.with_name(f".{name}")
        # A killed command may have left this file, with any mode.
        temporary.unlink(missing_ok=True)
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                _WRITERS[kind](stream, part)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        paths.append(path)
    return paths


def _metadata(sent: SentReports) -> dict[str, str]:
    return {ATTRIBUTE_KEY: sent.attribute, SERVICE_KEY: sent.service, **sent.stamp}


def _table(sent: SentReports) -> pa.Table:
    """The columns that all formats have."""
    users = {} if pa.types.is_null(sent.users.type) else {"user_id": sent.users}
    columns = {**users, "event_time": pa.array(sent.times), "payload": payload_column(sent.payloads)}
    return pa.table(columns | dict(sent.extras)).replace_schema_metadata(_metadata(sent))


def _write_avro(stream: IO[bytes], sent: SentReports) -> None:
    table = _table(sent)
    fields = [{"name": field.name, "type": _avro_type(field.type)} for field in table.schema]
    schema = {"type": "record", "name": "Report", "namespace": "ldpbeam", "fields": fields}
    # A sync marker only has to be unlikely in the data; a hash of payloads makes the file reproducible.
    sync = hashlib.sha256(sent.payloads.tobytes()[: 2**20]).digest()[:SYNC_SIZE]
    write_columns(stream, schema, table.combine_chunks().to_batches(), sync, _metadata(sent))


def _avro_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "long"
    if pa.types.is_string(kind):
        return "string"
    return "double" if pa.types.is_floating(kind) else "bytes"


def _write_parquet(stream: IO[bytes], sent: SentReports) -> None:
    table = _table(sent)
    at, times = table.column_names.index("event_time"), pa.array(sent.times, pa.timestamp("ms", "UTC"))
    table = table.set_column(at, "event_time", times)
    pq.write_table(table, stream, row_group_size=2**18, write_page_checksum=True)


def _write_json_lines(stream: IO[bytes], sent: SentReports) -> None:
    table, rows = _table(sent), len(sent.payloads)
    at = table.column_names.index("event_time")
    table = table.add_column(at, "attribute", pa.repeat(sent.attribute, rows))
    table = table.add_column(at + 1, "service", pa.repeat(sent.service, rows))
    for record in records_of(table):
        if isinstance(record["payload"], bytes):
            record["payload"] = record["payload"].hex()
        stream.write(json.dumps(record).encode() + b"\n")


_WRITERS = {"avro": _write_avro, "parquet": _write_parquet, "jsonl": _write_json_lines}
