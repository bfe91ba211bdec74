"""A batch run on this machine, without an engine: reports are tallied, and beyond memory they wait on disk.

Its outputs are those of a run on an engine, to the last byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from ldpbeam.errors import naming
from ldpbeam.folders.output import ACCOUNTING, DEAD_LETTERS, STATISTICS
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.printing import Show
from ldpbeam.transforms.counted.columns import CountTable, arrays_of
from ldpbeam.transforms.counted.statistics import tally_counts
from ldpbeam.transforms.outputs.ledger_parts import write_part
from ldpbeam.transforms.outputs.letter_files import write_all_letters
from ldpbeam.transforms.outputs.snapshots import write_windows
from ldpbeam.transforms.reports.counts import DAMAGED, IN
from ldpbeam.transforms.reports.dead_letters import in_columns
from ldpbeam.transforms.segments import Part, read_reports, write_reports
from ldpbeam.transforms.sources.batch_input import decoded_parts
from ldpbeam.transforms.storage import spilling_in, write_json
from ldpbeam.transforms.tally import Spill, Tally, tally_of

#: Dead letters are written when this many bytes of them wait, and rows of the ledger when this many wait.
LETTER_BYTES, LEDGER_ROWS = 2**26, 2**20


def tally_here(job: BatchJob, folder: Path, show: Show) -> None:
    """Read the input of a run, tally it, and write the files that the stages of an engine write.

    Args:
        job: the run.
        folder: a folder of this machine for what waits on disk; the run alone uses it.
        show: shows how many reports have been read.

    Raises:
        OSError: if the input cannot be read to its end, or a disk does not take what is written.
    """
    tally = Tally(job.disclosure) if job.ledger_key is None else Tally(job.disclosure, job.ledger_key)
    letters = _Letters(folder)
    decoded = _decoded(job, tally, letters, show)
    if job.input.counts:
        with naming(", ".join(job.input.names)):
            columns = arrays_of(
                pa.concat_tables([pa.table(part) for part in decoded], promote_options="default")
            )
            table = CountTable(job.study, columns, job.columns.attribute, job.columns.service)
            tally_counts(table, job.span, tally)
    else:
        tally_of(job.study, decoded, job.span, tally, Spill(str(folder), job.user_shards))
    damaged = any(name.startswith(DAMAGED) for name, _ in tally.counts)
    # Nobody knows the windows of what is lost.
    snapshots = (replace(each, complete=False) for each in tally.snapshots) if damaged else tally.snapshots
    write_windows(job.study, job.path(STATISTICS), job.run, snapshots)
    write_all_letters(job.path(DEAD_LETTERS), [*letters.kept(), *tally.dead_letters])
    _write_received(job, tally)
    write_json(job.path(ACCOUNTING), tally.accounting)


def _decoded(job: BatchJob, tally: Tally, letters: _Letters, show: Show) -> Iterator[pa.RecordBatch]:
    """The decoded batches of a run; what does not decode is in the tally, which is kept small."""
    read = 0
    damaged_in = job.input.reading.damaged_in
    for part in decoded_parts(job.input, job.columns):
        if isinstance(part, list):
            tally.counts.append((IN, sum(letter.reports for letter in part)))
            tally.counts += {(DAMAGED + path, 1) for path in damaged_in(part)}
            tally.refuse(in_columns(part, job.disclosure))
        else:
            yield part
            read += part.num_rows
            show(read)
        letters.keep(tally.dead_letters)
        if sum(map(len, tally.received)) >= LEDGER_ROWS:
            _write_received(job, tally)


def _write_received(job: BatchJob, tally: Tally) -> None:
    if job.keeping is not None and tally.received:
        write_part(job.keeping.folder, job.keeping.about, tally.received)
        tally.received.clear()


class _Letters:
    """Dead letters that wait on disk: anybody can send any number of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder / "letters")
        self._parts: list[Part] = []
        self._files = 0

    def keep(self, letters: list[pa.RecordBatch]) -> None:
        """Take letters, if they are many."""
        if sum(batch.nbytes for batch in letters) >= LETTER_BYTES:
            self._files += 1
            with spilling_in(self._folder):
                self._parts += write_reports(self._folder, self._files, letters, durable=False)
            letters.clear()

    def kept(self) -> list[pa.RecordBatch]:
        """The letters that were taken, as views of their files."""
        return read_reports(self._folder, self._parts)
