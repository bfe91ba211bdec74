"""Files of dead letters, which batch runs and streams write, in Avro."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable

import pyarrow as pa

from ldpbeam.schemas.encodings.avro import schema
from ldpbeam.schemas.encodings.avro_columns import write_columns
from ldpbeam.transforms.storage import join, make_folder, replacing

#: A batch run gathers dead letters into at most this many files.
DEAD_LETTER_SHARDS = 4


def write_letters(folder: str, number: int | str, batches: Iterable[pa.RecordBatch]) -> str:
    """Write a file of dead letters, and return its path.

    The same dead letters give the same bytes: the file's sync marker is a hash of its contents.

    Args:
        folder: the folder of the file; if it is created, its owner alone may enter it.
        number: the number in the file's name, or a text in its stead.
        batches: batches of dead letters in the order of :func:`order_of`; they are gone through twice.
    """
    make_folder(folder, private=True)
    path = join(folder, f"part-{number:0>5}.avro")
    contents = hashlib.sha256()
    for batch in batches:
        contents.update("".join(batch.column("sha256").to_pylist()).encode())
    with replacing(path, private=True) as stream:
        write_columns(stream, schema("dead_letter"), batches, contents.digest()[:16])
    return path


def number_of(name: str) -> int:
    """The number in the name of a file that :func:`write_letters` wrote."""
    return int(name.removeprefix("part-").removesuffix(".avro"))


def order_of(batch: pa.RecordBatch) -> tuple[str, int, int, str]:
    """The key that sorts batches, which engines deliver in any order; in a batch, it is that of the input."""
    file, position, row, reason = (
        batch.column(name)[0].as_py() for name in ("file", "position", "row", "reason")
    )
    return file, -1 if position is None else position, -1 if row is None else row, reason


def shard_of(batch: pa.RecordBatch) -> int:
    """The number of the file of a batch run that a batch goes to: that of the input file it begins with."""
    return zlib.crc32(order_of(batch)[0].encode()) % DEAD_LETTER_SHARDS


def write_all_letters(folder: str, batches: Iterable[pa.RecordBatch]) -> None:
    """Write the dead letters of a batch run that are in memory."""
    by_shard: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        by_shard.setdefault(shard_of(batch), []).append(batch)
    for shard, of_shard in by_shard.items():
        write_letters(folder, shard, sorted(of_shard, key=order_of))
