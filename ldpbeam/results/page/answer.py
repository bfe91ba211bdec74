"""The answer on top of the page: a number of each attribute, by group, and what changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import altair as alt
import numpy as np

from ldpbeam import words
from ldpbeam.answers.named_numbers import Numbers, normal_quantile, numbers_of
from ldpbeam.charts.figures import Figure, Key, Panel, columns_of
from ldpbeam.charts.names import values_of
from ldpbeam.charts.panels import colour, drawn, keys_of, reach
from ldpbeam.charts.subject import MOST_PANELS, Subject, Subset, state_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study

#: The intervals of all changes of an attribute hold at once in this share of all cases, and those of all
#: differences of its groups. A difference is clear if its interval leaves out zero.
TOGETHER = 0.95
#: This many groups that are clearly higher than others are named, the highest ones.
MOST_NAMED = 3
_Key = TypeVar("_Key", bound=Hashable)


class Row(NamedTuple):
    """A line of the overview.

    Attributes:
        key: the group, or the attribute, with its colour.
        subset: the window and group of the number.
        value: the number, with its interval.
        change: its difference from the window before, with its interval; empty if there is none.
        reports: how many reports it is of.
        flagged: whether the number, or its window, needs care.
    """

    key: Key
    subset: Subset
    value: str
    change: str
    reports: str
    flagged: bool


@dataclass(frozen=True)
class Answer:
    """One number of an attribute.

    Attributes:
        number: what the number is, as in ``Mean delay``.
        headline: the number in a sentence.
        sentences: how groups differ, and what changed.
        rows: the lines of the overview.
        figure: the charts of the lines, a panel each.
    """

    number: str
    headline: str
    sentences: Sequence[str]
    rows: Sequence[Row]
    figure: Figure


class _Known(NamedTuple):
    """The number of an estimate."""

    record: EstimateRecord
    part: Numbers

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval."""
        low, high = float(self.part.low[0]), float(self.part.high[0])
        return None if math.isnan(low) else (low, high)

    @property
    def value(self) -> float:
        """The number, moved into its interval if it lies outside: the interval is of the number."""
        value = float(self.part.values[0])
        return value if self.ends is None else min(max(value, self.ends[0]), self.ends[1])

    @property
    def flagged(self) -> bool:
        """Whether the number, or its window, needs care."""
        return bool(self.part.flags[0]) or state_of(self.record) != "complete"


class _Difference(NamedTuple):
    """A number minus another one."""

    value: float
    ends: tuple[float, float]
    flagged: bool

    @property
    def clear(self) -> bool:
        """Whether its interval leaves out zero, and no interval that it rests on is flagged."""
        return not self.flagged and (self.ends[0] > 0 or self.ends[1] < 0)


def answer_of(subject: Subject, study: Study | None) -> Answer | None:
    """The answer for an attribute; None if its estimates have no mean, median and shares.

    Args:
        subject: the estimates of the attribute.
        study: their study; None if it is not known, so that clients may remember their noise.
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
    share = name.startswith("share of ")
    shown = list(current)[:MOST_PANELS]
    return Answer(
        number=_called(name, subject),
        headline=_headline(_called(name, subject), current, subject, share),
        sentences=[
            *([" ".join(_of_groups(between))] if between else []),
            *_of_changes(changes, next(iter(before.values()), None), subject, share),
        ],
        rows=[
            Row(
                keys_of(subject, {label}, truth=False)[0] if subject.by_group else Key(subject.name, 0),
                Subset.of(current[label].record),
                _text(current[label], share),
                _change(changes[label], share) if label in changes else "",
                words.counted(current[label].record.reports, "report"),
                current[label].flagged,
            )
            for label in shown
        ],
        figure=_sparklines(
            subject,
            {label: [one for start, one in series[label].items() if start <= now] for label in shown},
            share,
        ),
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
            at = slice(part.names.index(name), part.names.index(name) + 1)
            columns = {
                column: getattr(part, column)[at] for column in ("values", "low", "high", "errors", "flags")
            }
            return replace(part, names=[name], **columns)
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
            found[key] = _Difference(value, ends, bool(one.part.flags[0] or two.part.flags[0]))
    return found


def _called(name: str, subject: Subject) -> str:
    """What a reader calls the number."""
    if not name.startswith("share of "):
        return f"Mean {subject.name}"
    return f"Share of {'people with ' if subject.records[0].keys is not None else ''}{name[9:]}"


def _text(one: _Known, share: bool) -> str:
    text = words.rounded(one.value, one.ends, share=share)
    return text + (f" ({words.rounded_ends(one.ends, share=share)})" if one.ends else "")


def _headline(number: str, current: Mapping[str, _Known], subject: Subject, share: bool) -> str:
    """The number, or the least and the greatest of the groups."""
    if not subject.by_group:
        return f"{number}: {_text(next(iter(current.values())), share)}"
    ends = (choose(current, key=lambda label: current[label].value) for choose in (min, max))
    texts = [f"{words.rounded(current[g].value, current[g].ends, share=share)} ({g})" for g in ends]
    return f"{number}: {' to '.join(texts)}"


def _of_groups(between: Mapping[tuple[str, str], _Difference]) -> Iterator[str]:
    """Which groups are clearly higher than which."""
    higher: dict[str, list[str]] = {}
    for (one, two), difference in between.items():
        if difference.clear:
            first, second = (one, two) if difference.value > 0 else (two, one)
            higher.setdefault(first, []).append(second)
    alike: dict[str, list[str]] = {}
    for label, lower in higher.items():
        alike.setdefault(words.listed(lower), []).append(label)
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


def _sparklines(subject: Subject, lines: Mapping[str, Sequence[_Known]], share: bool) -> Figure:
    """A small chart for each line, on one axis: windows, or the one number and its interval."""
    rows: dict[str, list[dict[str, Any]]] = {
        label: [
            {"estimate": label, "start": one.record.window_start or "", "value": one.value}
            | dict(zip(("low", "high"), one.ends or (one.value, one.value), strict=True))
            for one in known
        ]
        for label, known in lines.items()
    }
    every = [row for own in rows.values() for row in own]
    values = [row["value"] for row in every]
    low, high = (
        reach([-v for v in values], [-row["low"] for row in every]),
        reach(values, [row["high"] for row in every]),
    )
    axis: dict[str, Any] = {"axis": None, "scale": alt.Scale(domain=[-low, high], nice=False, zero=False)}
    keys = keys_of(subject, rows, truth=False) if subject.by_group else [Key(next(iter(rows)), 0)]
    tint, data = colour(keys), alt.Chart(alt.NamedData("line"))
    if len(subject.windows) > 1:
        x = alt.X("start:T", axis=None, scale=alt.Scale(type="utc"))
        layers = [
            data.mark_area(opacity=0.2, clip=True).encode(
                x=x, y=alt.Y("low:Q", **axis), y2="high:Q", color=tint
            ),
            data.mark_line(strokeWidth=1.5).encode(x=x, y=alt.Y("value:Q", **axis), color=tint),
        ]
    else:
        layers = [
            data.mark_rule(strokeWidth=3, opacity=0.5, clip=True).encode(
                x=alt.X("low:Q", **axis), x2="high:Q", color=tint
            ),
            data.mark_circle(size=60, opacity=1).encode(x=alt.X("value:Q", **axis), color=tint),
        ]
    columns = ("estimate", "start", "value", "low", "high")
    panels = [
        Panel(label if subject.by_group else "", {"line": columns_of(own, columns)})
        for label, own in rows.items()
    ]
    return Figure(f"{subject.name} at a glance", drawn(layers, 30), panels, keys=keys)
