"""Reading dead letters again as a Beam transform: their files are spread over the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np

from ldpbeam.schemas.outputs.dead_letters import read_dead_letters
from ldpbeam.schemas.outputs.records import DeadLetterRecord
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.transforms.reports.counts import IN
from ldpbeam.transforms.reports.dead_letters import LETTERS_AT_ONCE, DeadLetter, Disclosure, in_columns
from ldpbeam.transforms.reports.emitted import count, emit, parted
from ldpbeam.transforms.sources.again import KeptRecords, read_again
from ldpbeam.transforms.storage import open_raw

#: Letters are decoded in parts of about this many bytes.
PART_BYTES = 16 * 2**20


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
