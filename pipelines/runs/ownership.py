"""Which run owns an output folder, and which other runs may write to it.

The folder's ``run.json`` names its owner. Three kinds of runs write to folders, and :class:`Sharing` says how
they differ: a run that shares its folder with nobody, scheduled runs of one study, and streams of one study.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldpbeam.cells import rules_version
from ldpbeam.errors import UserError
from ldpbeam.folders.output import (
    DEAD_LETTERS,
    FORMAT,
    RUN,
    RUNS,
    STATISTICS,
    STUDY,
    Output,
    named_in_errors,
    names_in,
)
from ldpbeam.folders.written import clear, keep_study, sweep
from ldpbeam.pipelines.runs.locks import LOCK, locked
from ldpbeam.transforms.storage import delete, exists, join, make_folder, read_json, write_json


@dataclass(frozen=True)
class Sharing:
    """The runs that may share an output folder.

    Attributes:
        kind: the field ``kind`` of their ``run.json``; None if it has none.
        mark: the fields of ``run.json`` that identify the folder's owner.
        same: those of them that are equal for all runs that may share the folder.
        alone: whether a run keeps all others out while it writes.
    """

    kind: str | None
    mark: tuple[str, ...]
    same: tuple[str, ...]
    alone: bool = False

    def mark_of(self, job: Output) -> dict[str, Any]:
        """The fields of ``run.json`` for a folder of this run."""
        kind = {} if self.kind is None else {"kind": self.kind}
        fields = [field for field in (*self.mark, "zone_rules", "tzdata") if field in job.about]
        return kind | {field: job.about[field] for field in fields} | {"format": FORMAT}

    def includes(self, mark: Mapping[str, Any], job: Output) -> bool:
        """Whether a run may write to a folder with this ``run.json``."""
        wanted = self.mark_of(job)
        rules = () if self.alone else ("zone_rules",)
        return all(mark.get(field) == wanted.get(field) for field in ("kind", *self.same, *rules))


#: A run that has the folder for itself; the same run may replace its own outputs.
NOBODY = Sharing(None, ("run", "study", "study_fingerprint"), ("run",), alone=True)
#: Scheduled runs of a study, each with a span of its own; all have the name of the first.
SCHEDULED_RUNS = Sharing("scheduled", ("run", "study", "study_fingerprint"), ("study_fingerprint",))
#: Streams of a study, each with a name of its own.
STREAMS = Sharing("stream", ("study", "study_fingerprint"), ("study", "study_fingerprint"))


def is_of_streams(output: str) -> bool:
    """Whether an output folder is one that streams share."""
    return (_mark(output) or {}).get("kind") == STREAMS.kind


def owner(job: Output, sharing: Sharing, overwrite: bool = False) -> str | None:
    """Check that a run may write to its output folder.

    Args:
        job: the run.
        sharing: the runs that it shares the folder with.
        overwrite: whether the run may replace outputs of runs that it does not share the folder with.

    Returns:
        The name of the run that owns the folder, empty for streams. None if no run owns it yet, or if the
        outputs of another run are to be replaced.

    Raises:
        UserError: if the folder holds another run's outputs or files that no run wrote, or cannot be used.
    """
    option = f"--output {job.output or repr(job.output)}"
    if not job.output or ("://" not in job.output and Path(job.output).is_file()):
        raise UserError(f"{option}: a folder is needed")
    with named_in_errors(job.output):
        names = names_in(job.output, "*")
        mark = _mark(job.output)
    if mark is not None and sharing.includes(mark, job):
        return str(mark.get("run", ""))
    if overwrite:
        return None
    if mark is not None:
        raise UserError(f"{option}: it holds {_holds(mark, job, sharing)}")
    # Ignored: the lock, and the run.json that a run starting at the same moment is writing.
    if any(not name.startswith(f".{RUN}.") and name != LOCK for name in names):
        raise UserError(f"{option}: {_FOREIGN_STREAM if sharing is STREAMS else _FOREIGN}")
    return None


_FOREIGN = (
    "the folder is not empty, and not written by ldpbeam estimate; name another one, or write beside what is "
    "there with --overwrite"
)
_FOREIGN_STREAM = "the folder is not empty, and not written by ldpbeam stream"
_OTHERWISE = "; name another folder, or replace them with --overwrite"


def _holds(mark: Mapping[str, Any], job: Output, sharing: Sharing) -> str:
    """What a folder with this ``run.json`` holds, and what the user can do about it."""
    study = f"of study {mark.get('study')!r}"
    clock, before = job.study.clock, mark.get("tzdata")
    if clock is not None and before and sharing.includes({**mark, "zone_rules": clock.fingerprint}, job):
        return (
            f"windows by other rules of {clock.zone}, those of tzdata {before}: this is {rules_version()}; "
            "install that version, or name another folder"
        )
    if sharing is STREAMS:
        return f"outputs of another kind of run, study or version ({study}); name another folder"
    if mark.get("kind") != SCHEDULED_RUNS.kind:
        unlike = ", which was not a scheduled one" if sharing is SCHEDULED_RUNS else ""
        return f"the outputs of another run ({study}){unlike}{_OTHERWISE}"
    if sharing is not SCHEDULED_RUNS:
        unlike = ", and this run is not one of them: it has no windows, --from or --to"
        return f"the scheduled runs {study}{unlike}{_OTHERWISE}"
    changed = " from before that study was changed" if mark.get("study") == job.study.name else ""
    return f"the scheduled runs {study}{changed}{_OTHERWISE}"


def _mark(output: str) -> dict[str, Any] | None:
    """The ``run.json`` of an output folder; None if it is missing or malformed."""
    with contextlib.suppress(ValueError):
        mark = read_json(join(output, RUN)) if exists(join(output, RUN)) else None
        return mark if isinstance(mark, dict) else None
    return None


@contextlib.contextmanager
def owned(
    job: Output,
    sharing: Sharing,
    *,
    overwrite: bool = False,
    inputs: Sequence[str] = (),
    at_once: bool = True,
) -> Iterator[None]:
    """Hold the output folder while a run writes to it, and name its owner in ``run.json``.

    A run that shares the folder with nobody deletes the last run's outputs first. Its ``run.json`` has the
    field ``complete``, which is false until the block ends without an error.

    Args:
        job: the run.
        sharing: the runs that it shares the folder with.
        overwrite: whether it may replace outputs of other runs; they are deleted first.
        inputs: what the run reads, for the ``run.json`` of a run that shares the folder with nobody.
        at_once: whether the runs that it shares the folder with may write while it does.

    Raises:
        UserError: if this run may not use the folder, or a run that does not share it writes there.
    """
    replaces = overwrite and not sharing.alone and owner(job, sharing, overwrite) is None
    with held(job.output, alone=sharing.alone or replaces or not at_once):
        if sharing.alone:
            with _alone(job, overwrite, inputs):
                yield
        else:
            with named_in_errors(job.output), one_at_a_time(job):
                _join(job, sharing, overwrite)
            yield


@contextlib.contextmanager
def _alone(job: Output, overwrite: bool, inputs: Sequence[str]) -> Iterator[None]:
    """Replace the outputs in the folder; after Ctrl-C none are left."""
    owner(job, NOBODY, overwrite)
    about = {**NOBODY.mark_of(job), "input": list(inputs)}
    with named_in_errors(job.output):
        # Write the mark first: a killed run then never looks complete.
        write_json(job.path(RUN), {**about, "complete": False})
        clear(job)
        # Runs that were killed leave half-written files; no other run writes here now.
        sweep([job.output, *map(job.path, (STATISTICS, DEAD_LETTERS))])
        keep_study(job)
    try:
        yield
    except KeyboardInterrupt:
        # The files left would look like the outputs of a run.
        clear(job)
        raise
    write_json(job.path(RUN), {**about, "complete": True})


def _join(job: Output, sharing: Sharing, overwrite: bool) -> None:
    """Write the ``run.json`` that gives the folder to this run and others, unless it is there already.

    Raises:
        UserError: if this run may not use the folder, or another run took it since it was checked.
    """
    mark, before = sharing.mark_of(job), owner(job, sharing, overwrite)
    if before is None:
        if overwrite:
            # As in _alone; the next run with --overwrite deletes the rest.
            delete([job.path(RUN)])
            clear(job)
        make_folder(job.output)
        write_json(job.path(RUN), mark)
    elif before != mark.get("run", ""):
        raise UserError(
            f"--output {job.output}: another scheduled run, of other input, began there at the same "
            "moment; start this one again"
        )
    if not exists(job.path(STUDY)):
        keep_study(job)


@contextlib.contextmanager
def one_at_a_time(job: Output) -> Iterator[None]:
    """Hold the lock on the files that runs share."""
    with locked(job.path(RUNS), alone=True, wait=True):
        yield


@contextlib.contextmanager
def held(folder: str, *, alone: bool) -> Iterator[None]:
    """Hold the lock of a folder; the folder is created if it does not exist.

    Raises:
        UserError: if another run holds the lock, or the folder cannot be created or written to.
    """
    with contextlib.ExitStack() as stack:
        with named_in_errors(folder):
            if not folder:
                raise ValueError("a folder is needed")
            stack.enter_context(locked(folder, alone=alone))
        yield
