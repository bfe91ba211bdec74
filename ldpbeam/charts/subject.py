"""The estimates of one attribute, by window and group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ldpbeam import words
from ldpbeam.schemas.outputs.records import EstimateRecord, ManyEnds


class Subset(NamedTuple):
    """The window and the group of an estimate; None for no windows and for no groups."""

    start: str | None
    end: str | None
    group: str | None
    other_groups: int

    @classmethod
    def of(cls, record: EstimateRecord) -> Subset:
        """The subset of an estimate."""
        return cls(record.window_start, record.window_end, record.group, record.other_groups)

    @property
    def window(self) -> str:
        """The window in words; empty without windows."""
        return words.window(self.start, self.end) if self.start and self.end else ""

    @property
    def group_name(self) -> str:
        """The group, or how many groups are added up; empty without groups."""
        return words.counted(self.other_groups, "other group") if self.other_groups else self.group or ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.group_name, self.window) if part)


@dataclass(frozen=True)
class Subject:
    """The estimates of one attribute.

    Attributes:
        name: the attribute.
        records: its estimates, with at least one.
        most_panels: a figure has at most this many panels.
    """

    name: str
    records: Sequence[EstimateRecord]
    most_panels: int = 12

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each estimate, by its name: the name, the estimator and the services."""
        return {
            record.name: f"{record.name} ({record.estimator} of {_services(record.services)})"
            for record in self.records
        }

    @cached_property
    def subsets(self) -> dict[Subset, list[EstimateRecord]]:
        """The estimates of each window and group, by time and then by the number of reports."""
        by_subset: dict[Subset, list[EstimateRecord]] = {}
        for record in self.records:
            by_subset.setdefault(Subset.of(record), []).append(record)
        reports = {subset: max(record.reports for record in records) for subset, records in by_subset.items()}
        order = sorted(
            by_subset,
            key=lambda subset: (
                subset.start or "",
                subset.end or "",
                bool(subset.other_groups),
                -reports[subset],
            ),
        )
        return {subset: by_subset[subset] for subset in order}

    @cached_property
    def over_time(self) -> Subject:
        """The estimates that follow each other in time: without those of longer windows, unless all are."""
        single = [record for record in self.records if not record.joined]
        return Subject(self.name, single or self.records, self.most_panels)

    @property
    def windows(self) -> list[str]:
        """The starts of the windows, in order; empty without windows."""
        return sorted({subset.start for subset in self.subsets if subset.start})


def state_of(record: EstimateRecord) -> str:
    """Whether a window is ``complete``, ``early``, ``incomplete`` or ``partial``."""
    if record.pane_timing == "early":
        return "early"
    if not record.complete:
        return "incomplete"
    return "complete" if record.partial is None else "partial"


#: What a reader must know about a window that is not complete.
STATES = {
    "early": "early: the window had not closed",
    "incomplete": "incomplete: reports of this window may be missing",
    "partial": "partial: it has less than half of the usual reports, and may hold a part of its time",
}


def many(record: EstimateRecord, part: str) -> ManyEnds | None:
    """The intervals of a part of an estimate that has many of them, as ``distribution``."""
    return None if record.intervals is None else getattr(record.intervals, part)


def by_label(record: EstimateRecord, part: str) -> dict[str, float]:
    """The numbers of a part of an estimate, as ``frequencies``, by category or key; empty without any."""
    values: Sequence[float] | None = getattr(record, part)
    return {} if values is None else dict(zip(record.labels or (), values, strict=True))


def mean_ends(record: EstimateRecord) -> tuple[float, float] | None:
    """The interval of the mean; None without one."""
    ends = None if record.intervals is None else record.intervals.mean
    return None if ends is None else (ends.low, ends.high)


def level_of(records: Sequence[EstimateRecord]) -> str:
    """The level of the intervals, as in 95%; empty if no estimate has intervals."""
    levels = (f"{100 * record.intervals.level:g}%" for record in records if record.intervals is not None)
    return next(levels, "")


def banded(records: Sequence[EstimateRecord]) -> set[str]:
    """The names of the estimates whose intervals are drawn: one per set of services.

    Intervals are of the number and not of the estimator, so that the others have the same.
    """
    first: dict[tuple[str, ...], str] = {}
    for record in records:
        first.setdefault(record.services, record.name)
    return {*first.values()}


def _services(services: Sequence[str]) -> str:
    return words.listed(services) if len(services) <= 3 else f"{len(services)} services"
