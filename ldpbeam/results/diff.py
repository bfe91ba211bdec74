"""``ldpbeam diff``: what two runs, windows or groups differ in, and whether by more than its error."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ldpbeam.answers.between import PairComparison, between_groups, between_windows
from ldpbeam.answers.difference import FALSE_ALARMS, Comparison, Difference, compared
from ldpbeam.answers.fitting import print_fitting
from ldpbeam.domains import digits_of
from ldpbeam.errors import DIFFERS, DONE, UserError, naming
from ldpbeam.folders.read import read_results
from ldpbeam.printing import document, note
from ldpbeam.schemas.outputs.records import EstimateKey
from ldpbeam.times import format_duration, window_fields
from ldpbeam.untrusted import shown
from ldpbeam.words import counted

#: This many differences are printed; with ``--json`` all are.
MOST_ROWS = 60
_KEYS = ("attribute", "window", "group", "estimate", "number")


def diff_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam diff`` and return its exit code: DONE, or DIFFERS."""
    folders = options.folders
    between = _between(folders, options.windows, options.groups)
    if between is None:
        first, second = map(read_results, folders)
        comparison = compared(first, second)
        if first.about.study_fingerprint != second.about.study_fingerprint:
            note("the two folders are of different studies, or of different versions of one")
    else:
        comparison, folders = between.comparison, options.windows or options.groups
        for sentence in between.sentences:
            note(sentence)
    code = DIFFERS if comparison.differs else DONE
    document(_as_json(comparison, between))
    _print(comparison, folders, between)
    return code


def _between(
    folders: Sequence[str], windows: Sequence[str] | None, groups: Sequence[str] | None
) -> PairComparison | None:
    """The two windows or groups of one folder; None if two folders are compared.

    Raises:
        UserError: if there are too many folders or too few, or a window or a group is not there.
    """
    chosen = windows or groups
    if chosen is None:
        if len(folders) != 2:
            raise UserError("diff compares two folders; or one, with --windows A B or --groups A B")
        return None
    if len(folders) != 1:
        raise UserError("--windows and --groups compare two parts of one folder: name one")
    results = read_results(folders[0])
    with naming(folders[0]):
        if not results.estimates:
            raise ValueError("it has no estimate")
        if windows:
            return between_windows(results.estimates, results.study, *windows)
        return between_groups(results.estimates, results.study, *(group or None for group in chosen))


def _print(comparison: Comparison, names: Sequence[str], between: PairComparison | None) -> None:
    """Print every mean, and what else is beyond its error; of one folder all but value buckets."""
    rows = [
        difference
        for difference in comparison.differences
        if difference.beyond
        or difference.number == "mean"
        or (between is not None and not difference.number.startswith("share in "))
    ]
    _print_rows(rows[:MOST_ROWS], between)
    if len(rows) > MOST_ROWS:
        print(f"and {len(rows) - MOST_ROWS:,} more; --json has all")
    for name, keys in zip(names, (comparison.only_first, comparison.only_second), strict=True):
        if keys:
            where = name or "reports without a group"
            print(shown(f"{counted(len(keys), 'estimate')} only in {where}: {_listed(keys)}"))
    if comparison.unlike:
        keys = comparison.unlike
        print(
            shown(f"{counted(len(keys), 'estimate')} with other numbers, buckets or names: {_listed(keys)}")
        )
    print(_summary(comparison, between))


def _print_rows(rows: Sequence[Difference], between: PairComparison | None) -> None:
    if not rows:
        return
    interval = "" if between is None else f"{100 * between.level:g}% interval"
    texts = [_row(difference, interval) for difference in rows]
    lengths = [difference.key.length for difference in rows]
    if len(set(lengths)) > 1:
        for text, length in zip(texts, lengths, strict=True):
            text["window"] = text["window"] or (format_duration(length) if length else "")
    columns = (*_KEYS, "first", "second", "difference", interval or "± se", "beyond error")
    names = [name for name in columns if any(text[name] for text in texts)]
    print_fitting(Console(), names, texts, keys=_KEYS, left=("beyond error",))


def _row(difference: Difference, interval: str) -> dict[str, str]:
    ends = difference.low, difference.high
    digits, error = 6, difference.error
    if error is not None:
        digits = digits_of(difference.first - error, difference.first + error, 6, of_width=2)
    texts = as_texts(difference.key)
    if difference.other_key.window != difference.key.window:
        texts["window"] = ""
    if difference.other_key.group != difference.key.group:
        texts["group"] = ""
    return {
        **texts,
        "number": difference.number,
        "first": f"{difference.first:.{digits}g}",
        "second": f"{difference.second:.{digits}g}",
        "difference": f"{difference.second - difference.first:+.4g}",
        interval: "" if None in ends else "{:+.4g} to {:+.4g}".format(*ends),
        "± se": "" if error is None else f"{error:.2g}",
        "beyond error": "yes"
        if difference.beyond
        else "flagged"
        if interval and difference.flag
        else ""
        if error is not None
        else "no error is known",
    }


def as_texts(key: EstimateKey) -> dict[str, str]:
    """The estimate as columns of a printed table."""
    return {
        "attribute": key.attribute,
        "window": key.start,
        "group": "(more)" if key.rest else key.group or "",
        "estimate": key.name,
    }


def _listed(keys: Sequence[EstimateKey]) -> str:
    """The first estimates in words."""
    sentences = [
        " ".join(
            filter(None, (key.attribute, key.name, key.start, "(more groups)" if key.rest else key.group))
        )
        for key in keys[:5]
    ]
    return ", ".join([*sentences, *(["..."] if len(keys) > len(sentences) else [])])


def _summary(comparison: Comparison, between: PairComparison | None) -> str:
    changed = sum(difference.first != difference.second for difference in comparison.differences)
    beyond = sum(difference.beyond for difference in comparison.differences)
    unknown = sum(
        difference.error is None and difference.first != difference.second
        for difference in comparison.differences
    )
    text = (
        f"{changed:,} of {counted(len(comparison.differences), 'number')} changed, {beyond:,} by more than "
        f"their error ({comparison.z:.2f} standard errors of the difference; at most {FALSE_ALARMS:.0%} of "
        f"pairs of {'runs' if between is None else 'sides'} of the same values have any)"
    )
    flagged = sum(bool(difference.flag) for difference in comparison.differences) if between else 0
    if flagged:
        text += f"; the intervals of {flagged:,} are flagged, and not judged"
    return text + (f"; of {unknown:,} that changed no error is known" if unknown else "")


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
                "first": difference.first,
                "second": difference.second,
                "standard_error": difference.error,
                "beyond": difference.beyond,
                **({} if between is None else _more(difference)),
            }
            for difference in comparison.differences
        ],
        "only_first": list(map(as_json, comparison.only_first)),
        "only_second": list(map(as_json, comparison.only_second)),
        "unlike": list(map(as_json, comparison.unlike)),
    }


def _more(difference: Difference) -> dict[str, Any]:
    """What two parts of one folder have besides: the interval, and the window and group of the second."""
    second = as_json(difference.other_key)
    return {
        "low": difference.low,
        "high": difference.high,
        "flag": difference.flag,
        **{f"second_{name}": second[name] for name in ("window_start", "window_end", "group")},
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
