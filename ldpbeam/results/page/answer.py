"""The answer on top of the page: a number of each attribute, by group, and what changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ldpbeam import words
from ldpbeam.answers.named_numbers import Numbers, normal_quantile, numbers_of
from ldpbeam.certainty import IF_SMOOTH
from ldpbeam.charts.names import values_of
from ldpbeam.charts.subject import MOST_PANELS, Subject, Subset, state_of
from ldpbeam.results.page.html import Answer, table_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study

#: The intervals of all changes of an attribute hold at once in this share of all cases, and those of all
#: differences of its groups. A difference is clear if its interval leaves out zero.
TOGETHER = 0.95
#: This many groups that are clearly higher than others are named, the highest ones, and this many others.
MOST_NAMED = 3
_Key = TypeVar("_Key", bound=Hashable)


class _Known(NamedTuple):
    """The number of an estimate."""

    record: EstimateRecord
    part: Numbers

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval."""
        low, high = self.part.under(IF_SMOOTH)[0].tolist()
        return None if math.isnan(low) else (low, high)

    @property
    def value(self) -> float:
        """The number, moved into its interval if it lies outside: the interval is of the number."""
        value = float(self.part.values[0])
        return value if self.ends is None else min(max(value, self.ends[0]), self.ends[1])

    @property
    def careful(self) -> str:
        """Why the number, or its window, needs care; empty if nothing says so."""
        state = state_of(self.record)
        return state if state != "complete" else "flagged" if self.part.flag(IF_SMOOTH) else ""


class _Difference(NamedTuple):
    """A number minus another one."""

    value: float
    ends: tuple[float, float]
    flagged: bool

    @property
    def clear(self) -> bool:
        """Whether its interval leaves out zero, and no interval that it rests on is flagged."""
        return not self.flagged and (self.ends[0] > 0 or self.ends[1] < 0)


def answer_of(subject: Subject, study: Study | None, said: Sequence[str] = ()) -> Answer | None:
    """The answer for an attribute; None if its estimates have no mean, median and shares.

    Args:
        subject: the estimates of the attribute.
        study: their study; None if it is not known, so that clients may remember their noise.
        said: further sentences on what changed.
    """
    subject = subject.over_time
    name = _number(subject)
    series: dict[str, dict[str, _Known]] = {label: {} for label in subject.groups}
    for subset, records in subject.subsets.items():
        for record in records:
            part = _part(record, name)
            if part is not None:
                series[subset.label].setdefault(subset.start or "", _Known(record, part))
    known = [one for of_label in series.values() for one in of_label.values()]
    if not known:
        return None
    complete = sorted({one.record.window_start or "" for one in known if state_of(one.record) == "complete"})
    now = complete[-1] if complete else max(one.record.window_start or "" for one in known)
    current, before = (
        {label: own[start] for label, own in series.items() if start in own}
        for start in (now, complete[-2] if len(complete) > 1 else None)
    )
    remembering = study is None or bool(study.attribute(subject.name).remembering)
    overlap = any((one.record.window_end or "") > now for one in before.values())
    changes = _differences(
        {label: (before[label], one) for label, one in current.items() if label in before},
        remembering or overlap,
    )
    pairs = combinations([label for label in current if label != "other groups"], 2)
    between = _differences({pair: (current[pair[1]], current[pair[0]]) for pair in pairs}, remembering)
    share, called = name.startswith("share of "), _called(name, subject)
    rows = [
        {
            "group": label if subject.by_group else "",
            f"{called}, {Subset.of(one.record).window}".removesuffix(", "): _text(one, share),
            "change": _change(changes[label], share) if label in changes else "",
            "from": _people(one.record),
            "careful": one.careful,
        }
        for label, one in [*current.items()][:MOST_PANELS]
    ]
    return Answer(
        headline=f"{called}: {_headline(current, subject, share)}",
        sentences=[
            *([" ".join(_of_groups(between))] if between else []),
            *_of_changes(changes, next(iter(before.values()), None), subject, share),
            *said,
        ],
        table=table_of(rows, optional=("group", "change", "careful")),
    )


def _number(subject: Subject) -> str:
    """The number's name: the mean, or the share of the most frequent name of the last window."""
    if any(record.mean is not None for record in subject.records):
        return "mean"
    last, people = max(record.window_start or "" for record in subject.records), Counter[str]()
    for record in subject.records:
        if (record.window_start or "") == last:
            shares = values_of(record, "frequencies")
            people.update({label: round(record.reports * share) for label, share in shares.items()})
    return f"share of {people.most_common(1)[0][0]}" if people else ""


def _part(record: EstimateRecord, name: str) -> Numbers | None:
    """The number of an estimate by its name; None if it has not this number."""
    for part in numbers_of(record):
        if name in part.names:
            return part.only(part.names.index(name))
    return None


def _differences(pairs: Mapping[_Key, tuple[_Known, _Known]], dependent: bool) -> dict[_Key, _Difference]:
    """The second number of each pair minus the first, with intervals that hold together.

    Args:
        pairs: the numbers.
        dependent: whether noise of both may depend on each other, so that only variances of sums add.
    """
    z = -normal_quantile((1 - TOGETHER) / 2 / max(len(pairs), 1))
    found = {}
    for key, (one, two) in pairs.items():
        added = np.add if dependent and not one.part.summed else np.hypot
        error = z * float(added(one.part.errors, two.part.errors)[0])
        value = two.value - one.value
        ends = value - error, value + error
        if not math.isnan(ends[0]):
            found[key] = _Difference(value, ends, bool(one.part.flag(IF_SMOOTH) or two.part.flag(IF_SMOOTH)))
    return found


def _called(name: str, subject: Subject) -> str:
    """What a reader calls the number."""
    if not name.startswith("share of "):
        return f"Mean {subject.name}"
    return f"Share of {'people with ' if subject.records[0].keys is not None else ''}{name[9:]}"


def _text(one: _Known, share: bool) -> str:
    text = words.rounded(one.value, one.ends, share=share)
    return text + (f" ({words.rounded_ends(one.ends, share=share)})" if one.ends else "")


def _people(record: EstimateRecord) -> str:
    """How many people a number is of, or reports where these have no users."""
    if record.users is None:
        return words.counted(record.reports, "report")
    return words.counted(record.users, "person", "people")


def _headline(current: Mapping[str, _Known], subject: Subject, share: bool) -> str:
    """The number, or the highest and the lowest of the groups."""
    texts = {label: words.rounded(one.value, one.ends, share=share) for label, one in current.items()}
    if not subject.by_group:
        return next(iter(texts.values()))
    low, high = (choose(current, key=lambda label: current[label].value) for choose in (min, max))
    return f"{high} {texts[high]}, highest; {low} {texts[low]}, lowest"


def _of_groups(between: Mapping[tuple[str, str], _Difference]) -> Iterator[str]:
    """Which groups are clearly higher than which."""
    higher: dict[str, list[str]] = {}
    for (one, two), difference in between.items():
        if difference.clear:
            first, second = (one, two) if difference.value > 0 else (two, one)
            higher.setdefault(first, []).append(second)
    alike: dict[str, list[str]] = {}
    for label, lower in higher.items():
        named = words.listed(lower) if len(lower) <= MOST_NAMED else f"{len(lower)} other groups"
        alike.setdefault(named, []).append(label)
    most = sorted(alike.items(), key=lambda own: -len(higher[own[1][0]]))[:MOST_NAMED]
    for lower_ones, labels in most:
        are = "is" if len(labels) == 1 else "are"
        yield f"{words.listed(labels)} {are} clearly higher than {lower_ones}."
    if len(between) > sum(len(higher[label]) for _, labels in most for label in labels):
        yield "Other differences may be chance." if most else "Differences between groups may be chance."


def _of_changes(
    changes: Mapping[str, _Difference], before: _Known | None, subject: Subject, share: bool
) -> Iterator[str]:
    if before is None or not changes:
        return
    clear = [
        f"{f'{label} ' if subject.by_group else ''}{'rose' if own.value > 0 else 'fell'} by "
        f"{_moved(own, share, abs)}"
        for label, own in changes.items()
        if own.clear
    ]
    said = words.listed(clear) if clear else "changes may be chance"
    yield f"Since {Subset.of(before.record).when}: {said}."


def _moved(own: _Difference, share: bool, of: Any = float) -> str:
    """A difference, of shares in points."""
    return words.rounded(of(own.value), own.ends, share=share).replace("%", " points")


def _change(own: _Difference, share: bool) -> str:
    moved, ends = _moved(own, share), words.rounded_ends(own.ends, share=share).replace("%", "")
    sign = "+" if own.value > 0 and not moved.startswith("0 ") and moved != "0" else ""
    return f"{sign}{moved} ({ends}): {'clear' if own.clear else 'may be chance'}"
