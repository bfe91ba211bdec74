"""What a run prints: the table of estimates, the accounting line, and the reasons of dead letters."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from ldpbeam.answers.fitting import print_fitting, table_of
from ldpbeam.answers.partial import with_partial
from ldpbeam.certainty import CERTAIN, IF_SMOOTH
from ldpbeam.domains import digits_of
from ldpbeam.pair_answer import PairAnswer
from ldpbeam.printing import note
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.times import format_duration
from ldpbeam.transforms.reports.counts import FATES, IN_OPEN_WINDOWS, ROWS_OF_COUNTS
from ldpbeam.words import counted

#: Tables with more rows show only their start and end; the files have every estimate.
MOST_ROWS = 60

_ERRORS = {
    "wasserstein": "W1",
    "kolmogorov_smirnov": "KS",
    "jensen_shannon": "JS",
    "mean_absolute_error": "MAE",
    "uniform_guess": "MAE of uniform",
    "key_mean_error": "error of means",
    "mean": "mean - truth",
}
#: What the errors mean, for a reader of the table (:mod:`ldpbeam.metrics`).
MEANINGS = {
    "W1": "Wasserstein distance from the true distribution: how far shares must be moved on average, in the "
    "unit of the values",
    "KS": "Kolmogorov-Smirnov distance from it: the largest difference of two cumulative shares, from 0 to 1",
    "JS": "Jensen-Shannon distance from it: 0 for the same distribution, 0.83 for two without common values",
    "MAE": "mean absolute error of the shares",
    "MAE of uniform": "the same, if every category were given the same share",
}


def print_estimates(
    console: Console,
    estimates: Sequence[EstimateRecord],
    errors: Sequence[Mapping[str, float]] | None = None,
) -> None:
    """Print the table of estimates, and what its columns mean where their names do not say so."""
    names, rows = estimate_rows(estimates, errors)
    if not rows:
        return
    print_fitting(console, names, _shortened(names, rows), keys=_KEYS, left=_WORDS)
    for name, condition in _CONDITIONS.items():
        if name in names:
            level = 100 * next(record.intervals.level for record in estimates if record.intervals)
            print(f"{name}: a {level:.4g}% interval that holds {condition}")
    for name in names:
        if name in MEANINGS:
            print(f"{name}: {MEANINGS[name]}")


def estimate_rows(
    estimates: Sequence[EstimateRecord], errors: Sequence[Mapping[str, float]] | None = None
) -> tuple[list[str], list[dict[str, str]]]:
    """(the columns that some row fills, the texts of one row per estimate)."""
    rows = [_row(record) for record in with_partial(estimates)]
    if errors is not None:
        for row, errors_of_row in zip(rows, errors, strict=True):
            row |= {_ERRORS[name]: f"{value:.4g}" for name, value in errors_of_row.items()}
    return [name for name in _COLUMNS if any(row.get(name) for row in rows)], rows


def _shortened(names: Sequence[str], rows: list[dict[str, str]]) -> list[dict[str, str]]:
    if len(rows) <= MOST_ROWS:
        return rows
    return [*rows[: MOST_ROWS // 2], dict.fromkeys(names, "..."), *rows[-MOST_ROWS // 2 :]]


def summary_text(estimates: Sequence[EstimateRecord], counts: Mapping[str, Any]) -> str:
    """What a run prints: the table of estimates, the accounting, and the reasons of dead letters."""
    # In a notebook, a console would show an empty output.
    console = Console(width=10_000, file=io.StringIO(), color_system=None, force_jupyter=False)
    with console.capture() as captured:
        if estimates:
            names, rows = estimate_rows(estimates)
            console.print(table_of(names, _shortened(names, rows), (*_KEYS, *_WORDS)))
        else:
            console.print(f"no estimates: {why_none(counts)}")
        console.print(accounting_line(counts), highlight=False)
        print_reasons(console, counts)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def why_none(counts: Mapping[str, Any]) -> str:
    """Why there is no estimate, from the accounting; that of a roll-up is empty, as it reads no report."""
    if counts.get("used", 1):
        return "every window or group has fewer users or reports than publish.at_least"
    return "no report could be used"


#: When the interval of a mean holds, by its column.
_CONDITIONS = {
    "certain mean": "whatever people's values are",
    "mean if smooth": "if people are spread smoothly",
}
_KEYS = ("attribute", "window", "group", "estimate")
_WORDS = ("estimator", "largest shares", "dependence", "notes")
_COLUMNS = (
    *_KEYS, "estimator", "reports", "mean", *_CONDITIONS, "5%", "median", "95%", "largest shares",
    "dependence", *_ERRORS.values(), "± se", "users", "iterations", "notes",
)  # fmt: skip


def _row(record: EstimateRecord) -> dict[str, str]:
    notes = [*record.warnings, *record.notes]
    if record.partial is not None:
        notes.append(f"it has {record.partial:.0%} of the usual reports, and may cover only part of its time")
    row = {
        "attribute": record.attribute,
        "window": _window(record),
        "group": record.group or (f"({record.other_groups} more)" if record.other_groups else ""),
        "estimate": record.name,
        "estimator": record.estimator,
        "reports": f"{record.reports:,}",
        "users": "" if record.users is None else f"{record.users:,}",
        "iterations": str(record.n_iterations or ""),
        "notes": "; ".join(notes),
    }
    if record.mean is not None:
        row["mean"] = _text(record, record.mean, 6)
    if record.standard_error is not None:
        row["± se"] = f"{record.standard_error:.2g}"
    for condition, name in ((CERTAIN, "certain mean"), (IF_SMOOTH, "mean if smooth")):
        ends = record.intervals.ends.get(condition, {}) if record.intervals else {}
        if "mean" in ends:
            row[name] = " to ".join(_text(record, end, 5) for end in ends["mean"].columns[0].tolist())
    quantiles = record.quantiles or {}
    for level, name in (("0.05", "5%"), ("0.5", "median"), ("0.95", "95%")):
        if level in quantiles:
            row[name] = _text(record, quantiles[level], 5)
    if record.frequencies is not None and record.labels is not None:
        means: Sequence[float | None] = record.key_means or [None] * len(record.labels)
        triples = sorted(
            zip(record.frequencies, record.labels, means, strict=True),
            key=lambda triple: triple[:2],
            reverse=True,
        )
        row["largest shares"] = ", ".join(
            f"{name} {share:.3f}" + ("" if mean is None else f" (mean {mean:.4g})")
            for share, name, mean in triples[:3]
        )
    if record.pair is not None:
        row["dependence"] = dependence_of(record.pair)
    return row


def dependence_of(pair: PairAnswer) -> str:
    """How two attributes depend on each other, in words."""
    sure = f"p = {pair.p_value:.2g}" if pair.p_value >= 1e-4 else "p < 0.0001"
    name = "correlation" if pair.correlation else "mutual information"
    number = pair.correlation or pair.mutual_information
    ends = f" ({number.low[0]:.2f} to {number.high[0]:.2f})" if number.low and number.high else ""
    return f"{name} {number.value[0]:.2f}{ends}, {sure}"


def _text(record: EstimateRecord, number: float, usual: int) -> str:
    """A number with ``usual`` digits, or as many as the range has or, if that is not known, the interval."""
    digits = usual
    if record.bucket_edges is not None:
        digits = digits_of(record.bucket_edges[0], record.bucket_edges[-1], usual)
    elif record.intervals is not None and (ends := record.intervals.of("mean", IF_SMOOTH)) is not None:
        digits = digits_of(float(ends[0, 0]), float(ends[0, 1]), usual, of_width=2)
    return f"{number:.{digits}g}"


def _window(record: EstimateRecord) -> str:
    """The start of a window, and how long it is if the windows inside were joined by user."""
    if record.window_name is not None or record.window is None or not record.joined:
        return record.window_name or record.window_start or ""
    return f"{record.window_start} ({format_duration(record.window[1] - record.window[0])})"


def accounting_line(counts: Mapping[str, Any]) -> str:
    """The identity that every run must satisfy, with its numbers: reports in = used + duplicates + ..."""
    parts = [*FATES, *([IN_OPEN_WINDOWS] if counts.get(IN_OPEN_WINDOWS) else [])]
    sign = "=" if sum(counts[part] for part in parts) == counts["in"] else "is NOT"
    terms = " + ".join(f"{counts[part]:,} {part.replace('_', ' ')}" for part in parts)
    line = f"{counts['in']:,} reports in {sign} {terms}"
    if rows := counts.get(ROWS_OF_COUNTS):
        line = f"{counts['in']:,} reports in {counted(rows, 'row')} of counts; whoever counted them left out"
        line += " duplicates and late or impossible reports"
    if counts["damaged_files"]:
        line += f"\n{damage_line(counts['damaged_files'])}"
    if "used_in_windows" in counts:
        line += f"\n{counts['used_in_windows']:,} report-windows used: windows slide, and share reports"
    return line


def bad_share(counts: Mapping[str, Any]) -> float:
    """The share of the reports in the input that became dead letters; 0 of none."""
    return counts["dead_letters"] / counts["in"] if counts["in"] else 0.0


def damage_line(damaged_files: int) -> str:
    """A sentence on damaged files and what they lost; there is at least one."""
    are = counted(damaged_files, "file is", "files are")
    return f"{are} damaged: how many reports {'it' if damaged_files == 1 else 'they'} lost is not known"


def print_reasons(console: Console, counts: Mapping[str, Any], folder: str = "") -> None:
    """Print a table of the reasons of dead letters, if there are any, with the number of reports for each.

    Args:
        console: where it is printed.
        counts: the accounting of a run.
        folder: the output folder in which they are; empty if they are in none.
    """
    if not counts["dead_letters_by_reason"]:
        return
    rows = [
        {"dead letters": reason.replace("_", " "), "reports": f"{reports:,}"}
        for reason, reports in counts["dead_letters_by_reason"].items()
    ]
    console.print(table_of(("dead letters", "reports"), rows, left=("dead letters",)))
    if folder:
        note(f"what was wrong with them: ldpbeam dead-letters {folder}")
