"""XXH32 of numbers of four bytes, for arrays (Collet, https://github.com/Cyan4973/xxHash)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_P2, _P3, _P4, _P5 = (np.uint32(p) for p in (2246822519, 3266489917, 668265263, 374761393))


def xxh32(values: NDArray[np.uint32], seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """XXH32 of each value's four little-endian bytes under each seed; the arguments are broadcast."""
    h = np.atleast_1d(values * _P3 + (seeds + (_P5 + np.uint32(4))))
    # Every step is in place. With an array of its own for each step, memory takes three times the time.
    spare = h << np.uint32(17)
    h >>= np.uint32(15)
    h |= spare
    h *= _P4
    for shift, factor in ((15, _P2), (13, _P3)):
        np.right_shift(h, np.uint32(shift), out=spare)
        h ^= spare
        h *= factor
    np.right_shift(h, np.uint32(16), out=spare)
    h ^= spare
    return h.reshape(np.broadcast_shapes(np.shape(values), np.shape(seeds)))


def reduced(hashes: NDArray[np.uint32], g: int) -> NDArray[np.uint32]:
    """The remainders of the hashes by g, computed in place; a division by a constant is the fast one."""
    multiples = hashes // np.uint32(g)
    multiples *= np.uint32(g)
    hashes -= multiples
    return hashes
