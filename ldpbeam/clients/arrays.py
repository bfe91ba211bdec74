"""A caller's values as one Arrow array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ldpbeam.schemas.reports.payloads import payload_column

#: The type of a polars series of Python objects; polars exports their addresses in memory, not their values.
OBJECT = "Object"


def array_of(values: Any) -> pa.Array | None:
    """Values as an Arrow array; None if they are of several types, or Arrow cannot hold one."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "V":
        return payload_column(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if str(getattr(values, "dtype", None)) == OBJECT:
        values = values.to_list()
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values).combine_chunks()
        return pa.array(values)
    except (pa.ArrowNotImplementedError, TypeError, OverflowError, ValueError):
        return None
