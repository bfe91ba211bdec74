"""``ldpbeam check``: whether numbers of a finished run are beyond thresholds, as an exit code."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from rich.console import Console

from ldpbeam.pipelines.commands.diff import as_json, as_texts
from ldpbeam.pipelines.errors import BEYOND, DONE
from ldpbeam.pipelines.estimates.check import Checked, checked
from ldpbeam.pipelines.estimates.read import read_results
from ldpbeam.pipelines.fitting import print_fitting
from ldpbeam.pipelines.printing import document
from ldpbeam.statistics import counted

#: This many numbers are printed; with ``--json`` all are.
MOST_ROWS = 60
_KEYS = ("attribute", "window", "group", "estimate", "condition")


def check_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam check`` and return its exit code: DONE, or BEYOND.

    Raises:
        UserError: if the folder cannot be read, a condition is invalid, or no estimate has its number.
    """
    results = read_results(options.folder)
    rows = checked(results, options.conditions, estimate=options.estimate, latest=options.latest)
    alarms = ("certainly", "possibly") if options.possibly else ("certainly",)
    alarm = any(row.verdict in alarms for row in rows)
    code = BEYOND if alarm else DONE
    if document({"beyond": alarm, "numbers": [_as_json(row) for row in rows]}):
        return code
    crossed = [row for row in rows if row.verdict != "no"]
    if crossed:
        texts = [_as_texts(row) for row in crossed[:MOST_ROWS]]
        columns = (*_KEYS, "value", "interval", "beyond", "flag")
        names = [name for name in columns if any(text[name] for text in texts)]
        print_fitting(Console(), names, texts, keys=_KEYS, left=("beyond", "flag"))
    if len(crossed) > MOST_ROWS:
        print(f"and {len(crossed) - MOST_ROWS:,} more; --json has all")
    verdicts = Counter(row.verdict for row in rows)
    print(
        f"{verdicts['certainly']:,} of {counted(len(rows), 'number')} certainly beyond the threshold, "
        f"{verdicts['possibly']:,} possibly"
    )
    return code


def _as_texts(row: Checked) -> dict[str, str]:
    return {
        **as_texts(row.place),
        "condition": row.condition.text,
        "value": f"{row.value:.6g}",
        "interval": f"{row.interval[0]:.6g} to {row.interval[1]:.6g}" if row.interval else "",
        "beyond": row.verdict,
        "flag": row.flag,
    }


def _as_json(row: Checked) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    return {
        **as_json(row.place),
        "condition": row.condition.text,
        "number": row.condition.number,
        "threshold": row.condition.threshold,
        "value": row.value,
        "low": low,
        "high": high,
        "verdict": row.verdict,
        "flag": row.flag,
    }
