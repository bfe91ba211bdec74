"""Reading files of dead letters; they may be damaged, or not be such files at all."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any

import fastavro

from ldpbeam.schemas.encodings.compression import plain
from ldpbeam.schemas.files.avro_blocks import read_blocks
from ldpbeam.schemas.files.avro_headers import read_header
from ldpbeam.schemas.files.kinds import DEAD_LETTERS, check_kind
from ldpbeam.schemas.outputs.checked import record_of
from ldpbeam.schemas.outputs.records import DeadLetterRecord

#: A decompressed block has at most this many bytes, or eight times its compressed size if that is more.
MOST_BYTES = 2**27


def read_dead_letters(stream: IO[bytes]) -> Iterator[DeadLetterRecord]:
    """The dead letters in a seekable file, written with this schema or a compatible older or newer one.

    Raises:
        ValueError: if the file does not hold dead letters, or is damaged.
    """
    check_kind(stream, DEAD_LETTERS)
    header = read_header(stream)
    for block in read_blocks(stream, header, 0, stream.seek(0, io.SEEK_END)):
        if block.problem:
            raise ValueError(f"damaged: {block.problem}")
        try:
            stream_of_block = io.BytesIO(
                plain(header.codec, block.data, max(MOST_BYTES, 8 * len(block.data)))
            )
            for _ in range(block.reports):
                fields: Any = fastavro.schemaless_reader(stream_of_block, header.writer_schema, None)
                yield record_of(DeadLetterRecord, fields)
        except Exception as error:  # damage can raise any of fastavro's errors
            raise ValueError(f"damaged: {error}") from None
