"""The size of Arrow data, computed before the data is decompressed or expanded."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Fields of the flatbuffer table Message: the kind of header, and the header.
_KIND, _HEADER = 1, 2
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
#: Field of the table DictionaryBatch: its record batch. Fields of RecordBatch: buffers and compression.
_DATA, _BUFFERS, _COMPRESSION = 1, 2, 3
#: A compressed buffer whose declared length is this one is not compressed.
_AS_IT_IS = -1


def sizes_of(data: bytes) -> tuple[int, int]:
    """(record batches and dictionaries, the bytes of their buffers after decompression) of an Arrow stream.

    They are what the stream declares, up to the first damaged message, which Arrow reports later.

    Raises:
        ValueError: if the metadata of a message cannot be read.
    """
    batches = plain = 0
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
    while True:
        try:
            message = reader.read_next_message()
        except (StopIteration, pa.ArrowException, OSError):
            return batches, plain
        if message.type in ("dictionary", "record batch") and message.body is not None:
            batches += 1
            plain += _plain(memoryview(message.metadata), memoryview(message.body))


def _plain(metadata: memoryview, body: memoryview) -> int:
    """How many bytes the buffers of one message have after decompression."""
    try:
        message = _indirect(metadata, 0)
        batch = _table(metadata, message, _HEADER)
        if metadata[_field(metadata, message, _KIND)] == _DICTIONARY_BATCH:
            batch = _table(metadata, batch, _DATA)
        buffers = _indirect(metadata, _field(metadata, batch, _BUFFERS))
        compressed = _field(metadata, batch, _COMPRESSION, needed=False) != 0
        (count,) = struct.unpack_from("<I", metadata, buffers)
        total = 0
        for offset, length in struct.iter_unpack("<qq", metadata[buffers + 4 : buffers + 4 + 16 * count]):
            declared = _AS_IT_IS
            if compressed and length >= 8:
                (declared,) = struct.unpack_from("<q", body, offset)
            if declared < _AS_IT_IS:
                raise ValueError(f"a buffer declares {declared} bytes")
            total += max(0, length) if declared == _AS_IT_IS else declared
        return total
    except (struct.error, IndexError) as error:
        raise ValueError(f"its metadata cannot be read: {error}") from None


def _indirect(data: memoryview, at: int) -> int:
    """The offset that the reference at ``at`` points to."""
    (offset,) = struct.unpack_from("<I", data, at)
    return at + int(offset)


def _field(data: memoryview, table: int, number: int, *, needed: bool = True) -> int:
    """The offset of a table's field; 0 if the table does not have the field and it is not needed."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    entry = 4 + 2 * number
    offset = 0
    if entry < size:
        (offset,) = struct.unpack_from("<H", data, table - back + entry)
    if needed and not offset:
        raise IndexError(f"a table has no field {number}")
    return table + int(offset) if offset else 0


def _table(data: memoryview, table: int, number: int) -> int:
    return _indirect(data, _field(data, table, number))


def expanded_bytes(column: pa.Array) -> int:
    """How many bytes a column's values have once dictionaries and views into shared bytes are expanded.

    Raises:
        ValueError: if the column is a dictionary of lists, records, or dictionaries.
    """
    if isinstance(column, pa.ExtensionArray):
        return expanded_bytes(column.storage)
    if not pa.types.is_dictionary(column.type):
        return int(_lengths(column).sum(dtype=np.int64))
    values = column.dictionary
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    if pa.types.is_nested(values.type) or pa.types.is_dictionary(values.type):
        raise ValueError(f"dictionaries of {values.type} are not read")
    indices = column.indices.drop_null().to_numpy(zero_copy_only=False)
    return int(_lengths(values)[indices].sum(dtype=np.int64))


def _lengths(values: pa.Array) -> np.ndarray:
    """The bytes of each value, shape (n,); 16, the most of any number, for types without a length."""
    kind = values.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(values.buffers()[1], dtype=np.int32)[4 * values.offset :][: 4 * len(values) : 4]
        valid: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
        return np.where(valid, views, 0)
    sized = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    if pa.types.is_fixed_size_binary(kind) or any(is_sized(kind) for is_sized in sized):
        lengths: np.ndarray = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        return lengths
    return np.broadcast_to(np.int64(16), len(values))
