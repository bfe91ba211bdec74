"""Compares the windows before and after a time: the statistics of each side are added up and estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ldpbeam.answers.between import FOR_THE_PEOPLE, PairComparison, Side, between
from ldpbeam.answers.difference import largest_first
from ldpbeam.answers.named_numbers import normal_quantile
from ldpbeam.answers.rolled_up import rolled_up
from ldpbeam.answers.solve import solved
from ldpbeam.certainty import Ends
from ldpbeam.intervals.answer import each_level
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.windows import EVERYTHING, Bounds, Span, times_of
from ldpbeam.words import counted

#: Snapshots, each with the file that it is from.
Given = Sequence[tuple[str, Snapshot]]
#: What the two sides are called.
SIDES = ("before", "after")
FOR_POPULATIONS = (
    "intervals are for the populations that people were drawn from, as if different people had reported on "
    "each side and in each window: where the same people did, they are wider than necessary"
)


def before_after(study: Study, given: Given, time: int, within: Span = EVERYTHING) -> PairComparison:
    """All windows from a time on minus all windows that end by it; one that contains the time is left out.

    Args:
        study: the study.
        given: the statistics of its windows.
        time: the time, in epoch milliseconds.
        within: windows outside are left out.

    Raises:
        ValueError: if there is no window on a side.
        UserError: if statistics cannot be added up, such as those of windows that slide.
    """
    windows = {window for _, snapshot in given if (window := snapshot.window) and within.holds(window)}
    sides = [window for window in windows if window[1] <= time], [w for w in windows if w[0] >= time]
    if not windows:
        raise ValueError("the estimates have no windows, so nothing is before or after a time")
    if not all(sides):
        which = "ends by" if not sides[0] else "begins at or after"
        raise ValueError(
            f"no window {which} the time; the windows are {times_of(_whole(windows), study.clock)}"
        )
    cut = _windows(given) & windows - {*sides[0], *sides[1]}
    said = [
        f"{times_of(window, study.clock)} spans the time, so it is on neither side" for window in sorted(cut)
    ]
    parts = [[one for one in given if one[1].window in side] for side in map(set, sides)]
    return compared_sides((study, parts[0]), (study, parts[1]), said)


def compared_sides(
    first: tuple[Study, Given], second: tuple[Study, Given], said: Sequence[str] = ()
) -> PairComparison:
    """The second of two sides minus the first, each added up; what is certain first, and the largest.

    Args:
        first: the study of a side, and the statistics of its windows.
        second: those of the other.
        said: sentences about what is compared.

    Raises:
        UserError: if the statistics of a side cannot be added up.
    """
    sides = [
        {key: of_a_population(record) for key, record in _added_up(*side).items()} for side in (first, second)
    ]
    answer = between([(sides[0], sides[1])], first[0])
    spans = [_span_of(name, *side) for name, side in zip(SIDES, (first, second), strict=True)]
    others = (sentence for sentence in answer.sentences if sentence != FOR_THE_PEOPLE)
    about = (*spans, *said, FOR_POPULATIONS, *others)
    rows = largest_first(answer.comparison.differences)
    comparison = replace(answer.comparison, differences=tuple(rows))
    return replace(answer, comparison=comparison, sentences=about)


def _whole(windows: Sequence[Bounds] | set[Bounds]) -> Bounds:
    return min(start for start, _ in windows), max(end for _, end in windows)


def _windows(given: Given) -> set[Bounds]:
    return {window for _, snapshot in given if (window := snapshot.window) and not snapshot.joined}


def _span_of(name: str, study: Study, given: Given) -> str:
    windows = _windows(given)
    return f"{name}: {counted(len(windows), 'window')}, {times_of(_whole(windows), study.clock)}"


def _added_up(study: Study, given: Given) -> Side:
    """The estimates of all windows together, by attribute, name and group."""
    whole = _whole(_windows(given))
    # The windows of a side may be those of a longer one, in which the study joins users.
    longer = study.windows.cells(study.windows.joined) if study.windows and study.windows.joined else None
    cells = longer if longer and longer.holding(whole[0]) == whole else None
    records, _ = solved(study, rolled_up(study, given, cells=cells).snapshots)
    return {(record.attribute, record.name, record.group, record.key.rest): record for record in records}


def of_a_population(record: EstimateRecord) -> EstimateRecord:
    """The estimate, whose intervals of shares have the error of drawing the people, too.

    Those of numbers come from how reports are spread, which has it.
    """
    if record.intervals is None or (certain := record.intervals.of("frequencies")) is None:
        return record
    ends = certain.T
    shares = np.clip(record.frequencies or (), ends[0], ends[1])
    level = each_level(record.intervals.level, len(shares), record.intervals.simultaneous)
    drawn = normal_quantile(0.5 + level / 2) * np.sqrt(
        np.clip(shares * (1.0 - shares), 0.0, None) / max(record.users or record.reports, 1)
    )
    added = np.add if record.intervals.liars else np.hypot
    widened = shares + [[-1.0], [1.0]] * added(np.abs(ends - shares), drawn)
    wider = record.intervals.ends["certain"] | {"frequencies": Ends.of(widened.T)}
    return replace(record, intervals=replace(record.intervals, ends={"certain": wider}, narrowest=None))
