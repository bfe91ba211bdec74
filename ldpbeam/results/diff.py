"""``ldpbeam diff``: what two runs, windows or groups differ in, and whether by more than its error."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from ldpbeam.answers.between import PairComparison, between_groups, between_windows
from ldpbeam.answers.difference import (
    FALSE_ALARMS,
    NO_ERROR,
    Comparison,
    Difference,
    compared,
    largest_first,
)
from ldpbeam.answers.fitting import print_fitting
from ldpbeam.answers.results import Results
from ldpbeam.domains import digits_of
from ldpbeam.errors import DIFFERS, DONE, UserError, naming
from ldpbeam.folders.read import read_results
from ldpbeam.inputs.times import time_of
from ldpbeam.printing import document, note
from ldpbeam.schemas.outputs.records import EstimateKey, EstimateRecord
from ldpbeam.times import format_duration, window_fields
from ldpbeam.untrusted import shown
from ldpbeam.windows import Bounds
from ldpbeam.words import counted

#: This many differences are printed; with ``--json`` all are.
MOST_ROWS = 60
#: How reports that name no group are called.
NO_GROUP = "no group"
_TWO_FOLDERS = "diff compares two folders; or one, with --before TIME, --windows A B or --groups A B"
_ONE_FOLDER = "--before, --windows and --groups compare two parts of one folder: name one"
_KEYS = ("attribute", "window", "group", "estimate", "number")
_OF_DIFFERENCES = ("difference", "certain", "if smooth", "verdict")


def diff_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam diff`` and return its exit code: DONE, or DIFFERS."""
    folders, within = options.folders, (options.before, options.windows, options.groups)
    if len(folders) != (wanted := 2 if within == (None, None, None) else 1):
        raise UserError(_TWO_FOLDERS if wanted == 2 else _ONE_FOLDER)
    results = list(map(read_results, folders))
    between = _between(results, options)
    comparison = between.comparison if between else compared(*results)
    if len({result.about.study_fingerprint for result in results}) > 1:
        note("the two folders are of different studies, or of different versions of one")
    for sentence in between.sentences if between else ():
        note(sentence)
    smooth = options.if_smooth and any(row.beyond_if_smooth for row in comparison.differences)
    code = DIFFERS if comparison.differs or smooth else DONE
    document(_as_json(comparison, between))
    names = names_of([record for side in results for record in side.estimates])
    _print(comparison, folders if wanted == 2 else _sides(options), names)
    return code


def _between(given: Sequence[Results], options: argparse.Namespace) -> PairComparison | None:
    """The two sides of a comparison; None of two folders whose estimates are compared one by one.

    Raises:
        UserError: if a window or a group is not there, or a side has no window.
    """
    if len(given) == 2:
        return _one_after_the_other(*given)
    (results,) = given
    if options.before is not None:
        # What computes takes a second to import.
        from ldpbeam.results.before_after import before_after_in

        time = time_of("--before", options.before, clock=results.clock)
        assert time is not None
        return before_after_in(results, time)
    with naming(results.folder):
        if not results.estimates:
            raise ValueError("it has no estimate")
        if options.windows:
            return between_windows(results.estimates, results.study, *options.windows)
        groups = (group or None for group in options.groups)
        return between_groups(results.estimates, results.study, *groups)


def _one_after_the_other(first: Results, second: Results) -> PairComparison | None:
    """The second folder minus the first, each added up, if all its windows are later or all are earlier."""
    sides = [[record.window for record in results.estimates] for results in (first, second)]
    (one, end), (two, later_end) = (
        (min((w[0] for w in windows if w), default=0), max((w[1] for w in windows if w), default=1))
        for windows in sides
    )
    if None in sides[0] + sides[1] or not (end <= two or later_end <= one):
        return None
    from ldpbeam.results.before_after import folders_compared

    return folders_compared(first, second)


def _sides(options: argparse.Namespace) -> Sequence[str]:
    """How the two sides are called; of more than two groups, each row says which two."""
    if options.before is not None:
        return "before", "after"
    sides = options.windows or [group or NO_GROUP for group in options.groups]
    return sides if len(sides) == 2 else ("first", "second")


def _print(comparison: Comparison, sides: Sequence[str], names: Mapping[Bounds, str]) -> None:
    """Print what is beyond its error and every mean; of others say how many there are."""
    rows = [
        row for row in largest_first(comparison.differences) if row.beyond_if_smooth or row.family == "means"
    ]
    _print_rows(rows[:MOST_ROWS], sides, names)
    if len(rows) > MOST_ROWS:
        print(f"and {len(rows) - MOST_ROWS:,} more; --json has all")
    if rest := len(comparison.differences) - len(rows):
        print(f"{counted(rest, 'more number is', 'more numbers are')} not said to differ; --json has all")
    for name, keys in zip(sides, (comparison.only_first, comparison.only_second), strict=True):
        if keys:
            print(shown(f"{counted(len(keys), 'estimate')} only in {name}: {_listed(keys, names)}"))
    if comparison.unlike:
        keys = comparison.unlike
        many = counted(len(keys), "estimate")
        print(shown(f"{many} with other numbers, buckets or names: {_listed(keys, names)}"))
    for sentence in _summary(comparison):
        print(sentence)


def _print_rows(rows: Sequence[Difference], sides: Sequence[str], names: Mapping[Bounds, str]) -> None:
    if not rows:
        return
    texts = [_row(difference, sides, names) for difference in rows]
    lengths = [difference.key.length for difference in rows]
    if len(set(lengths)) > 1:
        for text, length in zip(texts, lengths, strict=True):
            text["window"] = text["window"] or (format_duration(length) if length else "")
    columns = (*_KEYS, *_columns(sides), *_OF_DIFFERENCES)
    shown_ones = [name for name in columns if any(text[name] for text in texts)]
    print_fitting(Console(), shown_ones, texts, keys=_KEYS, left=("verdict",))


def _columns(sides: Sequence[str]) -> tuple[str, str]:
    """The headers of both sides: their names, unless one is that of another column."""
    first, second = sides
    others = {*_KEYS, *_OF_DIFFERENCES}
    return ("first", "second") if first == second or others & {first, second} else (first, second)


def _row(difference: Difference, sides: Sequence[str], names: Mapping[Bounds, str]) -> dict[str, str]:
    ends = None if difference.low is None else (difference.low, difference.high)
    digits, error = 6, difference.error
    if error is not None:
        digits = digits_of(difference.first - error, difference.first + error, 6, of_width=2)
    texts, others = as_texts(difference.key, names), as_texts(difference.other_key, names)
    if texts["window"] != others["window"]:
        texts["window"] = ""
    if texts["group"] != others["group"]:
        pair = [text["group"] or NO_GROUP for text in (texts, others)]
        texts["group"] = "" if pair == list(sides) else " and ".join(pair)
    columns = _columns(sides)
    return {
        **texts,
        "number": difference.number,
        columns[0]: f"{difference.first:.{digits}g}",
        columns[1]: f"{difference.second:.{digits}g}",
        "difference": f"{difference.second - difference.first:+.4g}",
        "certain": _ends(difference.certain),
        "if smooth": "" if ends == difference.certain else _ends(ends),
        "verdict": difference.verdict + (" (flagged)" if difference.flag else ""),
    }


def _ends(ends: tuple[float, float | None] | None) -> str:
    return "" if ends is None else "{:+.4g} to {:+.4g}".format(*ends)


def names_of(records: Iterable[EstimateRecord]) -> dict[Bounds, str]:
    """What windows are called where they are not called by their start."""
    return {record.window: record.window_name for record in records if record.window and record.window_name}


def as_texts(key: EstimateKey, names: Mapping[Bounds, str]) -> dict[str, str]:
    """The estimate as columns of a printed table."""
    return {
        "attribute": key.attribute,
        "window": names.get(key.window, key.start) if key.window else "",
        "group": "(more)" if key.rest else key.group or "",
        "estimate": key.name,
    }


def _listed(keys: Sequence[EstimateKey], names: Mapping[Bounds, str]) -> str:
    """The first estimates in words."""
    sentences = [
        " ".join(filter(None, (text["attribute"], text["estimate"], text["window"], text["group"])))
        for text in (as_texts(key, names) for key in keys[:5])
    ]
    return ", ".join([*sentences, *(["..."] if len(keys) > len(sentences) else [])])


def _summary(comparison: Comparison) -> Iterator[str]:
    """How many numbers of each family differ, and what that is worth."""
    for family in comparison.z:
        of_family = [row for row in comparison.differences if row.family == family]
        beyond = sum(row.beyond for row in of_family)
        unknown = sum(row.verdict == NO_ERROR for row in of_family)
        smooth = sum(row.beyond_if_smooth for row in of_family) - beyond
        perhaps = sum(row.verdict.startswith("perhaps") for row in of_family)
        differ = "differs" if beyond == 1 else "differ"
        yield (
            f"{family}: {beyond:,} of {len(of_family):,} certainly {differ}"
            + (f", {smooth:,} more if smooth" if smooth else "")
            + (f", {perhaps:,} perhaps, as intervals are flagged" if perhaps else "")
            + (f"; the error of {unknown:,} is unknown" if unknown else "")
        )
    yield (
        f"if nothing changed, each family (means, shares, ...) has a chance of at most {FALSE_ALARMS:.0%} of "
        "any false difference"
    )


def _as_json(comparison: Comparison, between: PairComparison | None) -> dict[str, Any]:
    about = {} if between is None else {"level": between.level, "about": list(between.sentences)}
    return {
        **about,
        "z": comparison.z,
        "false_alarms": FALSE_ALARMS,
        "differs": comparison.differs,
        "numbers": [
            {
                **as_json(difference.key),
                "number": difference.number,
                "family": difference.family,
                "first": difference.first,
                "second": difference.second,
                "standard_error": difference.error,
                "low": difference.low,
                "high": difference.high,
                "verdict": difference.verdict,
                "any_look": difference.any_look,
                "certain": difference.certain,
                "beyond": difference.beyond,
                "beyond_if_smooth": difference.beyond_if_smooth,
                "flag": difference.flag,
                **{
                    f"second_{name}": value
                    for name, value in as_json(difference.other_key).items()
                    if between is not None and name in ("window_start", "window_end", "group")
                },
            }
            for difference in comparison.differences
        ],
        "only_first": list(map(as_json, comparison.only_first)),
        "only_second": list(map(as_json, comparison.only_second)),
        "unlike": list(map(as_json, comparison.unlike)),
    }


def as_json(key: EstimateKey) -> dict[str, Any]:
    """The estimate as fields of ``--json``."""
    return {
        "attribute": key.attribute,
        "estimate": key.name,
        **window_fields(key.window),
        "group": key.group,
        "other_groups": key.rest,
    }
