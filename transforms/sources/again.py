"""Reading dead letters again: records that a run has kept, by what today's study says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from ldpbeam.schemas.messages.binary import UNKNOWN_SCHEMA, BadMessage
from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.records import DeadLetterRecord
from ldpbeam.schemas.reports.columns import DELIVERY, Columns
from ldpbeam.transforms.reports.counts import IN
from ldpbeam.transforms.reports.dead_letters import (
    LETTERS_AT_ONCE,
    REASONS,
    DeadLetter,
    Disclosure,
    in_columns,
)
from ldpbeam.transforms.reports.emitted import count, emit, parted
from ldpbeam.transforms.reports.kept_records import decode_kept
from ldpbeam.transforms.sources.files import ReportFile
from ldpbeam.transforms.storage import open_raw

#: Letters are decoded in parts of about this many bytes.
PART_BYTES = 16 * 2**20
#: The reasons of dead letters that a study or an option may mend. Records of other letters are no reports
#: whatever the study says, and a message that defeated the decoder is not decoded again.
MAY_BE_MENDED = frozenset({*REASONS[1:], UNKNOWN_SCHEMA})


class LettersFile(NamedTuple):
    """A file of dead letters, and which of them are read: a bit for each, as ``np.packbits`` has them."""

    path: str
    chosen: bytes


@dataclass(frozen=True)
class KeptRecords:
    """The kept records of some output folders.

    Attributes:
        folders: the folders.
        letters: the files of dead letters.
        size: how many bytes the records have.
    """

    #: They are of files and messages that nobody reads now.
    files: ClassVar[tuple[ReportFile, ...]] = ()
    folders: tuple[str, ...]
    letters: tuple[LettersFile, ...]
    size: int

    def read(self, columns: Columns, disclosure: Disclosure) -> beam.PTransform:
        """Reads the records; the arguments are those of :class:`ReadAgain`."""
        return ReadAgain(self, columns, disclosure)

    @property
    def names(self) -> tuple[str, ...]:
        """What is read, one name per folder."""
        return tuple(f"again:{folder}" for folder in self.folders)


@dataclass(eq=False)
class ReadAgain(beam.PTransform):
    """Read the kept records of dead letters.

    Outputs: decoded batches (main), whose schemas' metadata name the file that a record came from and whose
    positions are those in it; dead letters (``DEAD``) of what still does not decode; and counts.

    Attributes:
        kept: the records.
        columns: the columns of reports that the study needs.
        disclosure: what dead letters may reveal about their inputs.
    """

    kept: KeptRecords
    columns: Columns
    disclosure: Disclosure

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        """Spread the files over the workers, and decode the records of each."""
        return (
            pipeline
            | "Letters" >> beam.Create(list(self.kept.letters), reshuffle=False)
            | "SpreadLetters" >> beam.Reshuffle()
            | "ReadLetters" >> parted(_ReadLetters(self.columns, self.disclosure), "decoded")
        )


@dataclass(eq=False)
class _ReadLetters(beam.DoFn):
    columns: Columns
    disclosure: Disclosure

    def process(self, element: tuple[str, bytes]) -> Iterable[Any]:
        path, bits = element
        chosen = np.unpackbits(np.frombuffer(bits, dtype=np.uint8))
        with open_raw(path) as stream:
            pairs = zip(read_dead_letters(stream), chosen, strict=False)
            letters = (letter for letter, taken in pairs if taken)
            for part in _parts(letters):
                still: list[DeadLetter] = []
                for item in read_again(part, self.columns):
                    if isinstance(item, DeadLetter):
                        still.append(item)
                    else:
                        yield count(IN, item.num_rows)
                        yield item
                if still:
                    yield count(IN, sum(letter.reports for letter in still))
                    yield from emit(in_columns(still), self.disclosure)


def _parts(letters: Iterator[DeadLetterRecord]) -> Iterator[list[DeadLetterRecord]]:
    """Consecutive letters in parts that are decoded at once."""
    part: list[DeadLetterRecord] = []
    size = 0
    for letter in letters:
        part.append(letter)
        size += len(letter.record or b"")
        if len(part) >= LETTERS_AT_ONCE or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def read_again(letters: Sequence[DeadLetterRecord], wanted: Columns) -> Iterator[pa.RecordBatch | DeadLetter]:
    """Decode the records of dead letters; those that are no reports whatever the study says stay as they are.

    Args:
        letters: dead letters that have records.
        wanted: which columns are read.

    Raises:
        OSError: if a registry of schemas does not answer.
    """
    by_file: dict[str, list[DeadLetterRecord]] = {}
    for letter in letters:
        if letter.reason in MAY_BE_MENDED:
            by_file.setdefault(letter.file, []).append(letter)
        else:
            yield _still(letter, letter.reason, letter.detail, letter.record or b"")
    for file, of_file in by_file.items():
        positions, rows = (
            pa.array([getattr(letter, name) for letter in of_file], pa.int64())
            for name in ("position", "row")
        )
        for item in decode_kept([letter.record or b"" for letter in of_file], wanted):
            if isinstance(item, BadMessage):
                yield _still(of_file[int(item.message.id)], item.reason, item.problem, item.data)
                continue
            which = item.column("position")
            columns = dict(zip(item.schema.names, item.columns, strict=True))
            # Letters that are one letter have been told apart, so there are no deliveries to compare.
            columns.pop(DELIVERY, None)
            columns |= {"position": positions.take(which), "row": rows.take(which)}
            metadata = {**(item.schema.metadata or {}), b"file": file.encode()}
            yield pa.RecordBatch.from_pydict(columns).replace_schema_metadata(metadata)


def _still(letter: DeadLetterRecord, reason: str, detail: str, data: bytes) -> DeadLetter:
    return DeadLetter(letter.file, letter.position, letter.row, reason, detail, letter.reports, data)
