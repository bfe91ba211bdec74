"""Reading files of dead letters; they may be damaged, or not be such files at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import fastavro

from ldpbeam.schemas.files.kinds import DEAD_LETTERS, check_kind
from ldpbeam.schemas.outputs.checked import record_of
from ldpbeam.schemas.outputs.records import DeadLetterRecord


def read_dead_letters(stream: IO[bytes]) -> Iterator[DeadLetterRecord]:
    """The dead letters in a seekable file, written with this schema or a compatible older or newer one.

    Raises:
        ValueError: if the file does not hold dead letters, or is damaged.
    """
    check_kind(stream, DEAD_LETTERS)
    try:
        for fields in fastavro.reader(stream):
            letter: Any = fields
            yield record_of(DeadLetterRecord, letter)
    except Exception as error:  # damage can raise any of fastavro's errors
        raise ValueError(f"damaged: {error}") from None
