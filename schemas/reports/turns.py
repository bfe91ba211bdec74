"""Which reports lie in the window that a study's panel has their users answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.domains import Integers
from ldpbeam.memoised.panels import Panel


def in_turn(panel: Panel, attribute: str, users: pa.Array, times: Integers) -> NDArray[np.bool_]:
    """Which reports lie in their users' window, shape (n,).

    Args:
        panel: the panel.
        attribute: the attribute that the reports are of.
        users: the user ids as bytes, a UUID as its 16 bytes, n values.
        times: event times in epoch milliseconds, shape (n,).
    """
    encoded = pc.fill_null(users, b"").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    behind = times - panel.turns(attribute, encoded.dictionary.to_pylist(), codes, times)
    return np.asarray((behind >= 0) & (behind < panel.size))
