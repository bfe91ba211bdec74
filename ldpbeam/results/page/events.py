"""What changed at events such as releases: the windows before and after each are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ldpbeam import words
from ldpbeam.answers.before_after import SIDES
from ldpbeam.answers.between import PairComparison
from ldpbeam.answers.difference import Difference
from ldpbeam.answers.results import Results
from ldpbeam.charts.subject import noun_of
from ldpbeam.errors import UserError
from ldpbeam.printing import warn
from ldpbeam.results.before_after import before_after_in
from ldpbeam.results.page.html import Part, table_of
from ldpbeam.windows import FAR, Span

#: This many changes of an attribute are in its sentence, and this many of all attributes in the table.
MOST_NAMED, MOST_ROWS = 3, 60
Changes = Mapping[str, PairComparison]


def compared_at(results: Results, events: Mapping[str, int]) -> Changes:
    """What changed at each event, by name; an event without windows on a side is left out.

    A side reaches to the previous or the next event.
    """
    times, changes = sorted({-FAR, *events.values(), FAR}), dict[str, PairComparison]()
    for name, time in sorted(events.items(), key=lambda event: event[1]):
        at = times.index(time)
        try:
            changes[name] = before_after_in(results, time, Span(times[at - 1], times[at + 1]))
        except UserError as error:
            warn(f"event {name}: {error}")
    return changes


def leads(row: Difference, number: str) -> bool:
    """Whether a difference is of the number that an answer leads with, or of any share if that is one."""
    return row.family == "shares" if number.startswith("share of ") else row.number == number


def sentences_of(changes: Changes, attribute: str, number: str) -> list[str]:
    """What certainly changed of an attribute after each event: its number, and how many others."""
    sentences = []
    for name, between in changes.items():
        rows = [row for row in between.comparison.differences if row.key.attribute == attribute]
        said = sentence_on(f"After {name}", [row for row in rows if leads(row, number)])
        rest = [row for row in rows if not leads(row, number) and row.family != "value buckets"]
        if others := sum(row.beyond for row in rest):
            said += f" {words.counted(others, 'other number')} changed for certain (Before and after {name})."
        sentences.append(said)
    return sentences


def sentence_on(opening: str, rows: Sequence[Difference]) -> str:
    """What certainly rose or fell: numbers of groups, or shares in groups."""
    certain = [_said(row) for row in rows if row.beyond]
    if not certain:
        noun = noun_of(rows[0].number).partition(" ")[0] if rows else "number"
        return f"{opening}: no {noun} changed for certain."
    more = f"{words.counted(len(certain) - MOST_NAMED, 'more change is', 'more changes are')} certain"
    listed = words.listed(certain if len(certain) <= MOST_NAMED else [*certain[:MOST_NAMED], more])
    return (
        f"{opening}: {listed}. Other changes may be chance."
        if len(certain) < len(rows)
        else f"{opening}: {listed}."
    )


def _said(row: Difference) -> str:
    group = "other groups" if row.key.rest else row.key.group or ""
    moved = f"{'rose' if row.second > row.first else 'fell'} by {by(row)}"
    if row.family != "shares":
        return " ".join(filter(None, (group, moved)))
    return f"{row.number.removeprefix('share of ')} {moved}{f' in {group}' if group else ''}"


def parts_of_changes(changes: Changes) -> Iterator[Part]:
    """A table for each event of what certainly changed, the largest first, and how much else there is."""
    for name, between in changes.items():
        compared = between.comparison.differences
        certain = [row for row in compared if row.beyond]
        rows = [
            {
                "attribute": row.key.attribute,
                "group": row.key.group or ("other groups" if row.key.rest else ""),
                "estimate": row.key.name,
                "number": row.number,
                **{
                    side: _text(row, value)
                    for side, value in zip(SIDES, (row.first, row.second), strict=True)
                },
                "after - before": f"{by(row, signed=True)}",
                "verdict": row.verdict,
            }
            for row in certain[:MOST_ROWS]
        ]
        table = table_of(rows, (*SIDES, "after - before"), optional=("group",))
        said = [f"{own[:1].upper()}{own[1:]}." for own in between.sentences]
        said.append(f"{len(certain):,} of {words.counted(len(compared), 'number')} certainly changed.")
        if len(certain) > MOST_ROWS:
            said.append(f"The largest {MOST_ROWS} are below.")
        yield Part(f"Before and after {name}", said, table)


def _text(row: Difference, value: float) -> str:
    return words.rounded(value, _ends(row), share=row.family in ("ranges", "shares"))


def _ends(row: Difference) -> tuple[float, float] | None:
    """The interval that a verdict rests on: the certain one, or else that of smooth people."""
    return row.certain or (None if row.low is None or row.high is None else (row.low, row.high))


def by(row: Difference, *, signed: bool = False) -> str:
    """A difference with its interval, of shares in points: without a sign where a verdict says it."""
    sign = 1 if signed or row.second > row.first else -1
    size, share = sign * (row.second - row.first), row.family in ("ranges", "shares")
    low, high = sorted(sign * end for end in _ends(row) or (size, size))
    moved = words.rounded(size, (low, high), share=share).replace("%", " points")
    return (
        f"{moved} ({words.rounded_ends((low, high), share=share).replace('%', '')})" if low < high else moved
    )
