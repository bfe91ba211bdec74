"""``ldpbeam check``: whether numbers of a finished run are beyond thresholds, as an exit code."""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console

from ldpbeam.answers.fitting import print_fitting
from ldpbeam.answers.named_numbers import Numbers, by_key, numbers_of
from ldpbeam.answers.results import Results
from ldpbeam.domains import Floats, digits_of
from ldpbeam.errors import BEYOND, DONE, UserError, meant_or_known
from ldpbeam.folders.read import read_results
from ldpbeam.printing import document
from ldpbeam.results.diff import as_json, as_texts, names_of
from ldpbeam.schemas.outputs.records import EstimateKey, EstimateRecord
from ldpbeam.windows import Bounds
from ldpbeam.words import counted

#: This many numbers are printed; with ``--json`` all are.
MOST_ROWS = 60
_KEYS = ("attribute", "window", "group", "estimate", "condition")


def check_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam check`` and return its exit code: DONE, or BEYOND."""
    results = read_results(options.folder)
    rows = checked(results, options.conditions, estimate=options.estimate, latest=options.latest)
    alarms = {AT_ANY_LOOK} if options.any_look else {AT_ANY_LOOK, "certainly"}
    alarm = any(row.verdict in alarms or (options.possibly and row.verdict == "possibly") for row in rows)
    code = BEYOND if alarm else DONE
    document({"beyond": alarm, "numbers": [_as_json(row) for row in rows]})
    crossed = [row for row in rows if row.verdict != "no"]
    if crossed:
        names = names_of(results.estimates)
        texts = [_as_texts(row, names) for row in crossed[:MOST_ROWS]]
        columns = (*_KEYS, "value", "interval", "beyond", "flag")
        filled = [name for name in columns if any(text[name] for text in texts)]
        print_fitting(Console(), filled, texts, keys=_KEYS, left=("beyond", "flag"))
    if len(crossed) > MOST_ROWS:
        print(f"and {len(crossed) - MOST_ROWS:,} more; --json has all")
    verdicts = Counter(row.verdict for row in rows)
    lasting = verdicts[AT_ANY_LOOK]
    print(
        f"{verdicts['certainly'] + lasting:,} of {counted(len(rows), 'number')} certainly beyond the "
        f"threshold{f' ({lasting:,} at any look)' if lasting else ''}, {verdicts['possibly']:,} possibly"
    )
    return code


def _as_texts(row: Checked, names: Mapping[Bounds, str]) -> dict[str, str]:
    digits = digits_of(*row.interval, 6, of_width=2) if row.interval else 6
    return {
        **as_texts(row.key, names),
        "condition": row.condition.text,
        "value": f"{row.value:.{digits}g}",
        "interval": " to ".join(f"{end:.{digits}g}" for end in row.interval or ()),
        "beyond": row.verdict,
        "flag": row.flag,
    }


def _as_json(row: Checked) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    return {
        **as_json(row.key),
        "condition": row.condition.text,
        "number": row.condition.number,
        "threshold": row.condition.threshold,
        "value": row.value,
        "low": low,
        "high": high,
        "verdict": "certainly" if row.verdict == AT_ANY_LOOK else row.verdict,
        "at_any_look": row.verdict == AT_ANY_LOOK,
        "flag": row.flag,
    }


Verdict = Literal["certainly, at any look", "certainly", "possibly", "no"]
AT_ANY_LOOK: Verdict = "certainly, at any look"
_CONDITION = re.compile(
    r"(?P<number>.*\S)\s*(?P<side>[<>])=?\s*(?P<value>[-+\d.eE_]+)\s*(?P<percent>%?)\s*", re.DOTALL
)
#: Other words for numbers, and how people write quantiles: p95, percentile 95, q0.95.
_WORDS = {"average": "mean", "avg": "mean", "median": "quantile 0.5"}
_QUANTILE = re.compile(r"(?P<of>p|q|percentile|quantile)\s*(?P<level>\d*\.?\d+)\s*(?P<percent>%?)")
#: A message lists at most this many numbers of an attribute.
_MOST_LISTED = 12


@dataclass(frozen=True)
class Condition:
    """What raises an alarm: numbers of an attribute that are above or below a threshold.

    Attributes:
        text: as it was written.
        attribute: the attribute.
        number: the number, as ``ldpbeam diff`` names it.
        above: whether larger numbers are beyond the threshold; if not, smaller ones.
        threshold: in the unit of the number.
    """

    text: str
    attribute: str
    number: str
    above: bool
    threshold: float


@dataclass(frozen=True)
class Checked:
    """A number and its condition.

    Attributes:
        key: the estimate.
        condition: the condition.
        value: the number.
        interval: the two ends of its interval; None if it has none.
        verdict: ``certainly`` if the whole interval is beyond the threshold and is not flagged; of quantiles
            and ranges of numbers, the strict one. ``certainly, at any look`` if the interval for
            every look is, too. Else ``possibly`` if a part of the interval or the number is, else ``no``.
        flag: why the interval may hold the truth less often than its level.
    """

    key: EstimateKey
    condition: Condition
    value: float
    interval: tuple[float, float] | None
    verdict: Verdict
    flag: str


def checked(
    results: Results, texts: Sequence[str], *, estimate: str | None = None, latest: bool = False
) -> list[Checked]:
    """Check conditions on every estimate that has their numbers, by condition and then by estimate.

    Args:
        results: what is in an output folder.
        texts: the conditions, as ``price: mean > 4000``; the attribute may be left out if one alone has the
            number.
        estimate: the name of the only estimates that are checked; None for all.
        latest: whether only the latest window of each attribute that has closed is checked.

    Raises:
        UserError: for a text that is not a condition, and where no estimate has the number.
    """
    records = dict(_chosen(results, estimate, latest))
    if not records:
        what = f"no estimate is named {estimate!r}" if estimate else "there is no estimate"
        raise UserError(f"{results.folder}: {what}{' of a window that has closed' if latest else ''}")
    parts = {key: list(numbers_of(record)) for key, record in records.items()}
    names: dict[str, dict[str, None]] = {}
    for key, numbers in parts.items():
        names.setdefault(key.attribute, {}).update(
            dict.fromkeys(name for part in numbers for name in part.names)
        )
    conditions = [
        _condition(text, {attribute: list(numbers) for attribute, numbers in names.items()}) for text in texts
    ]
    return [
        _checked(key, part, index, condition)
        for condition in conditions
        for key, numbers in parts.items()
        for part in numbers
        if key.attribute == condition.attribute
        for index, name in enumerate(part.names)
        if name == condition.number
    ]


def _chosen(
    results: Results, estimate: str | None, latest: bool
) -> Iterator[tuple[EstimateKey, EstimateRecord]]:
    records = by_key(results.estimates)
    closed = [record for record in records.values() if record.pane_timing != "early"]
    ends = {record.attribute: (0, 0) for record in closed}
    for record in closed:
        ends[record.attribute] = max(ends[record.attribute], record.window or (0, 0))
    for key, record in records.items():
        if estimate is not None and record.name != estimate:
            continue
        if latest and (record.pane_timing == "early" or (record.window or (0, 0)) != ends[record.attribute]):
            continue
        yield key, record


def _condition(text: str, names: dict[str, list[str]]) -> Condition:
    """A condition on the numbers of attributes: (the text, the names of numbers by attribute).

    Raises:
        UserError: if the text is not a threshold, or if no attribute or several have the number.
    """
    match = _CONDITION.fullmatch(text)
    try:
        threshold = float(match["value"]) / (100 if match["percent"] else 1) if match else math.nan
    except ValueError:
        threshold = math.nan
    if match is None or not math.isfinite(threshold):
        raise UserError(
            f"{text!r} is not a condition: write NUMBER > VALUE or NUMBER < VALUE, as in 'mean > 4000'"
        )
    wanted, number = list(names), match["number"]
    for attribute in names:
        if number.startswith(f"{attribute}:"):
            wanted, number = [attribute], number.removeprefix(f"{attribute}:").strip()
            break
    number = next(filter(None, (_meant(number, names[attribute]) for attribute in wanted)), number)
    having = [attribute for attribute in wanted if number in names[attribute]]
    if len(having) > 1:
        raise UserError(f"{text!r}: {' and '.join(having)} have it: write '{having[0]}: {text}'")
    if not having:
        every = dict.fromkeys(name for attribute in wanted for name in names[attribute])
        hint = meant_or_known(number, every, _MOST_LISTED)
        raise UserError(f"{text!r}: no estimate has {number!r}; {hint}")
    if match["percent"] and not number.startswith("share"):
        raise UserError(
            f"{text!r}: a number with % is for shares, and {number!r} has the unit of {having[0]}"
        )
    return Condition(text, having[0], number, match["side"] == ">", threshold)


def _meant(number: str, names: Sequence[str]) -> str | None:
    """The one of the names that a person means by a number; None if there is none, or not one alone."""
    if number in names:
        return number
    word = _WORDS.get(number.casefold(), number.casefold())
    if quantile := _QUANTILE.fullmatch(word):
        level = float(quantile["level"])
        of_100 = quantile["of"].startswith("p") or quantile["percent"] or level >= 1
        word = f"quantile {level / 100 if of_100 else level:g}"
    same = [name for name in names if name.casefold() == word]
    return same[0] if len(same) == 1 else None


def _checked(key: EstimateKey, part: Numbers, index: int, condition: Condition) -> Checked:
    value, low, high = (float(column[index]) for column in (part.values, part.low, part.high))
    known = not math.isnan(low)
    sign = 1 if condition.above else -1
    beyond = [sign * (number - condition.threshold) > 0 for number in (value, low, high)]
    verdict: Verdict = "no"
    of_level: tuple[tuple[Verdict, Floats], ...] = (
        (AT_ANY_LOOK, part.certain_at_any_look[index]),
        ("certainly", part.certain[index]),
    )
    sure = [name for name, ends in of_level if (sign * (ends - condition.threshold) > 0).all()]
    if sure:
        verdict = sure[0]
    elif any(beyond):
        verdict = "possibly"
    return Checked(key, condition, value, (low, high) if known else None, verdict, part.flags[index])
