"""The position of a Kafka topic: its offsets, and checksums of the messages before them.

A checksum shows whether the log that is read on is still the log that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ldpbeam.transforms.offsets import Checksum, thinned
from ldpbeam.transforms.sources.feeds import Position


def position_of(offsets: Mapping[int, int], checksums: Mapping[int, Sequence[Checksum]]) -> Position:
    """A position, as JSON.

    Args:
        offsets: the offset that is read next, by partition.
        checksums: the checksums of messages that were taken, by partition, in the order of their offsets.
    """
    return {
        "offsets": [[partition, offset] for partition, offset in sorted(offsets.items())],
        "checksums": [
            [partition, [list(checksum) for checksum in taken]]
            for partition, taken in sorted(checksums.items())
        ],
    }


def read_by(position: Position) -> tuple[dict[int, int], dict[int, list[Checksum]]]:
    """The offsets and checksums from which :func:`position_of` made a position."""
    checksums = {
        partition: [Checksum(*checksum) for checksum in taken]
        for partition, taken in position.get("checksums", ())
    }
    return dict(position.get("offsets", ())), checksums


def merged(positions: Iterable[Position]) -> Position:
    """The position after everything that several runs of one topic have read."""
    offsets: dict[int, int] = {}
    checksums: dict[int, set[Checksum]] = {}
    for offsets_of_run, checksums_of_run in map(read_by, positions):
        for partition, offset in offsets_of_run.items():
            offsets[partition] = max(offset, offsets.get(partition, 0))
        for partition, taken in checksums_of_run.items():
            checksums.setdefault(partition, set()).update(taken)
    return position_of(offsets, {partition: thinned(sorted(taken)) for partition, taken in checksums.items()})
