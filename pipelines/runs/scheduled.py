"""Scheduled runs: many runs of one study share an output folder, and each replaces the windows of its span.

A run writes into a hidden folder of its own, laid out as any other run's, and moves the files into place
when all are written. So a run that fails leaves the shared folder as it was, and no run sees half of another.
A run that was killed while it moved leaves whole files only; the same run, started again, moves the rest.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ldpbeam.folders.output import (
    ACCOUNTING,
    DEAD_LETTERS,
    ESTIMATES,
    FIT,
    FORMAT,
    LEDGER,
    LEDGER_FOLDER,
    LEDGER_PERIODS,
    RUN,
    RUNS,
    STATISTICS,
    Output,
    files_in,
    names_in,
)
from ldpbeam.folders.written import TABLE_FOLDERS
from ldpbeam.pipelines.runs.ownership import SCHEDULED_RUNS, one_at_a_time, owned
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.temporary import held_folder
from ldpbeam.times import rfc3339
from ldpbeam.transforms.outputs.estimates import write_window_estimates
from ldpbeam.transforms.outputs.names import span_name, window_in
from ldpbeam.transforms.storage import delete, disk, exists, make_folder, rename, write_json
from ldpbeam.windows import EVERYTHING, Span

#: The hidden folders of runs, and of those that are being deleted.
_HIDDEN = f".*.{'[0-9a-f]' * 32}*"


@dataclass(frozen=True)
class Scheduled(Output):
    """A scheduled run; ``output`` is the folder that it shares with others.

    Attributes:
        span: the event times of the windows that it estimates.
        inputs: the files that it reads, as absolute names or patterns.
        token: makes the name of the run's hidden folder unique.
    """

    span: Span = EVERYTHING
    inputs: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def name(self) -> str:
        """The span, as file names spell it."""
        return span_name(self.span.start, self.span.stop)

    @property
    def made(self) -> Output:
        """The run's hidden folder, where it writes until all is written."""
        return Output(self.study, self.path(f".{self.name}.{self.token}"), self.run)

    def make(self) -> Path:
        """Make the hidden folder, on a disk."""
        made = Path(self.made.output)
        made.mkdir(exist_ok=True)
        return made

    @property
    def own(self) -> Output:
        """The run's own folder, for files that it does not share: dead letters, accounting, ledger, fit."""
        return Output(self.study, self.path(RUNS, self.name), self.run)

    def __str__(self) -> str:
        """Where its files are, as a sentence."""
        return (
            f"estimates and statistics of the windows from {rfc3339(self.span.start)} to "
            f"{rfc3339(self.span.stop)} are in {self.output}, the accounting is in {self.own.output}"
        )


@contextmanager
def owned_by_schedule(job: Scheduled, overwrite: bool) -> Iterator[None]:
    """Hold the output folder, shared with other scheduled runs, while a run writes and moves its files.

    The run's hidden folder is deleted at the end, after an error too, and on a disk those that killed runs
    left at the start.

    Raises:
        UserError: if this run may not use the folder, or a run of another kind writes there.
    """
    with owned(job, SCHEDULED_RUNS, overwrite=overwrite):
        if "://" not in job.output:
            with held_folder(job.make, Path(job.output).glob(_HIDDEN)):
                yield
            return
        try:
            yield
        finally:
            delete([entry.path for entry in files_in(job.made.output, "**")])


def publish(
    job: Scheduled, estimates: Sequence[EstimateRecord], add_up: Callable[[], object] | None = None
) -> None:
    """Move a run's files into place while no other run moves its own.

    ``run.json`` of the run is deleted first and written last: if it exists, all files of the span come from
    one run.

    Args:
        job: the run; its statistics, dead letters, accounting, ledger and fit are in its hidden folder.
        estimates: its estimates, sorted by attribute and window.
        add_up: what makes files of the run from those that are in place before; None for nothing.
    """
    _write_estimates(job.made, estimates)
    with one_at_a_time(job):
        if add_up is not None:
            add_up()
        _move_all(job)


def _move_all(job: Scheduled) -> None:
    made, output = job.made, job.own
    delete([output.path(RUN)])
    moved = (
        (job, (STATISTICS,), "*.avro"),
        (job, (ESTIMATES,), "*.jsonl"),
        # The sums, which come last by name, say which files they are of.
        (job, (LEDGER_FOLDER,), "*.arrow"),
        *((job, folder, "*.parquet") for folder in TABLE_FOLDERS.values()),
        (output, (DEAD_LETTERS,), "*.avro"),
    )
    for target, folder, pattern in moved:
        written = names_in(made.path(*folder), pattern)
        for name in written:
            _move(made.path(*folder, name), target, *folder, name)
        # A window that is not estimated has statistics alone.
        stale = set(names_in(target.path(*folder), pattern)).difference(written)
        delete([target.path(*folder, name) for name in stale if target is output or _replaces(job, name)])
    for name in (ACCOUNTING, FIT, LEDGER):
        _move(made.path(name), output, name)
    if job.study.ledger:
        _move(made.path(LEDGER_PERIODS), job, LEDGER_PERIODS)
    if "://" not in job.output:
        # The disk has what was moved before it has the file that says so.
        folders = [target.path(*folder) for target, folder, _ in moved]
        for path in (output.output, job.output, *folders):
            if exists(path):
                disk.sync_folder(path)
    ends = {"from": rfc3339(job.span.start), "to": rfc3339(job.span.stop)}
    write_json(output.path(RUN), {**job.about, "format": FORMAT, **ends, "input": sorted(job.inputs)})


def _replaces(job: Scheduled, name: str) -> bool:
    """Whether a shared file is of an earlier run in whose place this one is."""
    window = window_in(name)
    return window is not None and job.span.holds(window)


def _write_estimates(made: Output, estimates: Sequence[EstimateRecord]) -> None:
    by_window = itertools.groupby(estimates, lambda record: (record.attribute, record.window))
    for (attribute, window), records in by_window:
        write_window_estimates(made.study, made.output, made.run, attribute, window, list(records))


def _move(source: str, target: Output, *names: str) -> None:
    make_folder(target.path(*names[:-1]), private=names[0] in (DEAD_LETTERS, LEDGER_FOLDER))
    rename(source, target.path(*names))
