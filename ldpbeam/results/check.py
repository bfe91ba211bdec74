"""``ldpbeam check``: whether numbers of a finished run are beyond thresholds, as an exit code."""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console

from ldpbeam.answers.fitting import print_fitting
from ldpbeam.answers.named_numbers import Numbers, by_key, numbers_of
from ldpbeam.answers.results import Results
from ldpbeam.certainty import ANY_LOOK, CERTAIN, IF_SMOOTH
from ldpbeam.domains import digits_of
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
    least = next((how for name, how in _ALARMS.items() if getattr(options, name)), "certainly")
    alarm = any(VERDICTS.index(row.verdict) <= VERDICTS.index(least) for row in rows)
    code = BEYOND if alarm else DONE
    document({"beyond": alarm, "numbers": [_as_json(row) for row in rows]})
    crossed = [row for row in rows if row.verdict != "no"]
    if crossed:
        names = names_of(results.estimates)
        texts = [_as_texts(row, names) for row in crossed[:MOST_ROWS]]
        columns = (*_KEYS, "value", "certain", "certain margin", "if smooth", "beyond", "flag")
        filled = [name for name in columns if any(text[name] for text in texts)]
        print_fitting(Console(), filled, texts, keys=_KEYS, left=("beyond", "flag"))
    if any(row.margin is not None for row in crossed):
        print("certain margin: how far the certain interval is beyond the threshold; below 0, short of it")
    if len(crossed) > MOST_ROWS:
        print(f"and {len(crossed) - MOST_ROWS:,} more; --json has all")
    verdicts = Counter(row.verdict for row in rows)
    lasting, smooth = verdicts[AT_ANY_LOOK], verdicts[SMOOTHLY]
    print(
        f"{counted(len(rows), 'number')}: {verdicts['certainly'] + lasting:,} certainly beyond the threshold"
        f"{f' ({lasting:,} at any look)' * bool(lasting)}{f', {smooth:,} more if smooth' * bool(smooth)}"
        f", {verdicts['possibly']:,} possibly"
    )
    return code


def _as_texts(row: Checked, names: Mapping[Bounds, str]) -> dict[str, str]:
    certain, smooth = row.certain, row.if_smooth if row.if_smooth != row.certain else None
    low, high = certain or smooth or (math.nan, math.nan)
    digits = digits_of(low, high, 6, of_width=2) if low == low else 6
    numbers = [row.value, *(smooth or ())]
    unlikely = row.verdict == POSSIBLY and smooth and not any(map(row.condition.beyond, numbers))
    return {
        **as_texts(row.key, names),
        "condition": row.condition.text,
        "value": f"{row.value:.{digits}g}",
        "certain": " to ".join(f"{end:.{digits}g}" for end in certain or ()),
        "certain margin": "" if row.margin is None else f"{row.margin:+.3g}",
        "if smooth": " to ".join(f"{end:.{digits}g}" for end in smooth or ()),
        "beyond": f"{row.verdict}, not if smooth" if unlikely else row.verdict,
        "flag": row.flag,
    }


def _as_json(row: Checked) -> dict[str, Any]:
    return {
        **as_json(row.key),
        "condition": row.condition.text,
        "number": row.condition.number,
        "threshold": row.condition.threshold,
        "value": row.value,
        "certain": row.certain,
        "if_smooth": row.if_smooth,
        "verdict": "certainly" if row.verdict == AT_ANY_LOOK else row.verdict,
        "at_any_look": row.verdict == AT_ANY_LOOK,
        "flag": row.flag,
    }


Verdict = Literal["certainly, at any look", "certainly", "if smooth", "possibly", "no"]
#: The verdicts, the surest first.
VERDICTS: tuple[Verdict, ...] = ("certainly, at any look", "certainly", "if smooth", "possibly", "no")
AT_ANY_LOOK, CERTAINLY, SMOOTHLY, POSSIBLY, NO = VERDICTS
#: The least sure verdict that raises an alarm, by the option that says so.
_ALARMS = {"any_look": AT_ANY_LOOK, "possibly": POSSIBLY, "if_smooth": SMOOTHLY}
_CONDITION = re.compile(
    r"(?P<number>.*\S)\s*(?P<side>[<>])=?\s*(?P<value>[-+\d.eE_]+)\s*(?P<percent>%?)\s*", re.DOTALL
)
#: Other words for numbers, and how people write quantiles: p95, percentile 95, q0.95.
_WORDS = {"average": "mean", "avg": "mean", "median": "quantile 0.5"}
_SAID = {"quantile 0.5": "median"}
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

    def beyond(self, number: float) -> bool:
        """Whether a number is beyond the threshold; one that is not known is not."""
        return number > self.threshold if self.above else number < self.threshold


@dataclass(frozen=True)
class Checked:
    """A number and its condition.

    Attributes:
        key: the estimate.
        condition: the condition.
        value: the number.
        certain: the two ends of its certain interval; None if it has none.
        if_smooth: those of the interval that holds if people are spread smoothly; None if it has none.
        verdict: ``certainly`` if the whole certain interval is beyond the threshold, and ``certainly, at any
            look`` if the one for every look is, too; ``if smooth`` if the whole interval of smooth people is;
            ``possibly`` if the number, or a part of an interval is; else ``no``. An interval that is flagged
            makes nothing surer than ``possibly``.
        flag: why intervals may hold the truth less often than their level.
    """

    key: EstimateKey
    condition: Condition
    value: float
    certain: tuple[float, float] | None
    if_smooth: tuple[float, float] | None
    verdict: Verdict
    flag: str

    @property
    def margin(self) -> float | None:
        """How far the certain interval is beyond the threshold, below 0 if it is not; None without one."""
        if self.certain is None:
            return None
        low, high = (end - self.condition.threshold for end in self.certain)
        return low if self.condition.above else -high


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
    records = _chosen(results, estimate, latest)
    if not records:
        what = f"no estimate is named {estimate!r}" if estimate else "there is no estimate"
        raise UserError(f"{results.folder}: {what}{' of a window that has closed' if latest else ''}")
    parts = {key: list(numbers_of(record)) for key, record in records.items()}
    names: dict[str, dict[str, None]] = {}
    for key, numbers in parts.items():
        names.setdefault(key.attribute, {}).update(
            dict.fromkeys(name for part in numbers for name in part.names)
        )
    conditions = [_condition(text, names) for text in texts]
    return [
        _checked(key, part, index, condition)
        for condition in conditions
        for key, numbers in parts.items()
        for part in numbers
        if key.attribute == condition.attribute
        for index, name in enumerate(part.names)
        if name == condition.number
    ]


def _chosen(results: Results, estimate: str | None, latest: bool) -> dict[EstimateKey, EstimateRecord]:
    records = by_key(results.estimates)
    if latest:
        records = {key: record for key, record in records.items() if record.pane_timing != "early"}
        windows = sorted((key.attribute, key.window or (0, 0)) for key in records)
        last = dict(windows)  # the last window of each attribute replaces those before it
        records = {
            key: record for key, record in records.items() if (key.window or (0, 0)) == last[key.attribute]
        }
    return {key: record for key, record in records.items() if estimate in (None, record.name)}


def _condition(text: str, names: Mapping[str, Collection[str]]) -> Condition:
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
        hint = meant_or_known(number, [_SAID.get(name, name) for name in every], _MOST_LISTED)
        raise UserError(f"{text!r}: no estimate has {number!r}; {hint}")
    if match["percent"] and not number.startswith("share"):
        raise UserError(
            f"{text!r}: a number with % is for shares, and {number!r} has the unit of {having[0]}"
        )
    return Condition(text, having[0], number, match["side"] == ">", threshold)


def _meant(number: str, names: Collection[str]) -> str | None:
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
    beyond = condition.beyond
    sure = zip(VERDICTS, (ANY_LOOK, CERTAIN, IF_SMOOTH), strict=False)
    verdict = next((how for how, under in sure if all(map(beyond, part.trusted(under)[index]))), NO)
    value = float(part.values[index])
    certain, smooth = part.interval(CERTAIN, index), part.interval(IF_SMOOTH, index)
    if verdict == NO and any(map(beyond, (value, *(certain or ()), *(smooth or ())))):
        verdict = POSSIBLY
    return Checked(key, condition, value, certain, smooth, verdict, part.flag(IF_SMOOTH))
