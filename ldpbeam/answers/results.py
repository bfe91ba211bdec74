"""The results in an output folder: estimates, and of each run that wrote there what became of its reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from ldpbeam.schemas.outputs.records import (
    Accounting,
    EstimateRecord,
    Fit,
    LedgerEntry,
    PeriodEntry,
    RunRecord,
)
from ldpbeam.windows import Bounds

if TYPE_CHECKING:
    from ldpbeam.cells import Clock
    from ldpbeam.study import Study

#: ``batch`` is a run that has its folder for itself, ``rollup`` one that merged the statistics of others.
FolderKind = Literal["batch", "rollup", "scheduled", "stream"]


@dataclass(frozen=True)
class RunResults:
    """What one run left, besides estimates.

    Attributes:
        about: its ``run.json``.
        folder: where the run's own files are: the output folder, or below it where runs share one.
        finished: whether the run wrote everything; None of a stream, which may be running.
        accounting: what became of its reports; None of a roll-up, which reads none.
        ledger: what users spent; empty where their reports are not brought together, and of streams.
        fit: tests of whether the reports are what the study claims; of a stream, those of its panes.
    """

    about: RunRecord
    folder: str
    finished: bool | None
    accounting: Accounting | None
    ledger: tuple[LedgerEntry, ...]
    fit: Fit | None


class WindowResult(NamedTuple):
    """A window of an attribute, as a run wrote it last.

    Attributes:
        attribute: the attribute, or ``attribute.coordinate`` of a vector.
        window: (start, end) in epoch milliseconds.
        run: the run that wrote it.
        pane_index: the number of earlier panes.
        pane_timing: ``early`` if the window had not closed, ``on_time`` or ``late``.
        complete: whether no report that was read is known to be missing.
    """

    attribute: str
    window: Bounds
    run: str
    pane_index: int
    pane_timing: str
    complete: bool


@dataclass(frozen=True)
class Results:
    """What is in an output folder.

    Attributes:
        folder: the folder.
        kind: which kind of runs wrote it.
        about: the folder's ``run.json``.
        read_study: reads the study that the folder holds, which takes longer than all the rest: it gives what
            ``study`` and ``study_problem`` are.
        runs: the runs that wrote it, in the order of their names: one, or several that share the folder.
        estimates: the estimates, by attribute and window. Two runs of a stream may both have one window.
        periods: what users spent in each period of the ledger, when it was last added up.
    """

    folder: str
    kind: FolderKind
    about: RunRecord
    read_study: Callable[[], tuple[Study | None, str]]
    runs: tuple[RunResults, ...]
    estimates: tuple[EstimateRecord, ...]
    periods: tuple[PeriodEntry, ...] = ()

    @cached_property
    def _held(self) -> tuple[Study | None, str]:
        return self.read_study()

    @property
    def study(self) -> Study | None:
        """The study; None if the folder does not hold it, or holds one that cannot be read here."""
        return self._held[0]

    @property
    def clock(self) -> Clock | None:
        """By which the study's windows are named; None if by UTC, or without the study."""
        return None if self.study is None else self.study.clock

    @property
    def study_problem(self) -> str:
        """Why the study that the folder holds cannot be read; empty if it can, or there is none."""
        return self._held[1]

    @cached_property
    def windows(self) -> tuple[WindowResult, ...]:
        """The windows of all attributes, in the order of the estimates; none without windows."""
        windows = (
            WindowResult(*(getattr(record, name) for name in WindowResult._fields))
            for record in self.estimates
            if record.window is not None
        )
        return tuple(dict.fromkeys(windows))

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The accounting of all runs, added up, by the names of :class:`Accounting`; empty of a roll-up."""
        total: Counter[str] = Counter()
        for run in self.runs:
            for name, value in vars(run.accounting).items() if run.accounting else ():
                if isinstance(value, int):
                    total[name] += value
        return dict(total)

    @cached_property
    def dead_letters_by_reason(self) -> Mapping[str, int]:
        """The number of reports for each reason of dead letters, of all runs, in the order of the reasons."""
        total: Counter[str] = Counter()
        for run in self.runs:
            total.update(run.accounting.dead_letters_by_reason if run.accounting else {})
        return dict(sorted(total.items()))
