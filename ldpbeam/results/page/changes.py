"""What changed: the last window beside the one before, and the two groups with the most reports."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam import words
from ldpbeam.answers.between import PairComparison, between_groups, between_windows
from ldpbeam.answers.difference import Difference
from ldpbeam.charts.figures import Table
from ldpbeam.charts.subject import Subject, Subset, state_of
from ldpbeam.results.page.html import Part
from ldpbeam.study import Study

#: A table has at most this many differences, those beyond their error first.
MOST_ROWS = 40


def changes_of(subject: Subject, study: Study | None) -> Iterator[Part]:
    """The differences of an attribute's last two complete windows, and of two groups of the last one.

    Args:
        subject: the estimates of the attribute.
        study: their study; None if it is not known, so that clients may remember their noise.
    """
    subject = subject.over_time
    windows = sorted(
        {
            (subset.start, subset.end)
            for subset, records in subject.subsets.items()
            if subset.start and subset.end and any(state_of(record) == "complete" for record in records)
        }
    )
    if len(windows) > 1:
        first, second = windows[-2:]
        between = between_windows(subject.records, study, "/".join(first), "/".join(second))
        yield from _part(
            f"From {words.window(*first)} to {words.window(*second)}", ("before", "after"), between
        )
    last = [subset for subset in subject.subsets if not windows or (subset.start, subset.end) == windows[-1]]
    groups = [subset for subset in last if subset.group is not None and not subset.other_groups][:2]
    if len(groups) == 2:
        one, two = groups
        records = [record for subset in groups for record in subject.subsets[subset]]
        between = between_groups(records, study, one.group, two.group)
        where = f", {one.window}" if one.window else ""
        yield from _part(f"{_short(two)} beside {_short(one)}{where}", (_short(one), _short(two)), between)


def _short(subset: Subset) -> str:
    """A group's name as the heading of a column."""
    name = subset.group_name
    return name if len(name) <= 24 else f"{name[:23]}…"


def _part(title: str, sides: tuple[str, str], between: PairComparison) -> Iterator[Part]:
    differences = [
        difference
        for difference in between.comparison.differences
        if not difference.number.startswith("share in ")
    ]
    if not differences:
        return
    beyond = sum(difference.beyond for difference in differences)
    shown = sorted(differences, key=lambda difference: not difference.beyond)[:MOST_ROWS]
    left_out = len(differences) - len(shown)
    # Two groups beside each other are named by their columns.
    with_group = any(
        (row.key.group, row.key.rest) == (row.other_key.group, row.other_key.rest)
        and (row.key.group or row.key.rest)
        for row in shown
    )
    names = [
        "estimate",
        *(["group"] if with_group else []),
        "number",
        *sides,
        "difference",
        "interval",
        "beyond error",
    ]
    yield Part(
        title,
        [
            f"{beyond:,} of {words.counted(len(differences), 'number')} "
            f"{'differs' if beyond == 1 else 'differ'} by more than the error"
            + (f"; {left_out:,} more are in ldpbeam diff." if left_out else "."),
            *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in between.sentences),
        ],
        Table(
            names,
            [_row(difference, with_group) for difference in shown],
            frozenset((*sides, "difference", "interval")),
        ),
    )


def _row(difference: Difference, with_group: bool) -> list[str]:
    low, high = difference.low, difference.high
    group = "other groups" if difference.key.rest else difference.key.group or ""
    return [
        difference.key.name,
        *([group] if with_group else []),
        difference.number,
        words.number(difference.first),
        words.number(difference.second),
        words.number(difference.second - difference.first),
        words.interval(None if low is None or high is None else (low, high)),
        "yes" if difference.beyond else "flagged" if difference.flag else "",
    ]
