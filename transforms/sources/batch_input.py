"""What a batch run reads: files, a span of a topic, dead letters that are read again, or counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.files import ReportFile

Item = TypeVar("Item")


def whole(one: Any) -> list[Any]:
    """What is not split."""
    return [one]


class Reading(NamedTuple):
    """How an input is read; workers get it without the list of what is read.

    Attributes:
        decode: what is decoded of a unit: batches, and dead letters, some at a time.
        split: the units of one thing that is listed. Each is read by itself.
        damage: the reasons of dead letters that mean that a file is damaged.
    """

    decode: Callable[[Any, Columns], Iterator[pa.RecordBatch | list[DeadLetter]]]
    split: Callable[[Any], Iterable[Any]] = whole
    damage: frozenset[str] = frozenset()

    def damaged_in(self, part: pa.RecordBatch | list[DeadLetter]) -> list[str]:
        """The files that some dead letters say are damaged."""
        if not isinstance(part, list):
            return []
        return sorted({letter.file for letter in part if letter.reason in self.damage})


@dataclass(frozen=True)
class BatchInput:
    """What a batch run reads.

    Attributes:
        listed: what is read, in order.
        reading: how each of it is read.
        size: how many bytes it has; None if that is not known.
        names: what is read, as the file of the run has it; of files of reports, the run knows what the user
            gave.
        files: the files of reports among it.
        counts: whether it is tables of counts, in place of reports.
    """

    listed: Sequence[Any]
    reading: Reading
    size: int | None
    names: tuple[str, ...] = ()
    files: tuple[ReportFile, ...] = ()
    counts: bool = False


def in_parts(
    items: Iterable[Item], size_of: Callable[[Item], int], most: int, most_bytes: int
) -> Iterator[list[Item]]:
    """Consecutive items in parts: a part ends with the item that reaches ``most`` items or ``most_bytes``."""
    part, size = list[Item](), 0
    for item in items:
        part.append(item)
        size += size_of(item)
        if len(part) >= most or size >= most_bytes:
            yield part
            part, size = [], 0
    if part:
        yield part


def decoded_parts(given: BatchInput, columns: Columns) -> Iterator[pa.RecordBatch | list[DeadLetter]]:
    """What is decoded of an input, one unit after the other.

    Raises:
        OSError: if something of it cannot be read.
    """
    decode, split, _ = given.reading
    for one in given.listed:
        for unit in split(one):
            yield from decode(unit, columns)
