"""Conversion of payloads between a mechanism's arrays and Arrow columns: numbers, or bytes of one length."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpbeam.schemas.reports.casts import fixed_bytes, from_hexadecimal

#: Whole numbers with commas or spaces between, or nothing.
_PLACES = r"^ *(\d{1,7}([, ]+\d{1,7})*)? *$"


def payload_column(payloads: np.ndarray) -> pa.Array:
    """A mechanism's payloads, shape (n,), as an Arrow array: numbers, or binary of one width (void dtype)."""
    if payloads.dtype.kind != "V":
        return pa.array(payloads)
    data = pa.py_buffer(np.ascontiguousarray(payloads))
    return pa.Array.from_buffers(pa.binary(payloads.dtype.itemsize), len(payloads), [None, data])


def payloads_in(column: pa.Array, dtype: np.dtype) -> np.ndarray:
    """The inverse of :func:`payload_column`: an array of shape (n,) with the mechanism's dtype."""
    if dtype.kind != "V":
        numbers: np.ndarray = column.to_numpy(zero_copy_only=False)
        return numbers
    return fixed_bytes(column).view(dtype).ravel()


def bytes_in(column: pa.Array, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A column's values as rows of bytes, shape (n, width), and which values have that width, shape (n,).

    Binary values are taken unchanged. Text is read as hexadecimal digits, two per byte. The row of a value
    of another width, or with another character, is zero.
    """
    text = pa.types.is_string(column.type)
    wide = 2 * width if text else width
    if column.type == pa.binary(width) and not column.null_count:
        return fixed_bytes(column), np.ones(len(column), dtype=np.bool_)
    if pa.types.is_fixed_size_binary(column.type):
        fits = np.full(len(column), column.type.byte_width == wide)
    else:
        fits = pc.equal(pc.binary_length(column), wide).fill_null(False).to_numpy(zero_copy_only=False)
    fits = fits & column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.zeros((len(column), width), dtype=np.uint8)
    if fits.any():
        chosen = pc.cast(column.filter(pa.array(fits)), pa.binary())
        data = fixed_bytes(pc.cast(chosen, pa.binary(wide)))
        if text:
            data, legible = from_hexadecimal(data)
            fits[np.flatnonzero(fits)[~legible]] = False
            data = data[legible]
        rows[fits] = data
    return rows, fits


def bits_in(text: pa.Array, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Texts of 0 and 1, also with commas between, as bits, shape (n, size), and which texts are such."""
    rows, fits = bytes_in(pc.cast(pc.replace_substring(text, ",", ""), pa.binary()), size)
    fits = fits & ((rows == ord("0")) | (rows == ord("1"))).all(axis=1)
    return (rows == ord("1")) & fits[:, None], fits


def places_in(text: pa.Array, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Texts of the places of set bits, with commas or spaces between, as :func:`bits_in` gives bits."""
    shaped = pc.match_substring_regex(text, _PLACES).fill_null(False)
    split = pc.split_pattern_regex(pc.if_else(shaped, pc.utf8_trim_whitespace(text), ""), "[, ]+")
    rows = pc.list_parent_indices(split).to_numpy()
    written = pc.list_flatten(split)
    some = pc.not_equal(written, "").to_numpy(zero_copy_only=False)
    places, rows = pc.cast(written.filter(pa.array(some)), pa.int64()).to_numpy(), rows[some]
    fits = shaped.to_numpy(zero_copy_only=False).copy()
    fits[rows[places >= size]] = False
    bits = np.zeros((len(text), size), dtype=np.bool_)
    bits[rows[places < size], places[places < size]] = True
    return bits & fits[:, None], fits
