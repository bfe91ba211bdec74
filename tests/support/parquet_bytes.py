"""Parquet files that say what no writer would: pages and footers of any fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
BYTE_ARRAY, FIXED_LENGTH = 6, 7
PLAIN, DELTA_LENGTH, DELTA, CODES = 0, 6, 7, 8
CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}


def varint(number: int) -> bytes:
    """An unsigned number."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def zigzag(number: int) -> bytes:
    """A signed number of 64 bits."""
    return varint(number << 1 ^ number >> 63 if number >= 0 else ~number << 1 | 1)


def struct(fields: dict[int, tuple[int, object]]) -> bytes:
    """A struct of Thrift's compact protocol: type and value of each field."""
    parts, last = [], 0
    for number, (kind, value) in fields.items():
        head = number - last << 4 | kind
        parts.append(bytes([head]) if 0 < number - last < 16 else bytes([kind]) + zigzag(number))
        parts.append(_value(kind, value))
        last = number
    return b"".join(parts) + b"\0"


def _value(kind: int, value: object) -> bytes:
    if isinstance(value, int):
        return zigzag(value)
    if isinstance(value, list):
        item = kind_of(value[0]) if value else STRUCT
        return bytes([0xF0 | item]) + varint(len(value)) + b"".join(_value(item, own) for own in value)
    assert isinstance(value, bytes)
    return varint(len(value)) + value if kind == BINARY else value


def kind_of(value: object) -> int:
    """The type of a list's item; bytes are structs."""
    return I32 if isinstance(value, int) else BINARY if isinstance(value, str) else STRUCT


def page(
    data: bytes, values: int, encoding: int = PLAIN, plain: int | None = None, version: int = 1
) -> bytes:
    """A data page without levels."""
    sizes = {2: (I32, len(data) if plain is None else plain), 3: (I32, len(data))}
    if version == 1:
        own = {1: (I32, values), 2: (I32, encoding), 3: (I32, 3), 4: (I32, 3)}
        return struct({1: (I32, 0), **sizes, 5: (STRUCT, struct(own))}) + data
    own = {1: (I32, values), 2: (I32, 0), 3: (I32, values), 4: (I32, encoding), 5: (I32, 0), 6: (I32, 0)}
    return struct({1: (I32, 3), **sizes, 8: (STRUCT, struct(own))}) + data


def dictionary(data: bytes, values: int, plain: int | None = None) -> bytes:
    """A dictionary page."""
    sizes = {2: (I32, len(data) if plain is None else plain), 3: (I32, len(data))}
    return struct({1: (I32, 2), **sizes, 7: (STRUCT, struct({1: (I32, values), 2: (I32, PLAIN)}))}) + data


class Column(NamedTuple):
    """A required column of a row group.

    Attributes:
        name: its name.
        pages: all of its pages.
        codec: what they are compressed with.
        kind: the physical type.
        width: how many bytes each value of the type FIXED_LENGTH has.
        nullable: whether pages have levels.
    """

    name: str
    pages: bytes
    codec: str = "none"
    kind: int = BYTE_ARRAY
    width: int = 0
    nullable: bool = False


def file_of(columns: Sequence[Column], rows: int, groups: int = 1) -> bytes:
    """A file of one row group, which is listed so many times."""
    body, chunks = b"PAR1", []
    for column in columns:
        own = {
            1: (I32, column.kind),
            2: (LIST, [PLAIN]),
            3: (LIST, _names(column.name)),
            4: (I32, CODECS[column.codec]),
            5: (I64, rows),
            6: (I64, len(column.pages)),
            7: (I64, len(column.pages)),
            9: (I64, len(body)),
        }
        chunks.append(struct({2: (I64, 0), 3: (STRUCT, struct(own))}))
        body += column.pages
    root = {4: (BINARY, b"schema"), 5: (I32, len(columns))}
    leaves = [
        struct(
            {
                1: (I32, column.kind),
                **({2: (I32, column.width)} if column.width else {}),
                3: (I32, int(column.nullable)),
                4: (BINARY, column.name.encode()),
            }
        )
        for column in columns
    ]
    group = struct({1: (LIST, chunks), 2: (I64, len(body)), 3: (I64, rows)})
    footer = struct(
        {
            1: (I32, 2),
            2: (LIST, [struct(root), *leaves]),
            3: (I64, rows * groups),
            4: (LIST, [group] * groups),
        }
    )
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _names(name: str) -> bytes:
    return b"\x18" + varint(len(name)) + name.encode()


def deltas(values: np.ndarray) -> bytes:
    """Numbers as differences, in blocks of 128: of no bits if they are equal, else of 32."""
    parts = [varint(128), varint(1), varint(len(values)), zigzag(int(values[0]))]
    changes = np.diff(values)
    for start in range(0, len(changes), 128):
        block = np.zeros(128, dtype="<u4")
        own = changes[start : start + 128]
        block[: len(own)] = own - own.min()
        bits = bytes([32]) + block.tobytes() if block.any() else b"\0"
        parts.append(zigzag(int(own.min())) + bits)
    return b"".join(parts)


def zeros(count: int) -> bytes:
    """So many differences that are zero, in one block."""
    return varint(-(-count // 128) * 128) + varint(1) + varint(count) + zigzag(0) + zigzag(0) + b"\0"
