"""Reading files of dead letters; they may be damaged, or not be such files at all."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO

from ldpbeam.schemas.encodings.avro_values import DatumReader
from ldpbeam.schemas.encodings.compression import plain
from ldpbeam.schemas.files.avro_blocks import read_blocks
from ldpbeam.schemas.files.avro_headers import read_header
from ldpbeam.schemas.files.kinds import DEAD_LETTERS, file_kind
from ldpbeam.schemas.outputs.records import DeadLetterRecord, record_of

#: A decompressed block has at most this many bytes, or eight times its compressed size if that is more.
MOST_BYTES = 2**27


def read_dead_letters(stream: IO[bytes]) -> Iterator[DeadLetterRecord]:
    """The dead letters in a seekable file, written with this schema or a compatible older or newer one.

    Raises:
        ValueError: if the file does not hold dead letters, or is damaged.
    """
    kind = file_kind(stream)
    if kind != DEAD_LETTERS:
        raise ValueError(f"{kind}, not {'' if kind.startswith('a file of') else 'a file '}of dead letters")
    header = read_header(stream)
    for block in read_blocks(stream, header, 0, stream.seek(0, io.SEEK_END)):
        if block.problem:
            raise ValueError(f"damaged: {block.problem}")
        try:
            data = plain(header.codec, block.data, max(MOST_BYTES, 8 * len(block.data)))
            reader = DatumReader(data)
            for _ in range(block.reports):
                fields = reader.read(header.writer_schema)
                yield record_of(DeadLetterRecord, {name: _own(value) for name, value in fields.items()})
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"damaged: {error}") from None


def _own(value: object) -> object:
    """The value with bytes of its own: a reader's are a view of the block."""
    return bytes(value) if isinstance(value, memoryview) else value
