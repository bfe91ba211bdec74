"""The answer on top of the page: a number of each attribute, which groups are higher, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ldpbeam import words
from ldpbeam.answers.between import Side, between
from ldpbeam.answers.difference import Difference
from ldpbeam.answers.named_numbers import Numbers
from ldpbeam.certainty import CERTAIN, IF_SMOOTH
from ldpbeam.charts.names import values_of
from ldpbeam.charts.subject import (
    MEDIAN,
    MOST_PANELS,
    Subject,
    Subset,
    noun_of,
    part_of,
    state_of,
    surest,
)
from ldpbeam.results.page.events import Changes, by, leads, sentence_on, sentences_of
from ldpbeam.results.page.html import Answer, table_of
from ldpbeam.results.totals import ALL
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.study import Study

#: This many orders of groups, and changes, are named.
MOST_NAMED = 3


@dataclass(frozen=True)
class _Known:
    """The number of an estimate."""

    record: EstimateRecord
    part: Numbers

    @property
    def ends(self) -> tuple[float, float] | None:
        """The certain interval, or else the one of smooth people."""
        return surest(self.part)

    @property
    def text(self) -> str:
        """The number, moved into its interval if it lies outside: the interval is of the number."""
        value = float(self.part.values[0])
        value = value if self.ends is None else min(max(value, self.ends[0]), self.ends[1])
        return words.rounded(value, self.ends, share=self.part.family == "shares")

    @property
    def between(self) -> str:
        """The interval behind the number; empty without one."""
        ends = words.rounded_ends(self.ends, share=self.part.family == "shares")
        return f" ({ends})" if ends else ""

    @property
    def careful(self) -> str:
        """Why the number, or its window, needs care; empty if nothing says so."""
        state = state_of(self.record)
        return state if state != "complete" else "flagged" if self.part.flag(IF_SMOOTH) else ""


def answer_of(subject: Subject, study: Study | None, changed: Changes | None = None) -> Answer | None:
    """The answer for an attribute; None if its estimates have no median, mean or shares.

    Args:
        subject: the estimates of the attribute, with totals over groups.
        study: their study; None if it is not known, so that clients may remember their noise.
        changed: what changed at each event.
    """
    subject = subject.over_time
    name = _number(subject)
    windows: dict[str, dict[str, _Known]] = {}
    for subset, records in subject.subsets.items():
        for record in records:
            part = part_of(record, name)
            if part is not None:
                windows.setdefault(subset.start or "", {}).setdefault(subset.label, _Known(record, part))
    if not windows:
        return None
    complete = [
        start
        for start, known in sorted(windows.items())
        if any(state_of(own.record) == "complete" for own in known.values())
    ]
    now = complete[-1] if complete else max(windows)
    current = {label: windows[now][label] for label in subject.groups if label in windows[now]}
    before = windows[complete[-2]] if len(complete) > 1 else {}
    when, since = (
        next((subject.when(Subset.of(own.record)) for own in side.values()), "") for side in (current, before)
    )
    overlap = any((own.record.window_end or "") > now for own in before.values())
    changes = _differences([(before, current)], study, name, overlap)
    of_label = {_label(row): row for row in changes if row.number == name}
    called, change = _called(name, subject), f"change since {since}"
    rows = [
        {
            "group": label if subject.by_group else "",
            f"{called}, {when}".removesuffix(", "): own.text + own.between,
            change: _change(of_label[label]) if label in of_label else "",
            "median": "" if name == MEDIAN else _quantile(own.record, "0.5"),
            "mean": _mean(own.record) if name == MEDIAN else "",
            "5% and 95% quantiles": " and ".join(
                filter(None, (_quantile(own.record, "0.05"), _quantile(own.record, "0.95")))
            ),
            "from": people_of(own.record),
            "careful": own.careful,
        }
        for label, own in [*current.items()][:MOST_PANELS]
    ]
    named, orders = _orders(current, study, name)
    whole = next((own for label, own in current.items() if label == ALL or not subject.by_group), None)
    total = [f"{whole.text}{' in all' * subject.by_group}"] if whole else []
    return Answer(
        headline=f"{called}: {'; '.join([*total, *named])}" if total or named else f"{called} by group",
        sentences=[
            *([" ".join(orders)] if orders else []),
            *([sentence_on(f"Since {since}", changes)] if changes else []),
            *sentences_of(changed or {}, subject.name, name),
        ],
        table=table_of(rows, optional=("group", change, "median", "mean", "5% and 95% quantiles", "careful")),
    )


def people_of(record: EstimateRecord) -> str:
    """How many people a number is of, or reports where these have no users."""
    if record.users is None:
        return words.counted(record.reports, "report")
    return words.counted(record.users, "person", "people")


def _quantile(record: EstimateRecord, level: str) -> str:
    """A quantile, the median with its certain interval; empty without one."""
    part = part_of(record, f"quantile {level}")
    if part is None:
        return ""
    certain, smooth = part.interval(CERTAIN), part.interval(IF_SMOOTH)
    # With a step, quantiles are values that people have, which need no digits of theirs.
    text = words.rounded(float(part.values[0]), None if record.step else smooth)
    ends = " to ".join(map(words.number, certain or ())) if record.step else words.rounded_ends(certain)
    return f"{text} ({ends})" if ends and level == "0.5" else text


def _mean(record: EstimateRecord) -> str:
    part = part_of(record, "mean")
    known = part and _Known(record, part)
    return known.text + known.between if known else ""


def _number(subject: Subject) -> str:
    """The number's name: the mean or median, or the share of the most frequent name of the last window."""
    if any(record.mean is not None for record in subject.records):
        return subject.centre
    last, people = max(record.window_start or "" for record in subject.records), Counter[str]()
    for record in subject.records:
        if (record.window_start or "") == last:
            shares = values_of(record, "frequencies")
            people.update({label: round(record.reports * share) for label, share in shares.items()})
    return f"share of {people.most_common(1)[0][0]}" if people else ""


def _called(name: str, subject: Subject) -> str:
    """What a reader calls the number."""
    if not name.startswith("share of "):
        return f"{noun_of(name).capitalize()} {subject.name}"
    return f"Share of {'people with ' if subject.records[0].keys is not None else ''}{name[9:]}"


def _differences(
    sides: Sequence[tuple[Mapping[str, _Known], Mapping[str, _Known]]],
    study: Study | None,
    name: str,
    overlap: bool = False,
) -> list[Difference]:
    """The second of each pair of sides minus the first, of the number or else of all shares."""
    pairs: list[tuple[Side, Side]] = [
        (
            {key: _stripped(own.record, name) for key, own in one.items()},
            {key: _stripped(own.record, name) for key, own in two.items()},
        )
        for one, two in sides
    ]
    compared = between(pairs, study, overlap=overlap)
    return [row for row in compared.comparison.differences if leads(row, name)]


def _stripped(record: EstimateRecord, name: str) -> EstimateRecord:
    intervals = record.intervals and replace(record.intervals, blurred={})
    left_out = {"distribution", "quantiles", "ranges", "variance", "key_means"}
    nothing: dict[str, Any] = dict.fromkeys(left_out - ({"quantiles"} if name == MEDIAN else set()))
    return replace(record, intervals=intervals, **nothing)


def _label(row: Difference) -> str:
    return "other groups" if row.key.rest else row.key.group or "no group"


def _change(row: Difference) -> str:
    sign = "+" if row.second > row.first and not by(row).startswith(("0 ", "-")) else ""
    return f"{sign}{by(row, signed=True)}: {'certain' if row.beyond else 'may be chance'}"


def _orders(current: Mapping[str, _Known], study: Study | None, name: str) -> tuple[list[str], list[str]]:
    """The highest and the lowest group, if they certainly are, and sentences on other orders."""
    labels = [label for label in current if label not in (ALL, "other groups")]
    pairs = list(combinations(labels, 2))
    if not pairs:
        return [], []
    rows = _differences(
        [({f"{pair}": current[pair[1]]}, {f"{pair}": current[pair[0]]}) for pair in pairs], study, name
    )
    above: dict[str, list[str]] = {}
    below: Counter[str] = Counter()
    for row in rows:
        if row.number == name and row.beyond:
            low, high = _label(row), row.other_key.group or "no group"
            low, high = (low, high) if row.second > row.first else (high, low)
            above.setdefault(high, []).append(low)
            below[low] += 1
    others = len(labels) - 1
    ends = {"highest": [label for label, lower in above.items() if len(lower) == others]}
    ends["lowest"] = [label for label in below if below[label] == others]
    named = [f"{label} {current[label].text}, {end}" for end, found in ends.items() for label in found]
    alike: dict[str, list[str]] = {}
    for label, lower in above.items():
        if label not in ends["highest"] and (rest := [own for own in lower if own not in ends["lowest"]]):
            text = words.listed(rest) if len(rest) <= MOST_NAMED else f"{len(rest)} other groups"
            alike.setdefault(text, []).append(label)
    most = sorted(alike.items(), key=lambda own: -len(own[1]))[:MOST_NAMED]
    said = [
        f"{words.listed(higher)} {'is' if len(higher) == 1 else 'are'} certainly higher than {lower}."
        for lower, higher in most
    ]
    if len(alike) > MOST_NAMED:
        said.append("Further differences between groups are certain.")
    if sum(below.values()) < len(pairs):
        said.append(
            "Other differences may be chance."
            if above
            else f"No group's {noun_of(name)} is certainly higher than another's."
        )
    differ = dict.fromkeys(row.number for row in rows if row.number != name and row.beyond)
    if differ:
        said.append(f"Certain differences between groups: {words.listed(list(differ))}.")
    return named, said
