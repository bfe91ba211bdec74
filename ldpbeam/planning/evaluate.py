"""``ldpbeam evaluate``: a study on populations of people, as a table and figures."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rich.console import Console

from ldpbeam.answers.fitting import print_fitting
from ldpbeam.answers.people import read_people
from ldpbeam.charts.figures import theme
from ldpbeam.clients.values import scaled
from ldpbeam.command_line.checks import (
    check_people,
    output_folder,
    people_columns,
    refuse_all_outside,
    study_of,
    warn_of_rows,
)
from ldpbeam.domains import KeyValuePairs, Pair
from ldpbeam.errors import DONE, UserError, check_charts
from ldpbeam.library.evaluate import charts_of
from ldpbeam.printing import document, progress_bar
from ldpbeam.processes import cores
from ldpbeam.study import Study
from ldpbeam.trials.evaluation import attribute_in, evaluation, run, summarised
from ldpbeam.untrusted import shown


def evaluate_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam evaluate`` and return its exit code."""
    study = study_of(options.study)
    name = attribute_in(study, options.attribute)
    people = _people(options, study, name)
    if not options.no_figures:
        check_charts("figures need", ", or give --no-figures")
    wanted = evaluation(
        study,
        name,
        populations=options.population,
        values=people,
        epsilons=options.epsilons,
        users=options.users,
        seeds=range(options.seed, options.seed + options.trials),
        mechanisms=_names(options.mechanisms),
        estimators=_names(options.estimators),
    )
    folder = output_folder(options.output)
    with progress_bar("trials", len(wanted.cases)) as show:
        results = run(wanted, options.processes or cores(), show)
    rows = summarised(wanted, results)
    _write_table(folder / "table.csv", rows)
    written = ["table.csv"]
    for kind, chart in ({} if options.no_figures else charts_of(rows)).items():
        chart.configure(**theme()).save(folder / f"{kind}.svg")
        written.append(f"{kind}.svg")
    document({"output": options.output, "trials": len(wanted.cases), "files": written, "errors": rows})
    _print(rows)
    count = len(wanted.cases)
    print(f"{count:,} trial{'s' if count > 1 else ''}; {', '.join(written)} are in {shown(options.output)}")
    return DONE


def _people(options: argparse.Namespace, study: Study, name: str) -> NDArray[Any] | KeyValuePairs | None:
    """The values of the people of ``--data``, if it is given, on the mechanisms' scale."""
    if options.data is None:
        check_people(options, "--data", options.data)
        return None
    domain = study.attribute(name).domain
    if isinstance(domain, Pair):
        raise UserError("--data: people of a pair are drawn from --population; in Python, give their values")
    people = read_people(options.data, people_columns(options, domain), domain)
    refuse_all_outside(people, options.data, name)
    warn_of_rows(people)
    return scaled(domain, people.values)


def _names(given: list[str]) -> list[str]:
    """Names that are given one by one, or with commas between them."""
    return [name for part in given for name in part.split(",") if name]


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _print(rows: list[dict[str, Any]]) -> None:
    """A row for each case and estimate, a column for each kind of error."""
    kinds = list(dict.fromkeys(row["error"] for row in rows))
    keys = ("population", "mechanism", "epsilon", "people", "estimate")
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        epsilon = "" if row["epsilon"] is None else f"{row['epsilon']:g}"
        of = (row["population"], row["mechanism"], epsilon, f"{row['users']:,}", row["estimate"])
        error = "" if row["standard_error"] is None else f" +-{row['standard_error']:.1g}"
        lines.setdefault(of, dict(zip(keys, of, strict=True)))[row["error"]] = f"{row['average']:.3g}{error}"
    print_fitting(Console(), [*keys, *kinds], list(lines.values()), keys=keys)
