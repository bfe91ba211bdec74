"""A run that reads dead letters again into the folder of a stream: one of the runs that share it.

A folder has one such run. Started again it replaces its own files, whatever it read before, so a letter
counts once. Its statistics are of its own reports; its estimates are of whole windows, with what other runs
have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ldpbeam.answers.rolled_up import rolled_up
from ldpbeam.errors import UserError
from ldpbeam.folders.output import RUN, STATISTICS, Output, names_in
from ldpbeam.folders.written import run_name, snapshots_in, windows_of
from ldpbeam.pipelines.runs.ownership import STREAMS, Sharing
from ldpbeam.pipelines.runs.scheduled import Scheduled
from ldpbeam.schemas.outputs.snapshots import LATE
from ldpbeam.study import Study
from ldpbeam.transforms.outputs.names import window_name
from ldpbeam.transforms.outputs.snapshots import write_window
from ldpbeam.transforms.storage import exists, read_json, write_json


@dataclass(frozen=True)
class AgainRun(Scheduled):
    """A run that reads the dead letters of the folders ``inputs`` into the folder of a stream."""

    sharing: ClassVar[Sharing] = STREAMS

    @property
    def name(self) -> str:
        """The run."""
        return self.run

    def called(self, name: str) -> str:
        """The name with the run in it, as those of streams have it."""
        stem, _, ending = name.rpartition(".")
        return f"{stem}.{self.run}.{ending}"

    def replaces(self, name: str) -> bool:
        """Whether a file is of this run, started before."""
        return f".{self.run}." in name

    def begin(self) -> None:
        """Write down which letters the files will hold, before any is in place."""
        self._say(complete=False)

    def end(self) -> None:
        """Say that all files are in place."""
        self._say(complete=True)

    def _say(self, *, complete: bool) -> None:
        about = {**STREAMS.mark_of(self), "run": self.run, "reads": ", ".join(self.inputs)}
        write_json(self.own.path(RUN), {**about, "input": list(self.inputs), "complete": complete})

    def check(self) -> None:
        """Check that the run can be in the folder, and reads all that it read before.

        Raises:
            UserError: if not.
        """
        for problem in _problems(self.study):
            raise UserError(f"--again into {self.output}, the folder of a stream: {problem}")
        path = self.own.path(RUN)
        before = read_json(path).get("input", []) if exists(path) else []
        if missing := set(before).difference(self.inputs):
            raise UserError(
                f"--again: the dead letters of {', '.join(sorted(missing))} have been read into "
                f"{self.output}, and would be lost: name these folders, too"
            )

    def __str__(self) -> str:
        """Where its files are, as a sentence."""
        return (
            f"the statistics of these records are in {self.output} as run {self.run}, and its estimates are "
            f"of whole windows, with the other runs there; the accounting is in {self.own.output}"
        )


def run_of(study: Study, output: str, folders: Sequence[str]) -> AgainRun:
    """The run that reads the dead letters of some folders into the folder of a stream.

    Args:
        study: today's study.
        output: the folder of the stream.
        folders: the folders of dead letters, by their real paths.
    """
    return AgainRun(study, output, f"again-{run_name(study, ())}", inputs=tuple(sorted(folders)))


def _problems(study: Study) -> list[str]:
    checked = {
        "its windows are joined, and users who are in both runs would not be": study.windows_joined > 1,
        "a ledger over periods would not have what users of these records spent": study.ledger is not None,
    }
    return [f"{problem}; name a folder of its own" for problem, applies in checked.items() if applies]


def with_other_runs(run: AgainRun) -> Output:
    """The windows of a run with the statistics of other runs in the folder, in a folder of their own.

    Raises:
        UserError: if a file is damaged, or another run has exactly the same reports of a window.
    """
    study, whole = run.study, Output(run.study, run.made.path("whole"), run.run)
    names = [name for name in names_in(run.path(STATISTICS), "*.avro") if not run.replaces(name)]
    for snapshots in windows_of(run.made):
        start = f"{window_name(study.name, snapshots[0].attribute, snapshots[0].window)}."
        paths = [run.path(STATISTICS, name) for name in names if name.startswith(start)]
        others = [(path, snapshot) for path in paths for snapshot in snapshots_in(path)]
        if others:
            merged = rolled_up(study, [*others, *(("these records", own) for own in snapshots)]).snapshots
            pane = 1 + max(snapshot.pane_index for _, snapshot in others)
            snapshots = [replace(each, pane_index=pane, pane_timing=LATE) for each in merged]
        write_window(study, whole.path(STATISTICS), run.run, snapshots)
    return whole
