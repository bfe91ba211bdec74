"""The position of a topic of Kafka: offsets, and by what the messages before them are known again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ldpbeam.transforms.offsets import Checksum, thinned
from ldpbeam.transforms.sources.feeds import Position


def position_of(offsets: Mapping[int, int], checksums: Mapping[int, Sequence[Checksum]]) -> Position:
    """The position at which by partition an offset is read next, as JSON.

    Args:
        offsets: by partition, the offset.
        checksums: by partition, those of messages that were taken, in their order.
    """
    return {
        "offsets": [[each, offset] for each, offset in sorted(offsets.items())],
        "checksums": [[each, [list(one) for one in known]] for each, known in sorted(checksums.items())],
    }


def read_by(position: Position) -> tuple[dict[int, int], dict[int, list[Checksum]]]:
    """What :func:`position_of` was given."""
    known = {each: [Checksum(*one) for one in of_each] for each, of_each in position.get("checksums", ())}
    return dict(position.get("offsets", ())), known


def merged(positions: Iterable[Position]) -> Position:
    """The position after all that runs of one topic have read."""
    offsets: dict[int, int] = {}
    checksums: dict[int, set[Checksum]] = {}
    for of_run, known in map(read_by, positions):
        offsets |= {each: max(offset, offsets.get(each, 0)) for each, offset in of_run.items()}
        for each, of_each in known.items():
            checksums.setdefault(each, set()).update(of_each)
    return position_of(offsets, {each: thinned(sorted(known)) for each, known in checksums.items()})
