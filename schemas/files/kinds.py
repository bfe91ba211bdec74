"""Whether a file that the user named is one of statistics, or of dead letters."""

from __future__ import annotations

from typing import IO

from ldpbeam.schemas.encodings.avro_headers import read_header

STATISTICS, DEAD_LETTERS = "statistics", "dead letters"
#: What the records of Avro files are, by their names.
_RECORDS = {"Report": "reports", "Statistic": STATISTICS, "DeadLetter": DEAD_LETTERS}


def check_kind(stream: IO[bytes], wanted: str) -> None:
    """Check that a file is of a kind, :data:`STATISTICS` or :data:`DEAD_LETTERS`; it is left at its start.

    Raises:
        ValueError: if it is of another kind.
    """
    stream.seek(0)
    try:
        schema = read_header(stream).writer_schema
    except ValueError:
        raise ValueError(f"not a file of {wanted}") from None
    stream.seek(0)
    name = str(schema.get("name") if isinstance(schema, dict) else schema).rpartition(".")[2]
    if _RECORDS.get(name) != wanted:
        raise ValueError(f"a file of {_RECORDS.get(name, f'{name!r} records')}, not of {wanted}")
