"""XXH32 of numbers, as four bytes or as decimal text, for arrays (Collet, https://github.com/Cyan4973/xxHash)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_P1, _P2, _P3, _P4, _P5 = (np.uint32(p) for p in (2654435761, 2246822519, 3266489917, 668265263, 374761393))


def xxh32(values: NDArray[np.uint32], seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """XXH32 of each value's four little-endian bytes under each seed; the arguments are broadcast."""
    h = np.atleast_1d(values * _P3 + (seeds + (_P5 + np.uint32(4))))
    # Every step works in place: allocating an array for each would take three times as long.
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


def xxh32_of_text(values: NDArray[np.uint32], seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """XXH32 of each value's decimal digits in ASCII, under each seed; the arguments are broadcast."""
    digits = np.ones(np.shape(values), dtype=np.int64)
    for power in range(1, 10):
        digits += values >= 10**power
    h = seeds + (_P5 + digits.astype(np.uint32))
    longest = int(digits.max(initial=1))
    for first in range(0, longest - 3, 4):
        word = np.zeros(np.shape(values), dtype=np.uint32)
        for position in range(4):
            word |= _digit(values, digits, first + position) << np.uint32(8 * position)
        h = np.where(digits >= first + 4, _rotated(h + word * _P3, 17) * _P4, h)
    for position in range(longest):
        alone = (position >= digits // 4 * 4) & (position < digits)
        h = np.where(alone, _rotated(h + _digit(values, digits, position) * _P5, 11) * _P1, h)
    for shift, factor in ((15, _P2), (13, _P3)):
        h = (h ^ (h >> np.uint32(shift))) * factor
    return np.asarray(h ^ (h >> np.uint32(16)), dtype=np.uint32)


def _digit(values: NDArray[np.uint32], digits: NDArray[np.int64], position: int) -> NDArray[np.uint32]:
    """The ASCII code of the digit at a position from the left; any number where there is none."""
    power = 10 ** np.maximum(digits - 1 - position, 0)
    return np.asarray((48 + values.astype(np.int64) // power % 10).astype(np.uint32))


def _rotated(numbers: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """The numbers with their bits rotated to the left."""
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))


def reduced(hashes: NDArray[np.uint32], g: int) -> NDArray[np.uint32]:
    """The remainders of the hashes by g, computed in place; a division by a constant is the fast one."""
    multiples = hashes // np.uint32(g)
    multiples *= np.uint32(g)
    hashes -= multiples
    return hashes
