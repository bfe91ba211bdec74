"""``ldpbeam diff``: what changed between two runs, and whether by more than its error."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ldpbeam.pipelines.errors import DIFFERS, DONE
from ldpbeam.pipelines.fitting import print_fitting
from ldpbeam.pipelines.printing import document, note
from ldpbeam.pipelines.results.compare import FALSE_ALARMS, Comparison, Difference, compared
from ldpbeam.pipelines.results.numbers import Place
from ldpbeam.pipelines.results.read import read_results
from ldpbeam.pipelines.terminal import shown
from ldpbeam.statistics import counted
from ldpbeam.times import rfc3339

#: So many differences are printed; with ``--json`` all are.
MOST_ROWS = 60
_KEYS = ("attribute", "window", "group", "estimate", "number")


def diff_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam diff`` and return its exit code: DONE, or DIFFERS.

    Raises:
        UserError: if one of the folders cannot be read.
    """
    first, second = map(read_results, options.folders)
    found = compared(first, second)
    code = DIFFERS if found.differs else DONE
    if first.about.study_fingerprint != second.about.study_fingerprint:
        note("the two folders are of different studies, or of different versions of one")
    if document(_as_json(found)):
        return code
    # Every mean is printed, and what else is beyond its error.
    rows = [own for own in found.differences if own.beyond or own.number == "mean"]
    _print_rows(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        print(f"and {len(rows) - MOST_ROWS:,} more; --json has all")
    for name, places in zip(options.folders, (found.only_first, found.only_second), strict=True):
        if places:
            print(shown(f"{counted(len(places), 'estimate')} only in {name}: {_listed(places)}"))
    if found.unlike:
        places = found.unlike
        print(shown(f"{counted(len(places), 'estimate')} with other buckets or names: {_listed(places)}"))
    print(_summary(found))
    return code


def _print_rows(rows: Sequence[Difference]) -> None:
    if not rows:
        return
    texts = [_row(own) for own in rows]
    columns = (*_KEYS, "first", "second", "difference", "± se", "beyond error")
    names = [name for name in columns if any(text[name] for text in texts)]
    print_fitting(Console(), names, texts, keys=_KEYS, left=("beyond error",))


def _row(own: Difference) -> dict[str, str]:
    return {
        **as_texts(own.place),
        "number": own.number,
        "first": f"{own.first:.6g}",
        "second": f"{own.second:.6g}",
        "difference": f"{own.second - own.first:+.4g}",
        "± se": "" if own.error is None else f"{own.error:.2g}",
        "beyond error": "yes" if own.beyond else "" if own.error is not None else "no error is known",
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


def _summary(found: Comparison) -> str:
    changed = sum(own.first != own.second for own in found.differences)
    beyond = sum(own.beyond for own in found.differences)
    unknown = sum(own.error is None and own.first != own.second for own in found.differences)
    text = (
        f"{changed:,} of {counted(len(found.differences), 'number')} changed, {beyond:,} by more than their "
        f"error ({found.z:.2f} standard errors of the difference; at most {FALSE_ALARMS:.0%} of pairs of "
        "runs of the same values have any)"
    )
    return text + (f"; of {unknown:,} that changed no error is known" if unknown else "")


def _as_json(found: Comparison) -> dict[str, Any]:
    return {
        "z": found.z,
        "false_alarms": FALSE_ALARMS,
        "differs": found.differs,
        "numbers": [
            {
                **as_json(own.place),
                "number": own.number,
                "first": own.first,
                "second": own.second,
                "standard_error": own.error,
                "beyond": own.beyond,
            }
            for own in found.differences
        ],
        "only_first": list(map(as_json, found.only_first)),
        "only_second": list(map(as_json, found.only_second)),
        "unlike": list(map(as_json, found.unlike)),
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
