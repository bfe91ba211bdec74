"""``ldpbeam diff``: what changed between two runs, and whether by more than its error."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ldpbeam.pipelines.errors import DIFFERS, DONE
from ldpbeam.pipelines.estimates.difference import FALSE_ALARMS, Comparison, Difference, compared
from ldpbeam.pipelines.estimates.numbers import Place
from ldpbeam.pipelines.estimates.read import read_results
from ldpbeam.pipelines.fitting import print_fitting
from ldpbeam.pipelines.printing import document, note
from ldpbeam.statistics import counted
from ldpbeam.times import rfc3339
from ldpbeam.untrusted import shown

#: This many differences are printed; with ``--json`` all are.
MOST_ROWS = 60
_KEYS = ("attribute", "window", "group", "estimate", "number")


def diff_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam diff`` and return its exit code: DONE, or DIFFERS.

    Raises:
        UserError: if one of the folders cannot be read.
    """
    first, second = map(read_results, options.folders)
    comparison = compared(first, second)
    code = DIFFERS if comparison.differs else DONE
    if first.about.study_fingerprint != second.about.study_fingerprint:
        note("the two folders are of different studies, or of different versions of one")
    if document(_as_json(comparison)):
        return code
    # Every mean is printed, and what else is beyond its error.
    rows = [
        difference
        for difference in comparison.differences
        if difference.beyond or difference.number == "mean"
    ]
    _print_rows(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        print(f"and {len(rows) - MOST_ROWS:,} more; --json has all")
    for name, places in zip(options.folders, (comparison.only_first, comparison.only_second), strict=True):
        if places:
            print(shown(f"{counted(len(places), 'estimate')} only in {name}: {_listed(places)}"))
    if comparison.unlike:
        places = comparison.unlike
        print(shown(f"{counted(len(places), 'estimate')} with other buckets or names: {_listed(places)}"))
    print(_summary(comparison))
    return code


def _print_rows(rows: Sequence[Difference]) -> None:
    if not rows:
        return
    texts = [_row(difference) for difference in rows]
    columns = (*_KEYS, "first", "second", "difference", "± se", "beyond error")
    names = [name for name in columns if any(text[name] for text in texts)]
    print_fitting(Console(), names, texts, keys=_KEYS, left=("beyond error",))


def _row(difference: Difference) -> dict[str, str]:
    return {
        **as_texts(difference.place),
        "number": difference.number,
        "first": f"{difference.first:.6g}",
        "second": f"{difference.second:.6g}",
        "difference": f"{difference.second - difference.first:+.4g}",
        "± se": "" if difference.error is None else f"{difference.error:.2g}",
        "beyond error": "yes"
        if difference.beyond
        else ""
        if difference.error is not None
        else "no error is known",
    }


def as_texts(place: Place) -> dict[str, str]:
    """The estimate as columns of a printed table."""
    attribute, name, window, group, rest = place
    return {
        "attribute": attribute,
        "window": rfc3339(window[0]) if window else "",
        "group": "(more)" if rest else group or "",
        "estimate": name,
    }


def _listed(places: Sequence[Place]) -> str:
    """The first places in words."""
    told = [
        " ".join(
            part
            for part in (
                attribute,
                name,
                rfc3339(window[0]) if window else "",
                "(more groups)" if rest else group or "",
            )
            if part
        )
        for attribute, name, window, group, rest in places[:5]
    ]
    return ", ".join([*told, *(["..."] if len(places) > len(told) else [])])


def _summary(comparison: Comparison) -> str:
    changed = sum(difference.first != difference.second for difference in comparison.differences)
    beyond = sum(difference.beyond for difference in comparison.differences)
    unknown = sum(
        difference.error is None and difference.first != difference.second
        for difference in comparison.differences
    )
    text = (
        f"{changed:,} of {counted(len(comparison.differences), 'number')} changed, {beyond:,} by more than "
        f"their error ({comparison.z:.2f} standard errors of the difference; at most {FALSE_ALARMS:.0%} of "
        "pairs of runs of the same values have any)"
    )
    return text + (f"; of {unknown:,} that changed no error is known" if unknown else "")


def _as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "z": comparison.z,
        "false_alarms": FALSE_ALARMS,
        "differs": comparison.differs,
        "numbers": [
            {
                **as_json(difference.place),
                "number": difference.number,
                "first": difference.first,
                "second": difference.second,
                "standard_error": difference.error,
                "beyond": difference.beyond,
            }
            for difference in comparison.differences
        ],
        "only_first": list(map(as_json, comparison.only_first)),
        "only_second": list(map(as_json, comparison.only_second)),
        "unlike": list(map(as_json, comparison.unlike)),
    }


def as_json(place: Place) -> dict[str, Any]:
    """The estimate as fields of ``--json``."""
    attribute, name, window, group, rest = place
    return {
        "attribute": attribute,
        "estimate": name,
        "window_start": rfc3339(window[0]) if window else None,
        "window_end": rfc3339(window[1]) if window else None,
        "group": group,
        "other_groups": rest,
    }
