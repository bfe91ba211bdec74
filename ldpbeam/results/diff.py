"""``ldpbeam diff``: what two runs, windows or groups differ in, and whether by more than its error."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from ldpbeam.answers.between import PairComparison, between_groups, between_windows
from ldpbeam.answers.difference import FALSE_ALARMS, NO_ERROR, Comparison, Difference, compared
from ldpbeam.answers.fitting import print_fitting
from ldpbeam.answers.results import Results
from ldpbeam.domains import digits_of
from ldpbeam.errors import DIFFERS, DONE, UserError, naming
from ldpbeam.folders.read import read_results
from ldpbeam.inputs.times import time_of
from ldpbeam.printing import document, note
from ldpbeam.schemas.outputs.records import EstimateKey
from ldpbeam.times import format_duration, window_fields
from ldpbeam.untrusted import shown
from ldpbeam.words import counted

#: This many differences are printed; with ``--json`` all are.
MOST_ROWS = 60
#: How reports that name no group are called.
NO_GROUP = "no group"
_KEYS = ("attribute", "window", "group", "estimate", "number")


def diff_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam diff`` and return its exit code: DONE, or DIFFERS."""
    folders = options.folders
    between = _between(folders, options)
    if between is None:
        first, second = map(read_results, folders)
        between = _one_after_the_other(first, second)
        comparison = between.comparison if between else compared(first, second)
        if first.about.study_fingerprint != second.about.study_fingerprint:
            note("the two folders are of different studies, or of different versions of one")
    else:
        comparison, folders = between.comparison, _sides(options)
    if between is not None:
        for sentence in between.sentences:
            note(sentence)
    code = DIFFERS if comparison.differs else DONE
    document(_as_json(comparison, between))
    _print(comparison, folders, between)
    return code


def _between(folders: Sequence[str], options: argparse.Namespace) -> PairComparison | None:
    """The two windows, groups or sides of a time of one folder; None if two folders are compared.

    Raises:
        UserError: if there are too many folders or too few, or a window or a group is not there.
    """
    windows, groups = options.windows, options.groups
    if windows is None and groups is None and options.before is None:
        if len(folders) != 2:
            raise UserError(
                "diff compares two folders; or one, with --before TIME, --windows A B or --groups A B"
            )
        return None
    if len(folders) != 1:
        raise UserError("--before, --windows and --groups compare two parts of one folder: name one")
    results = read_results(folders[0])
    if options.before is not None:
        # What computes takes a second to import.
        from ldpbeam.results.before_after import before_after_in

        time = time_of("--before", options.before, clock=results.clock)
        assert time is not None
        return before_after_in(results, time)
    with naming(folders[0]):
        if not results.estimates:
            raise ValueError("it has no estimate")
        if windows:
            return between_windows(results.estimates, results.study, *windows)
        return between_groups(results.estimates, results.study, *(group or None for group in groups or ()))


def _one_after_the_other(first: Results, second: Results) -> PairComparison | None:
    """The second folder minus the first, each added up, if all its windows are later or all are earlier."""
    sides = [[record.window for record in results.estimates] for results in (first, second)]
    (one, end), (two, later_end) = (
        (min((window[0] for window in own if window), default=0), max((w[1] for w in own if w), default=1))
        for own in sides
    )
    if None in sides[0] + sides[1] or not (end <= two or later_end <= one):
        return None
    from ldpbeam.results.before_after import folders_compared

    return folders_compared(first, second)


def _sides(options: argparse.Namespace) -> Sequence[str]:
    """How the two sides are called; of more than two groups, each row says which two."""
    if options.before is not None:
        return "before", "after"
    sides = options.windows or [group or NO_GROUP for group in options.groups or ()]
    return sides if len(sides) == 2 else ("first", "second")


def _print(comparison: Comparison, names: Sequence[str], between: PairComparison | None) -> None:
    """Print every mean, and what else is beyond its error; of one folder all but value buckets."""
    rows = [
        difference
        for difference in comparison.differences
        if difference.beyond
        or difference.family == "means"
        or (between is not None and difference.family != "value buckets")
    ]
    families = list(comparison.z)
    rows.sort(key=lambda difference: families.index(difference.family))
    _print_rows(rows[:MOST_ROWS], names)
    if len(rows) > MOST_ROWS:
        print(f"and {len(rows) - MOST_ROWS:,} more; --json has all")
    for name, keys in zip(names, (comparison.only_first, comparison.only_second), strict=True):
        if keys:
            print(shown(f"{counted(len(keys), 'estimate')} only in {name}: {_listed(keys)}"))
    if comparison.unlike:
        keys = comparison.unlike
        print(
            shown(f"{counted(len(keys), 'estimate')} with other numbers, buckets or names: {_listed(keys)}")
        )
    for sentence in _summary(comparison):
        print(sentence)


def _print_rows(rows: Sequence[Difference], sides: Sequence[str]) -> None:
    if not rows:
        return
    texts = [_row(difference, sides) for difference in rows]
    lengths = [difference.key.length for difference in rows]
    if len(set(lengths)) > 1:
        for text, length in zip(texts, lengths, strict=True):
            text["window"] = text["window"] or (format_duration(length) if length else "")
    columns = (*_KEYS, *_columns(sides), "difference", "interval", "verdict")
    names = [name for name in columns if any(text[name] for text in texts)]
    print_fitting(Console(), names, texts, keys=_KEYS, left=("verdict",))


def _columns(sides: Sequence[str]) -> tuple[str, str]:
    """The headers of both sides: their names, unless one is that of another column."""
    first, second = sides
    others = {*_KEYS, "difference", "interval", "verdict"}
    return ("first", "second") if first == second or others & {first, second} else (first, second)


def _row(difference: Difference, sides: Sequence[str]) -> dict[str, str]:
    ends = difference.low, difference.high
    digits, error = 6, difference.error
    if error is not None:
        digits = digits_of(difference.first - error, difference.first + error, 6, of_width=2)
    texts, others = as_texts(difference.key), as_texts(difference.other_key)
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
        "interval": "" if None in ends else "{:+.4g} to {:+.4g}".format(*ends),
        "verdict": difference.verdict + (" (flagged)" if difference.flag else ""),
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


def _summary(comparison: Comparison) -> Iterator[str]:
    """How many numbers of each family differ, and what that is worth."""
    for family, z in comparison.z.items():
        of_family = [row for row in comparison.differences if row.family == family]
        beyond = sum(row.beyond for row in of_family)
        unknown = sum(row.verdict == NO_ERROR for row in of_family)
        perhaps = sum(row.verdict.startswith("perhaps") for row in of_family)
        differ = "differs" if beyond == 1 else "differ"
        yield (
            f"{family}: {beyond:,} of {len(of_family):,} {differ} by more than {z:.2f} standard errors"
            + (f", and {perhaps:,} perhaps" if perhaps else "")
            + (f"; no error is known of {unknown:,}" if unknown else "")
        )
    yield (
        f"the intervals of a family hold together: at most {FALSE_ALARMS:.0%} of pairs of the same values "
        "have any difference in it"
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
                "beyond": difference.beyond,
                "flag": difference.flag,
                **({} if between is None else _more(difference)),
            }
            for difference in comparison.differences
        ],
        "only_first": list(map(as_json, comparison.only_first)),
        "only_second": list(map(as_json, comparison.only_second)),
        "unlike": list(map(as_json, comparison.unlike)),
    }


def _more(difference: Difference) -> dict[str, Any]:
    """What two parts of one folder have besides: the window and group of the second."""
    second = as_json(difference.other_key)
    return {
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
