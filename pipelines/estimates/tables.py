"""What a run prints: the table of estimates, the accounting line, and the reasons of dead letters."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ldpbeam.pipelines.terminal import shown
from ldpbeam.schemas.outputs.estimates import SolvedEstimate, estimate_fields
from ldpbeam.study import Study

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


def print_estimates(
    console: Console,
    study: Study,
    estimates: Sequence[SolvedEstimate],
    errors: Sequence[Mapping[str, float]] | None,
) -> None:
    """Print the table of estimates."""
    print_whole(console, estimates_table(study, estimates, errors))


def print_whole(console: Console, table: Table) -> None:
    """Print a table as wide as it needs: a terminal folds long lines, and no number is cut."""
    Console(width=10_000, force_terminal=console.is_terminal).print(table)


def estimate_rows(
    study: Study,
    estimates: Sequence[SolvedEstimate],
    errors: Sequence[Mapping[str, float]] | None = None,
) -> tuple[list[str], list[dict[str, str]]]:
    """(the columns that some row fills, the texts of one row per estimate)."""
    rows = [_row(estimate_fields(study, solved)) for solved in estimates]
    if errors is not None:
        for row, found in zip(rows, errors, strict=True):
            row |= {_ERRORS[name]: f"{value:.4g}" for name, value in found.items()}
    return [name for name in _COLUMNS if any(row.get(name) for row in rows)], rows


def estimates_table(
    study: Study,
    estimates: Sequence[SolvedEstimate],
    errors: Sequence[Mapping[str, float]] | None = None,
) -> Table:
    """One row per estimate; columns that no row fills are left out."""
    names, rows = estimate_rows(study, estimates, errors)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        right = name not in ("attribute", "window", "group", "estimate", "estimator", "notes")
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "notes")
    chosen = rows if len(rows) <= MOST_ROWS else rows[: MOST_ROWS // 2] + rows[-MOST_ROWS // 2 :]
    for place, row in enumerate(chosen):
        if len(chosen) < len(rows) and place == MOST_ROWS // 2:
            table.add_row(*("..." for _ in names))
        # Text, since names from reports may look like markup.
        table.add_row(*(Text(shown(row.get(name, ""))) for name in names))
    return table


def summary_text(study: Study, estimates: Sequence[SolvedEstimate], found: Mapping[str, Any]) -> str:
    """What a run prints: the table of estimates, the accounting, and the reasons of dead letters."""
    console = Console(width=10_000, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        if estimates:
            console.print(estimates_table(study, estimates))
        else:
            console.print("no estimates: no report could be used")
        console.print(accounting_line(found), highlight=False)
        if found["dead_letters_by_reason"]:
            print_reasons(console, found)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


_COLUMNS = (
    "attribute", "window", "group", "estimate", "estimator", "reports", "users", "mean", "± se",
    "interval of mean", "5%", "median", "95%", "most frequent", *_ERRORS.values(), "iterations", "notes",
)  # fmt: skip


def _row(record: Mapping[str, Any]) -> dict[str, str]:
    row = {
        "attribute": record["attribute"],
        "window": record["window_start"] or "",
        "group": record["group"] or (f"({record['other_groups']} more)" if record["other_groups"] else ""),
        "estimate": record["name"],
        "estimator": record["estimator"],
        "reports": f"{record['reports']:,}",
        "users": "" if record["users"] is None else f"{record['users']:,}",
        "iterations": str(record["n_iterations"] or ""),
        "notes": "; ".join(record.get("warnings", ())),
    }
    if record.get("mean") is not None:
        row["mean"] = f"{record['mean']:.6g}"
    if record.get("standard_error") is not None:
        row["± se"] = f"{record['standard_error']:.2g}"
    intervals = record.get("intervals") or {}
    if "mean" in intervals:
        row["interval of mean"] = "{low:.5g} to {high:.5g}".format(**intervals["mean"])
    quantiles = record.get("quantiles") or {}
    for level, name in (("0.05", "5%"), ("0.5", "median"), ("0.95", "95%")):
        if level in quantiles:
            row[name] = f"{quantiles[level]:.5g}"
    if record.get("frequencies") is not None:
        names = record.get("categories") or record["keys"]
        means = record.get("key_means") or [None] * len(names)
        triples = sorted(
            zip(record["frequencies"], names, means, strict=True), key=lambda triple: triple[:2], reverse=True
        )
        row["most frequent"] = ", ".join(
            f"{name} {share:.3f}" + ("" if mean is None else f" (mean {mean:.4g})")
            for share, name, mean in triples[:3]
        )
    return row


def accounting_line(found: Mapping[str, Any]) -> str:
    """The identity that every run must satisfy, with its numbers: reports in = used + duplicates + ..."""
    parts = ("used", "duplicates", "late", "out_of_range", "dead_letters")
    total = sum(found[part] for part in parts)
    sign = "=" if total == found["in"] else "is NOT"
    terms = " + ".join(f"{found[part]:,} {part.replace('_', ' ')}" for part in parts)
    line = f"{found['in']:,} reports in {sign} {terms}"
    if found["damaged_files"]:
        line += f"\n{damage_line(found['damaged_files'])}"
    if "used_in_windows" in found:
        line += f"\n{found['used_in_windows']:,} report-windows used: windows slide, and share reports"
    return line


def damage_line(damaged_files: int) -> str:
    """A sentence on damaged files and what they lost; there is at least one."""
    if damaged_files == 1:
        return "1 file is damaged: how many reports it lost is not known"
    return f"{damaged_files:,} files are damaged: how many reports they lost is not known"


def print_reasons(console: Console, found: Mapping[str, Any]) -> None:
    """Print a table of the reasons of dead letters, with the number of reports for each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("dead letters")
    table.add_column("reports", justify="right")
    for reason, reports in found["dead_letters_by_reason"].items():
        table.add_row(reason.replace("_", " "), f"{reports:,}")
    console.print(table)
