"""What changed at events, as releases: the windows before and after each of them compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ldpbeam import words
from ldpbeam.answers.before_after import SIDES
from ldpbeam.answers.between import PairComparison
from ldpbeam.answers.difference import Difference
from ldpbeam.answers.results import Results
from ldpbeam.errors import UserError
from ldpbeam.printing import warn
from ldpbeam.results.before_after import before_after_in
from ldpbeam.results.page.html import Part, table_of
from ldpbeam.windows import FAR, Span

#: This many changes of an attribute are in its sentence, and this many of all in the table.
MOST_NAMED, MOST_ROWS = 3, 60
Changes = Mapping[str, PairComparison]


def compared_at(results: Results, events: Mapping[str, int]) -> Changes:
    """What changed at each event, by its name and in order; one that has no window on a side is left out.

    The windows since the event before and until the next one count.
    """
    times, changes = sorted({-FAR, *events.values(), FAR}), dict[str, PairComparison]()
    for name, time in sorted(events.items(), key=lambda event: event[1]):
        at = times.index(time)
        try:
            changes[name] = before_after_in(results, time, Span(times[at - 1], times[at + 1]))
        except UserError as error:
            warn(f"event {name}: {error}")
    return changes


def sentences_of(changes: Changes, attribute: str) -> list[str]:
    """A sentence for each event: the clear changes of an attribute's means, or else of its shares."""
    sentences = []
    for name, between in changes.items():
        own = [each for each in between.comparison.differences if each.key.attribute == attribute]
        means = [each for each in own if each.family == "means"]
        clear = [
            " ".join(
                filter(None, (each.key.group, each.number, each.verdict.partition(",")[0], "by", _by(each)))
            )
            for each in means or own
            if each.beyond and each.family in ("means", "shares")
        ]
        more = f", and {len(clear) - MOST_NAMED:,} more" if len(clear) > MOST_NAMED else ""
        sentences.append(f"After {name}: {', '.join(clear[:MOST_NAMED]) or 'changes may be chance'}{more}.")
    return sentences


def parts_of_changes(changes: Changes) -> Iterator[Part]:
    """A table for each event: of each kind of number, but value buckets, the largest changes first."""
    for name, between in changes.items():
        rows = [
            {
                "attribute": each.key.attribute,
                "group": each.key.group or ("other groups" if each.key.rest else ""),
                "estimate": each.key.name,
                "number": each.number,
                **{
                    side: _text(each, value)
                    for side, value in zip(SIDES, (each.first, each.second), strict=True)
                },
                "after - before": f"{_by(each, signed=True)}",
                "verdict": each.verdict,
            }
            for each in between.comparison.differences
            if each.family != "value buckets"
        ]
        table = table_of(rows[:MOST_ROWS], (*SIDES, "after - before"), optional=("group",))
        left = [f"The first {MOST_ROWS} of {len(rows):,} numbers."] if len(rows) > MOST_ROWS else []
        yield Part(f"Before and after {name}", [*between.sentences, *left], table)


def _text(each: Difference, value: float) -> str:
    ends = None if each.low is None or each.high is None else (each.low, each.high)
    return words.rounded(value, ends, share=each.family in ("ranges", "shares"))


def _by(each: Difference, *, signed: bool = False) -> str:
    """A difference with its interval, of shares in points: without a sign where a verdict says it."""
    sign = 1 if signed or each.second > each.first else -1
    size, share = sign * (each.second - each.first), each.family in ("ranges", "shares")
    low, high = sorted(sign * end for end in (each.low, each.high) if end is not None) or (size, size)
    moved = words.rounded(size, (low, high), share=share).replace("%", " points")
    return (
        f"{moved} ({words.rounded_ends((low, high), share=share).replace('%', '')})" if low < high else moved
    )
