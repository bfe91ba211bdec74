"""The estimates of one attribute, by window and group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam import words
from ldpbeam.answers.named_numbers import Numbers, numbers_of
from ldpbeam.cells import Clock
from ldpbeam.certainty import CERTAIN, IF_SMOOTH, LARGEST
from ldpbeam.domains import Floats
from ldpbeam.schemas.outputs.records import EstimateRecord, FitEntry
from ldpbeam.times import milliseconds

#: A figure has at most this many panels of groups, or of windows where there are no groups.
MOST_PANELS, MOST_WINDOWS = 12, 3
#: The median, as estimates name it.
MEDIAN = "quantile 0.5"


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

    def __str__(self) -> str:
        return ", ".join(part for part in (self.group_name, self.window) if part)


class Panel(NamedTuple):
    """What one panel of a figure draws: an estimate of a group, or of a window where there are no groups."""

    title: str
    record: EstimateRecord | None


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

    @cached_property
    def _names(self) -> list[str]:
        """The names of estimates, in the order of the study."""
        return list(dict.fromkeys(record.name for record in self.records))

    def title_of(self, record: EstimateRecord) -> str:
        """The group and the name of an estimate, each where there are several."""
        group = Subset.of(record).label if self.by_group else ""
        return ", ".join(filter(None, (group, record.name if len(self._names) > 1 else "")))

    @property
    def titles(self) -> list[str]:
        """The titles of all estimates, by group and then in the order of the study."""
        places = {
            self.title_of(record): (
                self.groups.index(Subset.of(record).label),
                self._names.index(record.name),
            )
            for record in self.records
        }
        return sorted(places, key=places.__getitem__)

    def only(self, wanted: Callable[[EstimateRecord], object]) -> Subject:
        """The estimates that have what is wanted."""
        return replace(self, records=[record for record in self.records if wanted(record)])

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

    @cached_property
    def centre(self) -> str:
        """The number that stands for all values: the mean, or on a scale the median.

        Clients perturb on the scale, which the ends of the median follow; few large values make the mean.
        """
        scaled = (own.bucket_edges and own.quantiles and on_scale(own.bucket_edges) for own in self.records)
        return MEDIAN if any(scaled) else "mean"

    @property
    def windows(self) -> list[str]:
        """The starts of the windows, in order; empty without windows."""
        return sorted({subset.start for subset in self.subsets if subset.start})

    @cached_property
    def now(self) -> Subset:
        """The subset of the last complete window, or of the last one if none is complete."""
        complete = [own for own, (first, *_) in self.subsets.items() if state_of(first) == "complete"]
        return max(complete or self.subsets, key=lambda own: (own.end or "", own.start or ""))

    @cached_property
    def _starts(self) -> list[datetime]:
        return [time for own in self.subsets for time in shown_times(own, self.clock)[:1]]

    def when(self, subset: Subset) -> str:
        """The window by the clock, as 19-25 Oct, without a year or a day of all; empty without windows."""
        if not subset.start or (self.clock is None and subset.name):
            return subset.window.partition(" (")[0]
        name = words.span(
            *shown_times(subset, self.clock), year=len({time.year for time in self._starts}) > 1
        )
        one_day = len({time.date() for time in self._starts}) == 1 < len(self.windows)
        return (name.partition(", ")[2] if one_day else "") or name

    def panels(self, wanted: Callable[[EstimateRecord], object]) -> tuple[list[Panel], list[str]]:
        """A panel for each of the largest groups in the last window, or for each of the last windows.

        Args:
            wanted: whether an estimate has what the panels show.

        Returns:
            The panels, and sentences on what they show and leave out.
        """
        subject = self.only(wanted)
        chosen = [(own, record) for own, records in subject.subsets.items() for record in records]
        # A longer window, whose users are joined, comes after the windows inside.
        windows = {(own.end or "", own.start or ""): own for own, _ in chosen}
        kept, said = sorted(windows)[-MOST_WINDOWS:], list[str]()
        if self.by_group and chosen:
            now = subject.now
            kept, said = [(now.end or "", now.start or "")], [f"{self.when(now)}."] * bool(now.start)
        elif len(windows) > MOST_WINDOWS:
            said = [f"The last {MOST_WINDOWS} of {len(windows):,} windows."]
        by_title = {
            (subject.title_of(record), own.end or "", own.start or ""): record for own, record in chosen
        }
        panels = [
            Panel(_titled((name, "" if self.by_group else self.when(windows[span])), record), record)
            for name in subject.titles
            for span in kept
            for record in [by_title.get((name, *span))]
        ]
        if len(panels) > MOST_PANELS:
            said.append(f"The first {MOST_PANELS} of {len(panels):,}.")
        panels = panels[:MOST_PANELS]
        states = dict.fromkeys(state_of(panel.record) for panel in panels if panel.record)
        return panels, [*said, *(f"{STATES[state].capitalize()}." for state in states if state in STATES)]


def _titled(parts: Sequence[str], record: EstimateRecord | None) -> str:
    title, state = "\n".join(filter(None, parts)), state_of(record) if record else "no estimate"
    return title if state == "complete" else f"{title}\n({state})".strip()


def shown_times(subset: Subset, clock: Clock | None) -> list[datetime]:
    """The start and the end of a window as clocks show them; none without windows."""
    if not subset.start or not subset.end:
        return []
    start, last = milliseconds(subset.start), milliseconds(subset.end) - 1
    shown = [start, last] if clock is None else clock.shows(np.array([start, last])).tolist()
    return [
        datetime.fromtimestamp(time / 1000, UTC).replace(tzinfo=None) for time in (shown[0], shown[1] + 1)
    ]


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
    "partial": "partial: it has less than half of the usual reports, and may cover only part of its time",
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


def noun_of(number: str) -> str:
    """What a reader calls a number."""
    return "median" if number == MEDIAN else number


def part_of(record: EstimateRecord, name: str) -> Numbers | None:
    """The number of an estimate by its name; None if it has not this number."""
    for part in numbers_of(record):
        if name in part.names:
            return part.only(part.names.index(name))
    return None


def surest(number: Numbers) -> tuple[float, float] | None:
    """The certain interval of a number, or else that of smooth people; None without one.

    That of one of the largest shares holds for the largest.
    """
    return number.interval(LARGEST if CERTAIN in number.ends else IF_SMOOTH)


def on_scale(edges: ArrayLike) -> bool:
    """Whether buckets differ in width, so that the domain has a scale."""
    widths = np.diff(edges)
    return bool(widths.max() > 1.01 * widths.min())


def level_of(records: Sequence[EstimateRecord]) -> str:
    """The level of the intervals, as in 95%; empty if no estimate has intervals."""
    levels = (f"{100 * record.intervals.level:g}%" for record in records if record.intervals is not None)
    return next(levels, "")
