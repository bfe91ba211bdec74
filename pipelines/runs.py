"""Runs of a stream share an output folder: whose it is, and what earlier runs left open."""

from __future__ import annotations

import json
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from ldpbeam.pipelines.errors import UserError
from ldpbeam.pipelines.output import ACCOUNTING, RUN, STATISTICS, files_in
from ldpbeam.pipelines.stream import StreamJob
from ldpbeam.schemas.compiled import attribute_of
from ldpbeam.schemas.snapshots import read_snapshots
from ldpbeam.schemas.study import Study
from ldpbeam.schemas.study_file import fingerprint
from ldpbeam.transforms.counts import accounting
from ldpbeam.transforms.journal import RUNS, OpenWindow, named_windows
from ldpbeam.transforms.panes import EARLY
from ldpbeam.transforms.write import make_folder, opened, snapshot_name, write_bytes

#: In a run's folder: the windows that earlier runs left open.
INCOMPLETE = "incomplete.json"


def claim_for_stream(job: StreamJob) -> None:
    """See that the output folder is a stream's of this study, or can be; make the run's folder in it.

    Raises:
        UserError: if it holds something else, or cannot be written.
    """
    place = f"--output {job.output or repr(job.output)}"
    about = {"kind": "stream", "study": job.study.study, "study_fingerprint": fingerprint(job.study)}
    try:
        entries = files_in(job.output, "*") if job.output else []
        before = _read_json(job.path(RUN)) if FileSystems.exists(job.path(RUN)) else None
        if before is not None and before != about:
            raise UserError(
                f"{place}: it holds other outputs (of study {before.get('study')!r}, or another version of "
                "this one); name another folder"
            )
        if before is None and entries:
            raise UserError(f"{place}: the folder is not empty, and not written by ldpbeam stream")
        make_folder(job.path(RUNS))
        make_folder(job.of_run(""))
        write_bytes(job.path(RUN), _lines(about))
        write_bytes(job.of_run(RUN), _lines({**about, "run": job.run, "reads": job.feed.name}))
        if job.incomplete:
            left = [window._asdict() for window in sorted(job.incomplete)]
            write_bytes(job.of_run(INCOMPLETE), _lines({"windows": left}))
    except (BeamIOError, OSError, ValueError) as error:
        raise UserError(f"{place}: {error}") from None


def _read_json(path: str) -> dict[str, Any]:
    with opened(path) as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def _lines(record: dict[str, Any]) -> bytes:
    return json.dumps(record, indent=2).encode() + b"\n"


def incomplete_windows(study: Study, output: str) -> frozenset[OpenWindow]:
    """The windows that earlier runs named as open and never said anything of, on time or late."""
    found: set[OpenWindow] = set()
    if not output or not FileSystems.exists(output):
        return frozenset()
    for entry in files_in(FileSystems.join(output, RUNS), "*/journal-*.json"):
        run = FileSystems.split(FileSystems.split(entry.path)[0])[1]
        found |= {window for window in named_windows(output, run) if not _closed(study, output, run, window)}
    return frozenset(found)


def _closed(study: Study, output: str, run: str, window: OpenWindow) -> bool:
    """Whether a run wrote a pane of a window after it had closed."""
    for attribute in study.estimated:
        name = snapshot_name(study.study, attribute, (window.start, window.end), run)
        path = FileSystems.join(output, STATISTICS, name)
        if attribute_of(attribute) == window.attribute and FileSystems.exists(path):
            with opened(path) as stream:
                if any(snapshot.pane_timing != EARLY for snapshot in read_snapshots(stream)):
                    return True
    return False


def read_run_accounting(job: StreamJob) -> dict[str, Any]:
    """The accounting of a run; all zeros where nothing came."""
    path = job.of_run(ACCOUNTING)
    return _read_json(path) if FileSystems.exists(path) else dict(accounting([]))
