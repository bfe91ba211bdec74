"""The estimates of one attribute, by window and group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ldpbeam import words
from ldpbeam.answers.named_numbers import numbers_of
from ldpbeam.cells import Clock
from ldpbeam.certainty import CERTAIN, IF_SMOOTH
from ldpbeam.domains import Floats
from ldpbeam.schemas.outputs.records import EstimateRecord, FitEntry
from ldpbeam.times import milliseconds

#: A figure has at most this many panels, and of one group this many windows.
MOST_PANELS, MOST_WINDOWS = 12, 2


@dataclass(frozen=True)
class Subset:
    """The window and the group of an estimate; None for no windows and for no groups."""

    start: str | None
    end: str | None
    group: str | None
    other_groups: int
    name: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, record: EstimateRecord) -> Subset:
        """The subset of an estimate."""
        return cls(
            record.window_start, record.window_end, record.group, record.other_groups, record.window_name
        )

    @classmethod
    def of_test(cls, test: FitEntry, clock: Clock | None) -> Subset:
        """The subset of a test of fit."""
        start, end = test.window_start, test.window_end
        name = span_name(start, end, clock) if start and end else None
        return cls(start, end, test.group, int(test.other_groups), name)

    @property
    def window(self) -> str:
        """The window in words; empty without windows."""
        return self.name or (words.window(self.start, self.end) if self.start and self.end else "")

    @property
    def group_name(self) -> str:
        """The group, or how many groups are added up; empty without groups."""
        return words.counted(self.other_groups, "other group") if self.other_groups else self.group or ""

    @property
    def label(self) -> str:
        """The name that stands for the group in all windows."""
        return "other groups" if self.other_groups else self.group or "no group"

    @property
    def when(self) -> str:
        """When the window starts, in words; empty without windows."""
        return self.window.partition(" to ")[0]

    @property
    def short(self) -> str:
        """The group, and when the window starts."""
        return ", ".join(part for part in (self.group_name, self.when) if part)

    def __str__(self) -> str:
        return ", ".join(part for part in (self.group_name, self.window) if part)


class Panel(NamedTuple):
    """What one panel of a figure draws: a group in a window, which may have no estimate."""

    group: str
    window: str
    records: Sequence[EstimateRecord]

    @property
    def title(self) -> str:
        """The title; empty without windows and groups."""
        state = state_of(self.records[0]) if self.records else "no estimate"
        window = f"{self.window} ({state})" if state != "complete" else self.window
        return "\n".join(line for line in (self.group, window) if line)


@dataclass(frozen=True)
class Subject:
    """The estimates of one attribute.

    Attributes:
        name: the attribute.
        records: its estimates, with at least one.
        clock: by which charts show times; None for UTC.
        events: times that are marked, by name, in epoch milliseconds.
    """

    name: str
    records: Sequence[EstimateRecord]
    clock: Clock | None = None
    events: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each estimate, by its name: the name, the estimator and the services."""
        return {
            record.name: f"{record.name} ({record.estimator} of {_services(record.services)})"
            for record in self.records
        }

    @cached_property
    def groups(self) -> list[str]:
        """The groups, in the one order that they have everywhere: by their reports, other ones last."""
        reports: Counter[tuple[bool, str]] = Counter()
        for record in self.records:
            reports[record.other_groups > 0, Subset.of(record).label] += record.reports
        return list(dict.fromkeys(name for _, name in sorted(reports, key=lambda g: (g[0], -reports[g], g))))

    @property
    def by_group(self) -> bool:
        """Whether there are several groups."""
        return len(self.groups) > 1

    def group_of(self, record: EstimateRecord) -> str:
        """The heading of the panel of a group; empty where there is only one."""
        return Subset.of(record).label if self.by_group else ""

    @cached_property
    def subsets(self) -> dict[Subset, list[EstimateRecord]]:
        """The estimates of each window and group, by time and then in the order of the groups."""
        by_subset: dict[Subset, list[EstimateRecord]] = {}
        for record in self.records:
            by_subset.setdefault(Subset.of(record), []).append(record)
        order = sorted(
            by_subset, key=lambda own: (own.start or "", own.end or "", self.groups.index(own.label))
        )
        return {subset: by_subset[subset] for subset in order}

    @cached_property
    def over_time(self) -> Subject:
        """The estimates that follow each other in time: without those of longer windows, unless all are."""
        single = [record for record in self.records if not record.joined]
        return replace(self, records=single or self.records)

    @property
    def windows(self) -> list[str]:
        """The starts of the windows, in order; empty without windows."""
        return sorted({subset.start for subset in self.subsets if subset.start})

    def panels(self, wanted: Callable[[EstimateRecord], object]) -> tuple[list[Panel], list[str]]:
        """A panel for each of the largest groups in each of the latest windows, and what is left out.

        Args:
            wanted: whether an estimate has what the panels show.
        """
        chosen = [(Subset.of(record), record) for record in self.records if wanted(record)]
        groups = [label for label in self.groups if any(own.label == label for own, _ in chosen)]
        # A longer window, whose users are joined, comes after the windows inside: it ends with the last one.
        windows = {(own.end or "", own.start or ""): own.window for own, _ in chosen}
        kept = sorted(windows)[-min(MOST_WINDOWS, MOST_PANELS // min(len(groups) or 1, MOST_PANELS)) :]
        panels = [
            Panel(
                group if self.by_group else "",
                windows[end, start],
                [
                    record
                    for own, record in chosen
                    if (own.end or "", own.start or "", own.label) == (end, start, group)
                ],
            )
            for group in groups[:MOST_PANELS]
            for end, start in kept
        ]
        states = dict.fromkeys(state_of(record) for panel in panels for record in panel.records)
        said = [f"{STATES[state].capitalize()}." for state in states if state in STATES]
        if len(kept) < len(windows):
            which = "last" if len(kept) == 1 else f"last {len(kept)}"
            said.append(f"The {which} of {len(windows):,} windows.")
        if len(groups) > MOST_PANELS:
            said.append(f"The {MOST_PANELS} largest of {len(groups):,} groups.")
        return panels, said


def span_name(start: str, end: str, clock: Clock | None) -> str:
    """The time between two others in words, by a clock or else in UTC."""
    bounds = milliseconds(start), milliseconds(end)
    return words.window(start, end) if clock is None else clock.name(bounds)


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
    "flagged": "flagged: a warning above names it",
    "unusual": "unusual: it differs from the windows before",
}


def ends_of(record: EstimateRecord, part: str, condition: str = IF_SMOOTH) -> Floats | None:
    """The ends of the intervals of a part of an estimate, shape (numbers, 2); None if it has none."""
    return None if record.intervals is None else record.intervals.of(part, condition)


def flag_of(record: EstimateRecord, part: str) -> str:
    """Why the intervals of a part of an estimate may be wrong; empty if nothing says so."""
    if record.intervals is None:
        return ""
    flags, smooth = record.intervals.flags, part in record.intervals.ends.get(IF_SMOOTH, {})
    return (flags.get(IF_SMOOTH, "") if smooth else "") or flags.get(CERTAIN, "")


def mean_ends(record: EstimateRecord) -> tuple[float, float] | None:
    """The interval of the mean; None without one."""
    low, high = next(numbers_of(record)).under(IF_SMOOTH)[0].tolist()
    return None if np.isnan(low) else (low, high)


def pair(ends: Floats | None, place: int) -> tuple[float, float] | None:
    """The low and the high end of one interval of many; None without them."""
    return None if ends is None else (float(ends[place, 0]), float(ends[place, 1]))


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
