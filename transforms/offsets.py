"""Where messages stand in a partition of a feed, and by what they are known again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

#: Checksums of so many last messages are kept, and one for each tenth of an octave of the distance before.
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


def thinned(checksums: Sequence[Checksum]) -> list[Checksum]:
    """The first checksum, those of the last messages, and ever fewer of those between, in their order."""
    if len(checksums) <= LATEST:
        return list(checksums)
    end = checksums[-1].offset + 1
    spaced = {int(OF_OCTAVE * math.log2(end - each.offset)): each for each in checksums[1:-LATEST]}
    return [checksums[0], *spaced.values(), *checksums[-LATEST:]]
