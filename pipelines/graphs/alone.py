"""A batch run over small files of this machine, which needs no engine and does not import Beam.

It is the library's way from decoded batches to statistics, so its outputs are those of an engine, to the last
byte.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pyarrow as pa

from ldpbeam.folders.output import ACCOUNTING, DEAD_LETTERS, STATISTICS
from ldpbeam.library.tally import Tally, tally_of
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.transforms.outputs.ledger_parts import write_part
from ldpbeam.transforms.outputs.letter_files import write_all_letters
from ldpbeam.transforms.outputs.snapshots import write_windows
from ldpbeam.transforms.reports.counts import DAMAGED, IN
from ldpbeam.transforms.reports.dead_letters import in_columns
from ldpbeam.transforms.sources.files import BadFile, ReportFile
from ldpbeam.transforms.sources.read import DAMAGE, FileInput, read_parts, split_or_keep
from ldpbeam.transforms.storage import is_local, write_json

#: The most bytes of files that are read without an engine.
MOST_BYTES = 8 * 2**20
#: The most bytes, and the most reports, that may be decoded of them: an engine spills what is more.
MOST_DECODED, MOST_REPORTS = 2**25, 2**19


def tally_alone(job: BatchJob) -> Tally | None:
    """Read files and add up their reports; None if there is too much for memory, or it is elsewhere."""
    files = job.input
    if not isinstance(files, FileInput) or files.size > MOST_BYTES or job.estimate_on == "worker":
        return None
    entries: list[ReportFile | BadFile] = [*files.files, *files.bad_files]
    if not all(is_local(entry.path) for entry in entries):
        return None
    tally = Tally(job.disclosure) if job.ledger_key is None else Tally(job.disclosure, job.ledger_key)
    decoded: list[pa.RecordBatch] = []
    size = reports = 0
    ranges = itertools.chain.from_iterable(map(split_or_keep, entries))
    for part in itertools.chain.from_iterable(read_parts(each, job.columns) for each in ranges):
        if isinstance(part, list):
            size += sum(len(letter.record) for letter in part)
            reports += len(part)
            tally.counts.append((IN, sum(letter.reports for letter in part)))
            tally.counts += {(DAMAGED + letter.file, 1) for letter in part if letter.reason in DAMAGE}
            tally.refuse(in_columns(part, job.disclosure))
        else:
            size += part.nbytes
            reports += part.num_rows
            decoded.append(part)
        if size > MOST_DECODED or reports > MOST_REPORTS:
            return None
    return tally_of(job.study, decoded, job.span, tally)


def write_tally(job: BatchJob, tally: Tally) -> None:
    """Write the files that the stages of an engine write."""
    damaged = any(name.startswith(DAMAGED) for name, _ in tally.counts)
    # Nobody knows the windows of what is lost.
    snapshots = (replace(each, complete=False) for each in tally.snapshots) if damaged else tally.snapshots
    write_windows(job.study, job.path(STATISTICS), job.run, snapshots)
    write_all_letters(job.path(DEAD_LETTERS), tally.dead_letters)
    if job.keeping is not None and tally.received:
        write_part(job.keeping.folder, job.keeping.about, tally.received)
    write_json(job.path(ACCOUNTING), tally.accounting)
