"""Runs of a stream share an output folder: which study owns it, and which windows earlier runs left open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ldpbeam.errors import UserError
from ldpbeam.folders.output import named_in_errors
from ldpbeam.pipelines.graphs.stream import StreamJob, begun_at, last_pane, run_name
from ldpbeam.pipelines.runs.ownership import STREAMS, held, owned
from ldpbeam.schemas.outputs.snapshots import EARLY
from ldpbeam.study import Study, attribute_of
from ldpbeam.transforms.outputs.names import snapshot_name
from ldpbeam.transforms.reports.counts import accounting
from ldpbeam.transforms.state.files import ACCOUNTING, CLAIMS, INCOMPLETE, JOURNAL, RUN, STOP, run_folder
from ldpbeam.transforms.state.journal import ended_at, named_windows
from ldpbeam.transforms.state.records import Incomplete, OpenWindow

#: File systems take names of at most this many bytes; ours are ASCII.
MOST_CHARACTERS = 255


@contextmanager
def owned_by_stream(job: StreamJob, *, at_once: bool = True) -> Iterator[None]:
    """Hold the output folder, shared with other streams of the study, while a run writes to it.

    The run's own folder gets a ``run.json``, and the list of the windows that earlier runs left open.

    Args:
        job: the run.
        at_once: whether others may run meanwhile. They may not if a run begins where others have ended.

    Raises:
        UserError: if this run may not use the folder, a run of another kind writes there, this run is running
            already, or a file's name is too long.
    """
    # As long as the names of its files get.
    names = (snapshot_name(job.study.name, name, (1, 2), job.run) for name in job.study.estimated)
    longest = max(map(len, names))
    if longest > MOST_CHARACTERS:
        raise UserError(
            f"--output {job.output}: the names of its files would have {longest} characters, more than file "
            "systems take; give the study, its attributes or coordinates shorter names"
        )
    with owned(job, STREAMS, at_once=at_once):
        with named_in_errors(job.output):
            assert job.feed is not None
            about = {"run": job.run, "reads": job.feed.name, **job.feed.about}
            RUN.write(job.folder, {**STREAMS.mark_of(job), **about})
            if job.incomplete != Incomplete():
                INCOMPLETE.write(job.folder, job.incomplete)
        with held(job.folder, alone=True):
            yield


def resume(output: str, run: str) -> None:
    """Check that a run can be resumed, and withdraw what asked its readers to stop or says that they ended.

    Raises:
        UserError: if there is no run of this name.
    """
    with named_in_errors(output):
        folder = run_folder(output, run)
        if not RUN.exists(folder):
            raise ValueError(f"there is no run {run} to resume")
        STOP.delete(folder)
        CLAIMS.delete(folder)


def incomplete_windows(study: Study, output: str, resumed: str = "") -> frozenset[OpenWindow]:
    """The windows that earlier runs left open: in their journals, without an on-time or late pane.

    Args:
        study: the study of the runs.
        output: the folder that the runs share.
        resumed: the run that is resumed, if any; its open windows are in its savepoint, so they are left out.

    Raises:
        UserError: if a journal or a snapshot cannot be read.
    """
    windows: set[OpenWindow] = set()
    with named_in_errors(output):
        for run in JOURNAL.runs(output):
            if run == resumed:
                continue
            named = named_windows(output, run)
            ended = ended_at(output, run)
            # Reports of windows that had not begun then have false times: without them a window is complete.
            begun = {window for window in named if ended is None or window.start <= ended}
            windows |= {window for window in begun if not _closed(study, output, run, window)}
    return frozenset(windows)


def earlier_runs(output: str, this_run: str) -> tuple[str, ...]:
    """The names of the runs of a stream that began before this one, in their order.

    Args:
        output: the folder that the runs share.
        this_run: the name of this run, which may be resumed.
    """
    return tuple(name for name in runs_in(output) if name < this_run)


def new_run(output: str, now: datetime) -> str:
    """A name for a run that begins now, after all that are in a folder, though the clock was set back.

    The order of names is that of runs: it says which run goes on, and how many there were before.

    Args:
        output: the folder that the runs share.
        now: the clock.
    """
    begun = [datetime.fromtimestamp(begun_at(name) / 1000, UTC) for name in runs_in(output)]
    return run_name(max([now, *(time + timedelta(seconds=1) for time in begun)]))


def runs_in(output: str) -> list[str]:
    """The names of the runs in a folder, in their order; a person may have put other folders there."""
    with named_in_errors(output):
        return [name for name in RUN.runs(output) if re.match(r"\d{8}T\d{6}Z-", name)]


def _closed(study: Study, output: str, run: str, window: OpenWindow) -> bool:
    """Whether a run wrote an on-time or late pane of a window."""
    return any(
        snapshot.pane_timing != EARLY
        for attribute in study.estimated
        if attribute_of(attribute) == window.attribute
        for snapshot in last_pane(study, output, run, attribute, (window.start, window.end))
    )


def read_run_accounting(job: StreamJob) -> dict[str, Any]:
    """The accounting of a run; all counts are 0 if no report has come."""
    return ACCOUNTING.read(job.folder) or accounting([])
