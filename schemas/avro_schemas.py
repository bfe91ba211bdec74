"""Checks of Avro schemas before they are used: with some schemas a few bytes decode to any number of values.

The items of an array may have no bytes. A record may contain itself. A record may contain another record
twice, which again contains another one twice, so that its size is exponential in the length of the schema.
The schemas of files and of messages are checked in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro

#: The deepest nesting of a schema, counted in brackets of its JSON text.
MOST_NESTING = 200
#: The most values of a record, including those of the records in it.
MOST_VALUES = 10_000
#: The most bytes of a record.
MOST_RECORD_BYTES = 2**25
#: The most values that the arrays and maps of a record may have; it limits the bytes of a record.
_MOST_ITEMS = 2**18

#: The fewest bytes of a value of each type that has no parts.
PRIMITIVE = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
    "enum": 1,
}


@dataclass(frozen=True)
class Shape:
    """Bounds on the values of a schema.

    Attributes:
        least: the fewest bytes that encode a value.
        values: the most values that a value consists of, without those in arrays and maps.
        per_byte: the most values that one byte of an array or map encodes; 0 without arrays and maps.
    """

    least: int
    values: int
    per_byte: float = 0.0

    @property
    def most_bytes(self) -> int:
        """The most bytes that a value may have, so that the values in it fit into memory."""
        return int(min(MOST_RECORD_BYTES, max(1024, _MOST_ITEMS / self.per_byte if self.per_byte else 2**62)))


def measure(writer_schema: Any) -> Shape:
    """Check a schema, and return its shape.

    Raises:
        ValueError: if the schema is not valid, or lets a few bytes decode to any number of values.
    """
    _refuse_nesting(writer_schema, MOST_NESTING)
    named: dict[str, Any] = {}
    try:
        parsed = fastavro.parse_schema(without_logical_types(writer_schema), named)
    except Exception as error:  # fastavro raises its own errors and those of Python
        raise ValueError(f"its schema is not valid: {error!r}") from None
    # fastavro accepts a record without "fields" as a record of no values.
    if isinstance(writer_schema, dict) and parsed.get("type") == "record" and "fields" not in writer_schema:
        raise ValueError("its schema is a record without fields")
    return _Measured(named).shape(parsed)


def without_logical_types(part: Any) -> Any:
    """A schema without logical types.

    fastavro then does not convert values, so that one value that cannot be converted does not fail its block.
    """
    if isinstance(part, dict):
        return {k: without_logical_types(v) for k, v in part.items() if k != "logicalType"}
    if isinstance(part, list):
        return [without_logical_types(entry) for entry in part]
    return part


def fields_of(writer_schema: Any) -> dict[str, list[Any]]:
    """The types of a record schema's fields by name, those of each union."""
    fields, named = dict[str, list[Any]](), dict[str, Any]()
    for field in writer_schema["fields"]:
        kind = field["type"]
        kinds = [
            named.get(k, k) if isinstance(k, str) else k for k in (kind if isinstance(kind, list) else [kind])
        ]
        named |= {str(k["name"]): k for k in kinds if isinstance(k, dict) and "name" in k}
        fields[field["name"]] = kinds
    return fields


def is_text(kinds: Sequence[Any]) -> bool:
    """Whether the values of a field's types are texts, or null."""
    plain = {str(kind.get("type")) if isinstance(kind, dict) else kind for kind in kinds}
    return plain - {"null"} == {"string"}


def with_bytes_for_texts(writer_schema: Any) -> Any:
    """A record schema with the same bytes, whose fields of texts are read as bytes in less time."""
    plain, texts = without_logical_types(writer_schema), {"null": "null", "string": "bytes"}
    fields = []
    for name, kinds in fields_of(plain).items():
        if is_text(kinds):
            kinds = [texts[kind["type"] if isinstance(kind, dict) else kind] for kind in kinds]
            fields.append({"name": name, "type": kinds if len(kinds) > 1 else kinds[0]})
    by_name = {field["name"]: field for field in fields}
    return {**plain, "fields": [by_name.get(field["name"], field) for field in plain["fields"]]}


def _refuse_nesting(part: Any, levels: int) -> None:
    if levels == 0:
        raise ValueError(f"its schema is nested more than {MOST_NESTING} levels deep")
    if isinstance(part, dict | list):
        for entry in part.values() if isinstance(part, dict) else part:
            _refuse_nesting(entry, levels - 1)


class _Measured:
    """Measures a schema; the shape of each named type is computed once.

    Args:
        named: the schema's named types by their full names.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        #: The shapes of named types; None while the type is being measured.
        self._shapes: dict[str, Shape | None] = {}

    def shape(self, kind: Any) -> Shape:
        if isinstance(kind, list):
            return _either([self.shape(branch) for branch in kind])
        if isinstance(kind, str):
            return Shape(PRIMITIVE[kind], 1) if kind in PRIMITIVE else self._of_name(kind)
        of = kind["type"]
        if of == "array":
            return _repeated(self.shape(kind["items"]), 0)
        if of == "map":
            return _repeated(self.shape(kind["values"]), 1)
        if of in ("record", "error", "fixed", "enum"):
            return self._of_name(kind["name"])
        return self.shape(of)

    def _of_name(self, name: str) -> Shape:
        if name in self._shapes:
            known = self._shapes[name]
            if known is None:
                raise ValueError(f"its schema has the record {name} within itself")
            return known
        self._shapes[name] = None
        kind = self._named[name]
        if kind["type"] == "fixed":
            shape = Shape(_width(kind), 1)
        elif kind["type"] == "enum":
            shape = Shape(PRIMITIVE["enum"], 1)
        else:
            shape = self._of_record(kind)
        self._shapes[name] = shape
        return shape

    def _of_record(self, kind: Any) -> Shape:
        names = Counter(field["name"] for field in kind["fields"])
        if twice := sorted(name for name, number in names.items() if number > 1):
            raise ValueError(f"duplicate fields in the schema: {', '.join(twice)}")
        fields = [self.shape(field["type"]) for field in kind["fields"]]
        shape = Shape(
            sum(field.least for field in fields),
            1 + sum(field.values for field in fields),
            max((field.per_byte for field in fields), default=0.0),
        )
        if shape.values > MOST_VALUES:
            raise ValueError(f"its schema has records of more than {MOST_VALUES:,} values")
        if shape.least > MOST_RECORD_BYTES:
            raise ValueError(f"its schema has records of more than {MOST_RECORD_BYTES // 2**20} MB")
        return shape


def _width(kind: Any) -> int:
    size = kind["size"]
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= MOST_RECORD_BYTES:
        raise ValueError(f"its schema has {kind['name']}, a fixed of size {size!r}")
    return size


def _either(branches: list[Shape]) -> Shape:
    """The shape of a union: the index of its branch takes one byte or more."""
    return Shape(
        1 + min((branch.least for branch in branches), default=0),
        max((branch.values for branch in branches), default=1),
        max((branch.per_byte for branch in branches), default=0.0),
    )


def _repeated(item: Shape, key: int) -> Shape:
    """The shape of an array (``key`` 0) or a map (``key`` 1: each key is a value of at least one byte)."""
    if item.least + key == 0:
        raise ValueError(
            "its schema has an array whose items have no bytes, of which there can be any number"
        )
    return Shape(1, 1, (item.values + key) / (item.least + key) + item.per_byte)
