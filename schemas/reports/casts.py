"""Columns of a file, cast to the types of a decoded batch; what cannot be cast becomes null."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_RFC3339 = (
    r"^(19|20|21)\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]"
    r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):?[0-5]\d)$"
)
_UUID = r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
#: Event times are below this many milliseconds, so that the difference of two fits in 64 bits.
_LARGEST_TIME = 2**61


def unwrapped(array: pa.Array) -> pa.Array:
    """The values of an array without chunks, dictionaries, extension types, views and large offsets."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        # Arrow takes nothing out of a dictionary of views, as the categories of polars are.
        words = unwrapped(array.dictionary)
        array = pa.DictionaryArray.from_arrays(array.indices, words).dictionary_decode()
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pc.cast(array, pa.string())
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pc.cast(array, pa.binary())
    return array


def _names(array: pa.Array) -> pa.Array:
    """Values as text; empty text is null, as in fields of fixed width."""
    return _empty_to_null(as_text(array))


def as_text(array: pa.Array) -> pa.Array:
    """Values as text; what is none, such as bytes that are not UTF-8 and nested values, becomes null."""
    array = unwrapped(array)
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_fixed_size_binary(kind):
        array = _unpadded(array)
    elif pa.types.is_nested(kind):
        return pa.nulls(len(array), pa.string())
    return _cast_or_null(array, pa.string())


def as_json_values(array: pa.Array) -> pa.Array:
    """Values of any type that is not nested as numbers, text, bytes or truth values."""
    array = unwrapped(array)
    kind = array.type
    plain = (pa.types.is_null, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary)
    if is_number(kind) or pa.types.is_fixed_size_binary(kind) or any(is_plain(kind) for is_plain in plain):
        return array
    return _cast_or_null(array, pa.string())


def _cast_or_null(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array; a value that cannot be cast becomes null.

    If the cast of the whole array fails, its halves are cast, until the failing value is alone.
    """
    try:
        return pc.cast(array, kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(array), kind)
    except pa.ArrowInvalid:
        if len(array) <= 1:
            return pa.nulls(len(array), kind)
        middle = len(array) // 2
        parts = [_cast_or_null(array[:middle], kind), _cast_or_null(array[middle:], kind)]
        return pa.concat_arrays(parts)


def _unpadded(array: pa.Array) -> pa.Array:
    """Fixed-width bytes as a binary array without the zero bytes at the end of each value."""
    data = fixed_bytes(array)
    width = data.shape[1]
    padding = np.argmax(data[:, ::-1] != 0, axis=1)
    lengths = np.where(data.any(axis=1), width - padding, 0)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    text = data[np.arange(width) < lengths[:, None]]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text))]
    plain = pa.Array.from_buffers(pa.binary(), len(data), buffers)
    return pc.if_else(array.is_valid(), plain, None) if array.null_count else plain


def fixed_bytes(array: pa.Array) -> np.ndarray:
    """A fixed-size binary array as a NumPy array of bytes, shape (n, width), without a copy."""
    width = array.type.byte_width
    data = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    return data[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)


def binary_of_width(data: np.ndarray) -> pa.Array:
    """Rows of bytes, shape (n, width), as an Arrow binary array over the same memory."""
    rows, width = data.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def parts_of(data: bytes, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
    """The parts of some bytes from each start to its end, both of shape (n,), as a binary array."""
    lengths = ends - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    chosen = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    values = np.frombuffer(data, dtype=np.uint8)[chosen]
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def _user_keys(array: pa.Array) -> pa.Array:
    """User keys as bytes: the UTF-8 of a string, 16 raw bytes unchanged, the 16 bytes of a UUID in text."""
    array = unwrapped(array)
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        if kind.byte_width == 16:
            return pc.cast(array, pa.binary())
        array = _unpadded(array)
    elif not pa.types.is_binary(kind):
        array = as_text(array)
    return _empty_to_null(_uuids_to_bytes(array))


def _empty_to_null(array: pa.Array) -> pa.Array:
    empty = pc.equal(pc.binary_length(array), 0)
    return pc.if_else(empty, None, array) if pc.any(empty).as_py() else array


def _uuids_to_bytes(text: pa.Array) -> pa.Array:
    keys = pc.cast(text, pa.binary())
    candidates = pc.fill_null(pc.equal(pc.binary_length(text), 36), False)
    if not pc.any(candidates).as_py():
        return keys
    uuids = pc.and_(candidates, pc.fill_null(pc.match_substring_regex(text, _UUID), False))
    digits_text = pc.replace_substring(text.filter(uuids), "-", "")
    digits = np.frombuffer(pc.cast(digits_text, pa.binary(32)).buffers()[1], dtype=np.uint8)
    nibbles = np.where(
        digits >= ord("a"), digits - 87, np.where(digits >= ord("A"), digits - 55, digits - 48)
    )
    raw = ((nibbles[0::2] << 4) | nibbles[1::2]).astype(np.uint8).reshape(-1, 16)
    if len(raw) == len(text):
        return binary_of_width(raw)
    return pc.replace_with_mask(keys, uuids, binary_of_width(raw))


def _event_times(array: pa.Array) -> pa.Array:
    """Milliseconds since the epoch from integers, doubles, timestamps or RFC 3339 text.

    A time without a zone becomes null, in text and as a timestamp: it may be hours away from what was meant.
    Implausible times are kept: validation refuses them and names the problem.
    """
    array = unwrapped(array)
    kind = array.type
    if is_without_zone(kind):
        return pa.nulls(len(array), pa.int64())
    if pa.types.is_string(kind):
        times = _parsed_times(array)
    elif pa.types.is_timestamp(kind) and kind.unit == "s":
        times = pc.cast(_cast_or_null(array, pa.timestamp("ms", kind.tz)), pa.int64())
    elif pa.types.is_timestamp(kind):
        times = pc.cast(pc.cast(array, pa.timestamp("ms", kind.tz), safe=False), pa.int64())
    elif is_number(kind):
        # The comparison is between doubles: a cast of the largest unsigned integers to int64 would wrap.
        numbers = pc.floor(pc.cast(array, pa.float64(), safe=False))
        fits = pc.less(pc.abs(numbers), float(_LARGEST_TIME))
        times = pc.cast(pc.if_else(fits, numbers, None), pa.int64())
    else:
        return pa.nulls(len(array), pa.int64())
    fits = pc.and_(pc.greater(times, -_LARGEST_TIME), pc.less(times, _LARGEST_TIME))
    return pc.if_else(fits, times, None)


def _parsed_times(text: pa.Array) -> pa.Array:
    shaped = pc.if_else(pc.match_substring_regex(text, _RFC3339), pc.utf8_upper(text), None)
    stamps = _cast_or_null(shaped, pa.timestamp("ns", "UTC"))
    return pc.cast(pc.cast(stamps, pa.timestamp("ms", "UTC"), safe=False), pa.int64())


def _report_ids(array: pa.Array) -> pa.Array:
    """Report ids as bytes; sixteen zero bytes and the empty string become null."""
    ids = _user_keys(array)
    absent = pc.fill_null(pc.equal(ids, pa.scalar(bytes(16), pa.binary())), False)
    return pc.if_else(absent, None, ids) if pc.any(absent).as_py() else ids


def _payloads(array: pa.Array) -> pa.Array:
    """Numbers as float64, int64 or uint32; text, bytes and booleans unchanged.

    The mechanism validates them. A value of any other type becomes NaN and not null, because a null payload
    counts as missing. No mechanism has reports of such types, and Python cannot represent every Arrow value.
    """
    array = unwrapped(array)
    kind = array.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or kind == pa.uint64():
        # A cast of the largest unsigned integers to int64 would wrap: 2**64 - 1 would be -1.
        return pc.cast(array, pa.float64(), safe=False)
    if kind == pa.uint32():
        return array
    if pa.types.is_integer(kind):
        return pc.cast(array, pa.int64(), safe=False)
    others = (pa.types.is_null, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary)
    if pa.types.is_fixed_size_binary(kind) or any(is_other(kind) for is_other in others):
        return array
    return pc.if_else(pc.is_valid(array), np.nan, pa.scalar(None, pa.float64()))


def is_without_zone(kind: pa.DataType) -> bool:
    """Whether a type is that of timestamps without a zone."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is an integer or a floating-point type."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


_CASTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "user_id": _user_keys,
    "event_time": _event_times,
    "report_id": _report_ids,
    "payload": _payloads,
}


def cast_column(name: str, array: pa.Array) -> pa.Array:
    """A column of a file, cast as column ``name`` of a decoded batch; what cannot be cast becomes null."""
    return _CASTS.get(name, _names)(array)
