"""What a batch run reads: files, a span of a topic, or dead letters that are read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.dead_letters import DeadLetter
from ldpbeam.transforms.sources.files import ReportFile


class Reading(NamedTuple):
    """How an input is read; workers get it without the list of what is read.

    Attributes:
        split: the units of one thing that is listed. Each is read by itself.
        decode: what is decoded of a unit: batches, and dead letters, some at a time.
        damage: the reasons of dead letters that mean that a file is damaged.
    """

    split: Callable[[Any], Iterable[Any]]
    decode: Callable[[Any, Columns], Iterator[pa.RecordBatch | list[DeadLetter]]]
    damage: frozenset[str] = frozenset()

    def damaged_in(self, part: pa.RecordBatch | list[DeadLetter]) -> list[str]:
        """The files that some dead letters say are damaged."""
        if not isinstance(part, list):
            return []
        return sorted({letter.file for letter in part if letter.reason in self.damage})


class BatchInput(Protocol):
    """An input.

    Attributes:
        files: the files of which it is made; none if it is not made of files.
        size: how many bytes it has; None if that is not known.
        listed: what is read, in order.
        reading: how each of it is read.
    """

    @property
    def files(self) -> tuple[ReportFile, ...]: ...  # noqa: D102
    @property
    def size(self) -> int | None: ...  # noqa: D102
    @property
    def listed(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def reading(self) -> Reading: ...  # noqa: D102


class NamedInput(BatchInput, Protocol):
    """An input that is not of report files, whose names are those that the user gave.

    Attributes:
        names: what is read, as the file of the run has it.
    """

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102


def decoded_parts(given: BatchInput, columns: Columns) -> Iterator[pa.RecordBatch | list[DeadLetter]]:
    """What is decoded of an input, one unit after the other.

    Raises:
        OSError: if something of it cannot be read.
    """
    split, decode, _ = given.reading
    for one in given.listed:
        for unit in split(one):
            yield from decode(unit, columns)
