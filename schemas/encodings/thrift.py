"""A reader of Thrift's compact protocol, in which Parquet's footers and page headers are written."""

from __future__ import annotations

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_BITS = {I16: 16, I32: 32, I64: 64}
#: The highest cost of a whole struct: a struct or an item of a list costs 4, a field 1.
MOST_COST = 2**20
#: The deepest nesting of structs, lists and maps.
_MOST_DEPTH = 20
#: Fields with higher numbers are skipped.
_MOST_FIELD = 15

#: A struct: its values by 16 * field number + type. A list of structs is a list; any other list is None.
Struct = dict[int, Any]


def field(struct: Struct, number: int, kind: int) -> Any:
    """The value of a field; None if the struct does not have the field.

    Raises:
        ValueError: if the field has another type.
    """
    value = struct.get(16 * number + kind)
    if value is None and any(16 * number < key < 16 * number + 16 for key in struct):
        raise ValueError(f"a field {number} is not of its type")
    return value


def read_struct(data: bytes) -> tuple[Struct, int]:
    """The struct at the start of some bytes, and how many bytes it has.

    Raises:
        ValueError: if the struct is malformed, ends too early, or has too many parts; or if its fields are
            not in ascending order of their numbers, the order that every known writer uses.
    """
    reader = _Reader(data)
    try:
        return reader.struct(0), reader.at
    except IndexError:
        raise ValueError("it ends too early") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.left = data, 0, MOST_COST

    def struct(self, depth: int) -> Struct:
        """The struct at the current position."""
        self._pay(4)
        result: Struct = {}
        number, data = 0, self.data
        while head := data[self.at]:
            self.at += 1
            delta, kind = head >> 4, head & 15
            before = number
            number = number + delta if delta else self._integer(16)
            if number <= before:
                raise ValueError("its fields are not in order")
            self._pay(1)
            value = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth)
            if number <= _MOST_FIELD:
                result[16 * number + kind] = value
        self.at += 1
        return result

    def _value(self, kind: int, depth: int) -> Any:
        """The value at the current position; booleans of fields have no bytes and are not read here."""
        if depth > _MOST_DEPTH:
            raise ValueError("its values are nested too deep")
        if kind in _BITS:
            return self._integer(_BITS[kind])
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth + 1)
        if kind == MAP:
            return self._map(depth + 1)
        if kind in (BYTE, DOUBLE):
            self._bytes(1 if kind == BYTE else 8)
            return None
        raise ValueError(f"it has a value of the unknown type {kind}")

    def _item(self, kind: int, depth: int) -> Any:
        return self._bytes(1) and None if kind in (TRUE, FALSE) else self._value(kind, depth)

    def _list(self, depth: int) -> list[Struct] | None:
        head = self.data[self.at]
        self.at += 1
        size, kind = head >> 4, head & 15
        size = self._varint() if size == 15 else size
        self._pay(4 * size)
        if kind == STRUCT:
            return [self.struct(depth) for _ in range(size)]
        for _ in range(size):
            self._item(kind, depth)
        return None

    def _map(self, depth: int) -> None:
        size = self._varint()
        self._pay(8 * size)
        kinds = self._bytes(1)[0] if size else 0
        for _ in range(size):
            self._item(kinds >> 4, depth)
            self._item(kinds & 15, depth)

    def _pay(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise ValueError("it has too many parts")

    def _bytes(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise IndexError
        text = self.data[self.at : end]
        self.at = end
        return text

    def _varint(self) -> int:
        """The unsigned variable-length integer at the current position."""
        value = self.data[self.at]
        self.at += 1
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in range(7, 70, 7):
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number has too many bytes")

    def _integer(self, bits: int) -> int:
        """The zigzag-encoded signed integer at the current position.

        Raises:
            ValueError: if it has more than ``bits`` bits.
        """
        value = self._varint()
        if value >> bits:
            raise ValueError(f"a number has more than {bits} bits")
        return value >> 1 ^ -(value & 1)
