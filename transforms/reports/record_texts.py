"""Records as canonical JSON, the bytes that dead letters hash: of many rows at once, from their columns.

Keys are in order, nulls are left out, bytes are hexadecimal digits, and what JSON does not know is its text.
In the place of a long value is its hash, so that a few bytes that decode to many are not written out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Text in which JSON escapes something: quotation marks, backslashes, and all but printable ASCII.
_ESCAPED = r'["\\]|[^ -~]'

#: In the place of a value of more bytes is its hash.
LONGEST_VALUE = 2**16


def record_bytes(record: Mapping[str, object]) -> bytes:
    """One decoded record."""
    present = {str(name): value for name, value in record.items() if value is not None}
    return _json_of(present).encode()


def record_texts(columns: Mapping[str, pa.Array], constants: Mapping[str, str], rows: int) -> pa.Array:
    """As :func:`record_bytes` has each row without long values, a binary array of the length ``rows``.

    Args:
        columns: by name, each with a value or null for each row.
        constants: of all rows, by name; a column of the same name goes before it.
        rows: how many there are.
    """
    texts: dict[str, pa.Array | pa.Scalar] = {name: _text(_json_of(text)) for name, text in constants.items()}
    texts |= {name: _json_texts(_without_long(column)) for name, column in columns.items()}
    fields = [_concatenated(f", {_json_of(name)}: ", texts[name]) for name in sorted(texts)]
    # Arrow leaves out rows of which it skips every text, so what is null is replaced and not skipped.
    joined = pc.binary_join_element_wise(
        pa.repeat(_text(""), rows), *fields, _text(""), null_handling="replace", null_replacement=""
    )
    without_comma = pc.utf8_slice_codeunits(joined, 2)
    return _concatenated("{", without_comma, "}").cast(pa.large_binary()).cast(pa.binary())


def _without_long(column: pa.Array) -> pa.Array:
    """Text and bytes with the hashes of those that are longer than :data:`LONGEST_VALUE` in their places."""
    if pa.types.is_fixed_size_binary(column.type) and column.type.byte_width > LONGEST_VALUE:
        column = column.cast(pa.large_binary())
    is_long = pc.fill_null(pc.greater(lengths_of(column), LONGEST_VALUE), False)
    if not pc.any(is_long).as_py():
        return column
    hashes = [
        f"sha256:{hashlib.sha256(value.as_buffer()).hexdigest()}".encode() for value in column.filter(is_long)
    ]
    return pc.replace_with_mask(column, is_long, pa.array(hashes, pa.binary()).cast(column.type))


def lengths_of(column: pa.Array) -> pa.Array:
    """The bytes of each value, where it is text or bytes, else null."""
    if pa.types.is_fixed_size_binary(column.type):
        return pa.repeat(column.type.byte_width, len(column))
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return (
        pc.binary_length(column)
        if any(of(column.type) for of in kinds)
        else pa.nulls(len(column), pa.int64())
    )


def _json_of(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=_text_of)


def _text_of(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _concatenated(before: str, texts: pa.Array | pa.Scalar, after: str = "") -> pa.Array:
    """Each text between two others; null where it is."""
    return pc.binary_join_element_wise(_text(before), texts, _text(after), _text(""))


def _json_texts(column: pa.Array) -> pa.Array:
    """The JSON of each value, a large_string array; null where there is none."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.large_string())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.large_string())
    if pa.types.is_floating(kind):
        # JSON writes all at once what Python writes for each.
        texts = pa.array(_json_of(column.to_pylist())[1:-1].split(", "), pa.large_string())
        return pc.if_else(column.is_valid(), texts, None)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _concatenated('"', _hexadecimal(column.cast(pa.large_binary())), '"')
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = column.cast(pa.large_string())
        escaped = pc.fill_null(pc.match_substring_regex(column, _ESCAPED), False)
        texts = _concatenated('"', column, '"')
        if not pc.any(escaped).as_py():
            return texts
        special = [_json_of(text) for text in column.filter(escaped).to_pylist()]
        return pc.replace_with_mask(texts, escaped, pa.array(special, pa.large_string()))
    every = [None if value is None else _json_of(value) for value in column.to_pylist()]
    return pa.array(every, pa.large_string())


def _hexadecimal(column: pa.Array) -> pa.Array:
    """The hexadecimal digits of a large_binary array; null where it is."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    digits = b"" if data is None else data[int(ends[0]) : int(ends[-1])].to_pybytes().hex().encode()
    buffers = [None, pa.py_buffer(2 * (ends - ends[0])), pa.py_buffer(digits)]
    texts = pa.Array.from_buffers(pa.large_string(), len(column), buffers)
    return pc.if_else(column.is_valid(), texts, None) if column.null_count else texts
