"""Where messages stand in a partition of a feed, and by what they are known again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Checksums of this many last messages are kept, and before these one for each tenth of an octave of
#: distance.
LATEST, OF_OCTAVE = 250, 10


class Offsets(NamedTuple):
    """The messages of one partition of a feed from an offset on, and before another."""

    partition: int
    first: int
    after: int


class Checksum(NamedTuple):
    """The offset of a message, and the CRC-32 of its value and timestamp."""

    offset: int
    value: int


def spaced(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the first offset, the last ones, and ever fewer of those between, in their order."""
    places = np.arange(len(offsets))
    if len(offsets) <= LATEST:
        return places
    octaves = (OF_OCTAVE * np.log2(offsets[-1] + 1 - offsets[1:-LATEST])).astype(np.int64)
    is_last = np.diff(octaves, append=-1) != 0
    return np.concatenate([places[:1], places[1:-LATEST][is_last], places[-LATEST:]])


def thinned(checksums: Sequence[Checksum]) -> list[Checksum]:
    """Those of some checksums that are kept; they are in the order of their offsets."""
    places = spaced(np.array([each.offset for each in checksums], dtype=np.int64))
    return [checksums[place] for place in places.tolist()]
