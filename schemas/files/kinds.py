"""The kind of a file that the user named, in words for error messages."""

from __future__ import annotations

from typing import IO

from ldpbeam.schemas.encodings import avro_headers
from ldpbeam.schemas.files import parquet

_GZIP = b"\x1f\x8b"
#: How many bytes of a file's start are read to tell its format.
_START_BYTES = 64
STATISTICS = "a file of statistics"
DEAD_LETTERS = "a file of dead letters"
_DAMAGED = "an Avro file with a damaged header"
_OURS = {
    "Report": "a file of reports",
    "Statistic": STATISTICS,
    "DeadLetter": DEAD_LETTERS,
}


def check_kind(stream: IO[bytes], wanted: str) -> None:
    """Check that a file is of a kind, :data:`STATISTICS` or :data:`DEAD_LETTERS`; it is left at its start.

    Raises:
        ValueError: if it is of another kind.
    """
    kind = file_kind(stream)
    if kind != wanted:
        repeated = "a file " if kind.startswith("a file of") else ""
        raise ValueError(f"{kind}, not {wanted.removeprefix(repeated)}")


def file_kind(stream: IO[bytes]) -> str:
    """The kind of a file, by its start: :data:`STATISTICS` for a file of snapshots.

    Args:
        stream: a seekable stream; it is left at its start.
    """
    stream.seek(0)
    start = stream.read(_START_BYTES)
    stream.seek(0)
    if not start:
        return "an empty file"
    if start.startswith(avro_headers.MAGIC):
        try:
            return _record_kind(avro_headers.read_header(stream).writer_schema)
        except ValueError as error:
            return f"{_DAMAGED} ({error})"
        finally:
            stream.seek(0)
    if start.startswith(parquet.MAGIC):
        return "a Parquet file"
    if start.startswith(_GZIP):
        return "a file compressed with gzip"
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return "a JSON file"
    return "a file in an unknown format"


def _record_kind(writer_schema: object) -> str:
    """The kind of an Avro file with this schema; another program may have written the file."""
    if not isinstance(writer_schema, dict) or writer_schema.get("type") != "record":
        return "an Avro file without records"
    fields = writer_schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(f, dict) and "name" in f for f in fields):
        return _DAMAGED
    name = str(writer_schema.get("name")).rpartition(".")[2]
    if name in _OURS:
        return _OURS[name]
    names = {str(field["name"]) for field in fields}
    return _OURS["Report"] if {"user_id", "payload"} <= names else f"an Avro file of {name!r} records"
