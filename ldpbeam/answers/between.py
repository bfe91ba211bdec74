"""Two windows or two groups of one result compared: the difference of each number, with an interval.

Intervals of estimates are for the people who reported, and so are those of differences. Given the values of
these people, the noise of two reports is independent, whoever sent them: variances add. Where clients
remember their noise, and where windows overlap, two sums over reports have noise in common whose covariance
is not negative, so that adding variances is too wide at most; for other numbers nothing is known, and
standard errors add (decision 50).
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ldpbeam.answers.alarms import DAY, HOUR
from ldpbeam.answers.difference import FALSE_ALARMS, Comparison, comparison
from ldpbeam.answers.named_numbers import by_key
from ldpbeam.cells import Clock, moment
from ldpbeam.errors import meant_or_known
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.times import MONTH
from ldpbeam.windows import Bounds, name_of
from ldpbeam.words import counted

if TYPE_CHECKING:
    from ldpbeam.study import Study

#: A message lists at most this many windows or groups.
_MOST_LISTED = 12
Side = dict[Hashable, EstimateRecord]
FOR_THE_PEOPLE = (
    "intervals are for the people who reported on each side, not for a larger population: the noise of "
    "different reports is independent, so variances add"
)


@dataclass(frozen=True)
class PairComparison:
    """Two windows or two groups of one result.

    Attributes:
        comparison: what they have in common, and what is in one only.
        level: at which the intervals of a family hold together.
        sentences: what the intervals are for, and what could not be known.
    """

    comparison: Comparison
    level: float
    sentences: tuple[str, ...]


def between_windows(
    records: Iterable[EstimateRecord], study: Study | None, first: str, second: str
) -> PairComparison:
    """The second window minus the first, for each attribute, estimate and group.

    Args:
        records: the estimates of one result.
        study: their study; None if it is not known, so that clients may remember their noise.
        first: the start of a window, as RFC 3339 or by the study's clock, ``START/END``, or its name.
        second: another one. Windows of the same length are compared.

    Raises:
        ValueError: if one is the start of no window, or both are the same.
    """
    estimates = by_key(records).values()
    windows = sorted({record.window for record in estimates if record.window is not None})
    clock = None if study is None else study.clock
    one, two = (
        {_length(window): window for window in _windows(text, windows, clock)} for text in (first, second)
    )
    lengths = one.keys() & two.keys()
    if not lengths:
        raise ValueError(f"the windows from {first} and from {second} are of different lengths")
    if any(one[length] == two[length] for length in lengths):
        raise ValueError(f"{first} and {second} are the same window: name two")
    sides: list[Side] = [
        {
            (*record.key[:2], _length(record.window), *record.key[3:]): record
            for record in estimates
            if record.window is not None and record.window in {chosen[length] for length in lengths}
        }
        for chosen in (one, two)
    ]
    overlap = any(one[length][0] < two[length][1] and two[length][0] < one[length][1] for length in lengths)
    return between([(sides[0], sides[1])], study, overlap=overlap)


def between_groups(
    records: Iterable[EstimateRecord], study: Study | None, *groups: str | None
) -> PairComparison:
    """The second group minus the first, for each attribute, estimate and window; of more groups, every pair.

    Args:
        records: the estimates of one result.
        study: the study, as for :func:`between_windows`.
        groups: two groups or more; None for the reports that name none. Without any, all that there are.

    Raises:
        ValueError: if there is no such group, one is named twice, or there are too many.
    """
    estimates = [record for record in by_key(records).values() if not record.other_groups]
    there = sorted({record.group for record in estimates}, key=lambda group: (group is not None, group))
    if not any(group is not None for group in there):
        without = study is not None and study.groups is None
        reason = "the study has no groups" if without else "no estimated report has a group"
        raise ValueError(f"its estimates are not by group: {reason}")
    groups = groups or tuple(there)
    for number, group in enumerate(groups):
        if group in groups[:number]:
            raise ValueError(f"{_named(group)} is named twice: name different groups")
        if group not in there:
            names = [group for group in there if group is not None]
            raise ValueError(
                f"there is no estimate of {_named(group)}; {meant_or_known(group or '', names, _MOST_LISTED)}"
            )
    if not 1 < len(groups) <= _MOST_LISTED:
        raise ValueError(f"{counted(len(groups), 'group')}: name 2 to {_MOST_LISTED}")
    sides: list[Side] = [
        {
            (record.attribute, record.name, record.window): record
            for record in estimates
            if record.group == group
        }
        for group in groups
    ]
    return between(list(itertools.combinations(sides, 2)), study)


def _length(window: Bounds) -> int:
    """The length of a window; local days, and months, have the same though they last longer or shorter."""
    days = round((window[1] - window[0]) / DAY)
    if window[1] - window[0] < DAY - HOUR:
        return window[1] - window[0]
    return days * DAY if days < 28 else round(days * DAY / MONTH) * MONTH


def _named(group: str | None) -> str:
    return "reports without a group" if group is None else f"group {group!r}"


def _windows(text: str, windows: list[Bounds], clock: Clock | None) -> list[Bounds]:
    """The windows that a text names.

    Raises:
        ValueError: if there are none; it says which one is the nearest in time.
    """
    if not windows:
        raise ValueError("its estimates are not by window: the study has no windows")
    names = {window: name_of(window, clock) for window in windows}
    start, _, end = text.partition("/")
    try:
        wanted = [moment(part, clock) for part in (start, end) if part]
    except (ValueError, OverflowError):
        wanted = []
    called = [window for window, name in names.items() if text and text in (name, name.partition(" (")[0])]
    matching = called or [w for w in windows if wanted and list(w[: len(wanted)]) == wanted]
    if not matching and wanted:
        nearest = min(windows, key=lambda window: abs(window[0] - wanted[0]))
        raise ValueError(f"no window starts at {text!r}; did you mean {names[nearest]!r}?")
    if not matching:
        possible = list(dict.fromkeys(names.values()))
        possible = [name for name in possible if text and name.startswith(text)] or possible
        raise ValueError(f"no window starts at {text!r}; {meant_or_known(text, possible, _MOST_LISTED)}")
    return matching


def between(
    pairs: Sequence[tuple[Side, Side]], study: Study | None, *, overlap: bool = False
) -> PairComparison:
    """The second of each pair of sides minus the first.

    Args:
        pairs: the estimates of both sides, by what is compared with each other.
        study: the study, as for :func:`between_windows`.
        overlap: whether reports may be on both sides.
    """
    records = [record for pair in pairs for side in pair for record in side.values()]
    attributes = dict.fromkeys(record.attribute for record in records)
    shared = {attribute: why for attribute in attributes if (why := _in_common(study, attribute, overlap))}
    compared = comparison(pairs, shared, flagged=False)
    return PairComparison(compared, 1.0 - FALSE_ALARMS, (FOR_THE_PEOPLE, *_conservative(shared)))


def _in_common(study: Study | None, attribute: str, overlap: bool) -> str:
    """Why reports of both sides may have noise in common; empty if they have none."""
    if overlap:
        return "the windows overlap"
    if study is None:
        return "the study cannot be read here, so clients may remember their noise"
    names = study.attribute(attribute).remembering
    return f"clients of {', '.join(names)} remember their noise" if names else ""


def _conservative(shared: Mapping[str, str]) -> Iterator[str]:
    for why in dict.fromkeys(shared.values()):
        names = ", ".join(attribute for attribute, reason in shared.items() if reason == why)
        yield (
            f"{names}: {why}, and it is not known which users are on both sides: intervals of shares of "
            "categories and of means of reports are then at least as wide as their level needs, those of "
            "other numbers hold under any dependence, and none holds at every look"
        )
