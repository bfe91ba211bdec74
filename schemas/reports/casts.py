"""Columns of a file, cast to the types of a decoded batch; what cannot be cast becomes null."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.cells import Clock
from ldpbeam.schemas.reports.event_times import COARSE

#: Days that there are in each year from 1900 to 2199, so that what has this form is a time.
_LEAP_YEAR = r"(?:(?:19|21)(?:0[48]|[2468][048]|[13579][26])|20(?:[02468][048]|[13579][26]))"
_DAY = (
    r"(?:(?:19|20|21)\d\d-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|"
    rf"(?:0[13578]|1[02])-31)|{_LEAP_YEAR}-02-29)"
)
_LOCAL = rf"^{_DAY}[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{{1,9}})?"
_RFC3339 = rf"{_LOCAL}([Zz]|[+-]([01]\d|2[0-3]):?[0-5]\d)$"
#: A decimal number.
_DECIMAL = r"^-?\d{1,20}(\.\d{1,20})?([eE][+-]?\d{1,3})?$"
#: Text of which no character can be seen.
_BLANK = r"\A[\pZ\p{Cc}\p{Cf}]*\z"
#: Bytes that are UTF-8.
_UTF8 = (
    r"^([\x00-\x7f]|[\xc2-\xdf]T|\xe0[\xa0-\xbf]T|[\xe1-\xec\xee\xef]TT|\xed[\x80-\x9f]T|\xf0[\x90-\xbf]TT|"
    r"[\xf1-\xf3]TTT|\xf4[\x80-\x8f]TT)*$"
).replace("T", r"[\x80-\xbf]")
#: A UUID in text, with x for each digit; each form has its own length.
_UUID_FORMS = [
    np.frombuffer(f"{before}{digits}{after}".encode(), np.uint8)
    for digits in ("x" * 32, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
    for before, after in (("", ""), ("{", "}"), ("urn:uuid:", ""))
]
#: The number of each hexadecimal digit, by its character; 255 of others.
_NIBBLES = np.full(256, 255, dtype=np.uint8)
_NIBBLES[list(b"0123456789abcdef")] = _NIBBLES[list(b"0123456789ABCDEF")] = range(16)
#: The byte of each two characters, of which the first is the lower byte of the place; 256 without digits.
_OF_DIGITS = np.where(
    np.maximum.outer(_NIBBLES, _NIBBLES) < 16, np.add.outer(_NIBBLES, 16 * _NIBBLES.astype(np.uint16)), 256
).ravel()
#: A group, or another name, whose type or bytes have no text form. No client's begins so.
UNREADABLE = "\x00unreadable"
#: Floats from here on, by their bits, stand for several whole numbers.
_EXACT = {16: 2.0**11, 32: 2.0**24, 64: 2.0**53}


def is_null(column: pa.Array) -> np.ndarray:
    """Which values of a column are null, shape (n,)."""
    if not column.null_count:
        return np.zeros(len(column), dtype=np.bool_)
    nulls: np.ndarray = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def unwrapped(array: pa.Array) -> pa.Array:
    """The values of an array without chunks, dictionaries, extension types, views and the rarer widths."""
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
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        # Arrow cannot do with these what it can with longer ones.
        return pc.cast(array, pa.decimal128(38, kind.scale))
    return array


def _names(array: pa.Array) -> pa.Array:
    """Values as text; empty text is null, as in fields of fixed width.

    A value without a text form is :data:`UNREADABLE`, which validation refuses: null would mean that it is
    missing. So is NaN in tables.
    """
    texts = as_text(array)
    if texts.null_count:
        values = unwrapped(array)
        missing = pc.is_null(values, nan_is_null=pa.types.is_floating(values.type))
        texts = pc.if_else(pc.or_(missing, pc.is_valid(texts)), texts, UNREADABLE)
    return _empty_to_null(texts)


def as_text(array: pa.Array) -> pa.Array:
    """Values as text; values that have no text form, such as nested ones, become null.

    A whole number has the same text whatever its type: 7, 7.0 and 7.00 are "7". A float that is no number, or
    stands for several whole numbers, would be one text of many people or groups, so it becomes null.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        return as_text(array.dictionary).take(array.indices)
    if isinstance(array.type, pa.UuidType):
        return _uuid_texts(array.storage)
    array = unwrapped(array)
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_fixed_size_binary(kind):
        array = _unpadded(array)
    elif pa.types.is_nested(kind):
        return pa.nulls(len(array), pa.string())
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _number_texts(array)
    return _cast_or_null(array, pa.string())


def as_numbers(texts: pa.Array) -> pa.Array:
    """Texts as float64; one that is no decimal number becomes null."""
    return pc.cast(pc.if_else(pc.match_substring_regex(texts, _DECIMAL), texts, None), pa.float64())


def _number_texts(numbers: pa.Array) -> pa.Array:
    """Floats or decimals as text, whole numbers as those of integers."""
    wide = _widest(numbers)
    if pa.types.is_floating(numbers.type):
        wide = pc.if_else(pc.less(pc.abs(wide), _EXACT[numbers.type.bit_width]), wide, None)
    floored = _floored(wide)
    whole = pc.equal(wide, floored)
    wholes = pc.if_else(whole, floored, None)
    wholes = pc.cast(wholes, pa.decimal256(76, 0) if pa.types.is_decimal(wide.type) else pa.int64())
    if pc.all(whole).as_py():
        return pc.cast(wholes, pa.string())
    others = pc.replace_substring_regex(pc.cast(numbers, pa.string()), r"(\.\d*[1-9])0+$", r"\1")
    return pc.if_else(whole, pc.cast(wholes, pa.string()), others)


def _widest(numbers: pa.Array) -> pa.Array:
    """Numbers in the widest type of their kind: int64, float64 or decimal256."""
    kind = numbers.type
    if pa.types.is_decimal(kind):
        return _cast_or_null(numbers, pa.decimal256(76, max(kind.scale, 0)))
    # A cast of the largest unsigned integers to int64 would wrap.
    whole = pa.types.is_integer(kind) and kind != pa.uint64()
    return pc.cast(numbers, pa.int64() if whole else pa.float64(), safe=False)


def _floored(wide: pa.Array) -> pa.Array:
    """Numbers of :func:`_widest` rounded down; all null if decimals have no digit before their point."""
    try:
        return wide if pa.types.is_integer(wide.type) else pc.floor(wide)
    except pa.ArrowInvalid:
        return pa.nulls(len(wide), wide.type)


def _cast_or_null(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array; a value that cannot be cast becomes null.

    If the cast of the whole array fails, each different value is cast once, and halves of them until the
    failing value is alone.
    """
    try:
        return pc.cast(array, kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(array), kind)
    except pa.ArrowInvalid:
        if len(array) <= 1:
            return pa.nulls(len(array), kind)
        if pa.types.is_binary(array.type):
            return pc.cast(pc.if_else(pc.match_substring_regex(array, _UTF8), array, None), kind)
        encoded = array.dictionary_encode()
        if len(encoded.dictionary) < len(array):
            return _cast_or_null(encoded.dictionary, kind).take(encoded.indices)
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
    offsets = np.arange(rows + 1, dtype=np.int32)
    offsets *= np.int32(width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def without_offsets(keys: pa.Array) -> pa.Array:
    """Keys, binary and not null, as binary of 16 bytes over the same memory if each has 16; else as they are.

    Arrow takes rows of these in a fourth of the time, and each needs 4 bytes less.
    """
    _, offsets, data = keys.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    if not len(keys) or not (np.diff(starts) == 16).all():
        return keys
    return pa.Array.from_buffers(pa.binary(16), len(keys), [None, data.slice(int(starts[0]), 16 * len(keys))])


def from_hexadecimal(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes from hexadecimal characters, shape (n, 2 width), and which rows have only digits, shape (n,)."""
    values = _OF_DIGITS.take(np.ascontiguousarray(digits).view("<u2"))
    legible = np.ones(len(digits), np.bool_)
    if values.max(initial=0) > 255:
        legible &= (values < 256).all(axis=1)
    return values.astype(np.uint8), legible


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
            return pc.cast(array, pa.binary()) if array.null_count else binary_of_width(fixed_bytes(array))
        array = _unpadded(array)
    elif not pa.types.is_binary(kind):
        array = _blank_to_null(as_text(array))
    return _empty_to_null(_uuids_to_bytes(array))


def _blank_to_null(text: pa.Array) -> pa.Array:
    """Text, null where no character can be seen: all clients that failed to read an id would be one user."""
    suspect = pc.or_(pc.less(text, "!"), pc.invert(pc.string_is_ascii(text)))
    if not pc.any(suspect).as_py():
        return text
    return pc.if_else(pc.match_substring_regex(text, _BLANK), None, text)


def _empty_to_null(array: pa.Array) -> pa.Array:
    empty = pc.equal(pc.binary_length(array), 0)
    return pc.if_else(empty, None, array) if pc.any(empty).as_py() else array


def _uuids_to_bytes(text: pa.Array) -> pa.Array:
    keys = pc.cast(text, pa.binary())
    lengths = pc.fill_null(pc.binary_length(keys), 0).to_numpy()
    raw, uuids = np.zeros((len(keys), 16), np.uint8), np.zeros(len(keys), np.bool_)
    for form in _UUID_FORMS:
        rows = np.flatnonzero(lengths == len(form))
        if len(rows):
            # Most ids of this length that are no UUID end otherwise.
            offsets = np.frombuffer(keys.buffers()[1], np.int32)
            data = np.frombuffer(keys.buffers()[2], np.uint8)
            last = data[offsets[keys.offset + rows + 1] - 1]
            rows = rows[_NIBBLES[last] < 16 if form[-1] == ord("x") else last == form[-1]]
        if not len(rows):
            continue
        of_form = keys if len(rows) == len(keys) else keys.take(pa.array(rows))
        data = fixed_bytes(pc.cast(of_form, pa.binary(len(form))))
        digit = form == ord("x")
        decoded, fits = from_hexadecimal(data.take(np.flatnonzero(digit), axis=1))
        for characters, mark in zip(data[:, ~digit].T, form[~digit].tolist(), strict=True):
            fits &= (characters == mark) | (characters == ord(chr(mark).upper()))
        if fits.all() and len(rows) == len(keys):
            return binary_of_width(decoded)
        raw[rows[fits]], uuids[rows[fits]] = decoded[fits], True
    return pc.replace_with_mask(keys, uuids, binary_of_width(raw[uuids])) if uuids.any() else keys


def _uuid_texts(keys: pa.Array) -> pa.Array:
    """The text of UUIDs, of their 16 bytes."""
    texts = np.tile(_UUID_FORMS[3], (len(keys), 1))
    digits = np.frombuffer(fixed_bytes(keys).tobytes().hex().encode(), np.uint8)
    texts[:, _UUID_FORMS[3] == ord("x")] = digits.reshape(len(keys), 32)
    return pc.if_else(keys.is_valid(), pc.cast(binary_of_width(texts), pa.string()), None)


def _event_times(array: pa.Array, clock: Clock | None) -> pa.Array:
    """Milliseconds since the epoch from numbers, timestamps or RFC 3339 text, rounded down.

    A time without a zone becomes null where no ``clock`` says which it is, in text and as a timestamp: it
    may be hours away from what was meant. So does one that the clock shows twice or never.
    Implausible times are kept, and floats of 16 or 32 bits become :data:`~.event_times.COARSE`: validation
    refuses them and names the problem.
    """
    array = unwrapped(array)
    if pa.types.is_string(array.type):
        array = _parsed_times(array, clock)
    if clock is not None and is_without_zone(array.type):
        array = _moments(array, clock)
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        array = _milliseconds(pc.cast(array, pa.int64()), kind.unit)
    elif not (is_number(kind) or pa.types.is_decimal(kind)):
        return pa.nulls(len(array), pa.int64())
    times = _floored(_widest(array))
    if pa.types.is_floating(kind) and kind.bit_width < 64:
        return pc.if_else(pc.is_finite(times), pa.scalar(COARSE, pa.int64()), None)
    if times.type == pa.int64() and all(
        abs(end or 0) <= -COARSE for end in pc.min_max(times).as_py().values()
    ):
        return times
    fits = pc.less_equal(pc.abs(pc.cast(times, pa.float64(), safe=False)), float(-COARSE))
    return pc.cast(pc.if_else(fits, times, None), pa.int64())


def _moments(local: pa.Array, clock: Clock) -> pa.Array:
    """The milliseconds at which a clock shows some times; null where it is none or two."""
    shown = _milliseconds(pc.cast(local, pa.int64()), local.type.unit).fill_null(0).to_numpy()
    times, once = clock.only(np.clip(shown, COARSE, -COARSE).astype(np.int64))
    return pc.if_else(pc.and_(local.is_valid(), pa.array(once)), pa.array(times), None)


def _milliseconds(counts: pa.Array, unit: str) -> pa.Array:
    """Counts of a unit as milliseconds, rounded down, in floats where they could have more than 64 bits."""
    if unit in ("s", "ms"):
        return counts if unit == "ms" else pc.multiply(pc.cast(counts, pa.float64(), safe=False), 1000.0)
    # Arrow's division rounds towards zero.
    times = pc.fill_null(counts, 0).to_numpy() // (1_000 if unit == "us" else 1_000_000)
    return pc.if_else(counts.is_valid(), pa.array(times), None)


def _parsed_times(text: pa.Array, clock: Clock | None) -> pa.Array:
    def parsed(form: str, kind: pa.DataType) -> pa.Array:
        shaped = pc.if_else(pc.match_substring_regex(text, form), pc.utf8_upper(text), None)
        return _cast_or_null(shaped, kind)

    times = parsed(_RFC3339, pa.timestamp("ns", "UTC"))
    if clock is None or not times.null_count:
        return times
    local = _moments(parsed(f"{_LOCAL}$", pa.timestamp("ns")), clock)
    return pc.coalesce(_milliseconds(pc.cast(times, pa.int64()), "ns"), local)


def _report_ids(array: pa.Array) -> pa.Array:
    """Report ids as bytes; sixteen zero bytes and the empty string become null."""
    ids = _user_keys(array)
    absent = pc.fill_null(pc.equal(ids, pa.scalar(bytes(16), pa.binary())), False)
    return pc.if_else(absent, None, ids) if pc.any(absent).as_py() else ids


def _payloads(array: pa.Array) -> pa.Array:
    """Numbers as float64, int64 or uint32; text, bytes and booleans unchanged; lists as text with commas.

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
    if is_list(kind):
        texts = pc.cast(array, pa.list_(pa.string()))
        # One null in a list would make the whole text null.
        filled = pa.ListArray.from_arrays(texts.offsets, pc.fill_null(texts.values, ""))
        return pc.if_else(texts.is_valid(), pc.binary_join(filled, ","), None)
    others = (pa.types.is_null, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary)
    if pa.types.is_fixed_size_binary(kind) or any(is_other(kind) for is_other in others):
        return array
    return pc.if_else(pc.is_valid(array), np.nan, pa.scalar(None, pa.float64()))


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is that of lists of numbers or of texts."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(of(kind) for of in lists) and (
        is_number(kind.value_type) or any(of(kind.value_type) for of in texts)
    )


def is_without_zone(kind: pa.DataType) -> bool:
    """Whether a type is that of timestamps without a zone."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is an integer or a floating-point type."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


_CASTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "user_id": _user_keys,
    "report_id": _report_ids,
    "payload": _payloads,
}


def cast_column(name: str, array: pa.Array, clock: Clock | None = None) -> pa.Array:
    """A column of a file, cast as column ``name`` of a decoded batch; what cannot be cast becomes null.

    Args:
        name: the column's name.
        array: its values.
        clock: what shows event times without a zone; None if such times are none.
    """
    return _event_times(array, clock) if name == "event_time" else _CASTS.get(name, _names)(array)
