"""Decoding of one Avro datum; memory is bounded for all bytes and schemas."""

from __future__ import annotations

import struct
from typing import Any

#: The most values that one reader reads: strings, numbers, records, entries of arrays.
MOST_VALUES = 2**20
#: The most bits of an Avro integer.
_LONG_BITS = 64


class DatumReader:
    """Reads consecutive data from bytes.

    A schema may not refer to a type by its name, so no schema is recursive.

    Attributes:
        at: the index at which the next datum starts.
    """

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._left = MOST_VALUES
        self.at = 0

    def read(self, kind: Any) -> Any:
        """The next datum, of the schema ``kind``; values of bytes are views of the data.

        Raises:
            ValueError: if the data ends inside the datum, the data has more than :data:`MOST_VALUES` values,
                or the schema has an unknown type.
        """
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {MOST_VALUES:,} values")
        if isinstance(kind, list):
            return self.read(self._chosen(kind))
        name = kind["type"] if isinstance(kind, dict) else kind
        if isinstance(name, list | dict):
            return self.read(name)
        if name in ("int", "long"):
            return self._long()
        if name in ("bytes", "string"):
            value = self._bytes(self._long())
            return value if name == "bytes" else str(value, "utf-8")
        if name == "null":
            return None
        if name == "boolean":
            return bool(self._bytes(1)[0])
        if name in ("float", "double"):
            letter, size = ("<f", 4) if name == "float" else ("<d", 8)
            return struct.unpack(letter, self._bytes(size))[0]
        return self._composed(name, kind)

    def _composed(self, name: str, kind: Any) -> Any:
        if name == "record":
            return {field["name"]: self.read(field["type"]) for field in kind["fields"]}
        if name == "array":
            return [self.read(kind["items"]) for _ in self._entries()]
        if name == "map":
            return {self.read("string"): self.read(kind["values"]) for _ in self._entries()}
        if name == "fixed":
            return self._bytes(kind["size"])
        if name == "enum":
            return self._chosen(kind["symbols"])
        raise ValueError(f"unknown type {name!r}")

    def _entries(self) -> Any:
        """One item for each entry of an array or map, whose entries are encoded in blocks."""
        while count := self._long():
            if count < 0:
                # A negative count is followed by the block's size in bytes, for readers that skip the block.
                count = -count
                self._long()
            yield from range(count)

    def _chosen(self, among: list[Any]) -> Any:
        index = self._long()
        if not 0 <= index < len(among):
            raise ValueError(f"branch {index} of {len(among)}")
        return among[index]

    def _bytes(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._data) - self.at:
            raise ValueError(f"{size} bytes are claimed, and {len(self._data) - self.at} are left")
        self.at += size
        return self._data[self.at - size : self.at]

    def _long(self) -> int:
        value = 0
        for shift in range(0, _LONG_BITS, 7):
            (byte,) = self._bytes(1)
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("an integer of more than 64 bits")
