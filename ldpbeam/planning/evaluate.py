"""``ldpbeam evaluate``: a study on populations of people, as a table and figures."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ldpbeam.answers.fitting import print_fitting
from ldpbeam.answers.people import People, read_people
from ldpbeam.command_line.checks import (
    check_attribute,
    check_people,
    output_folder,
    people_columns,
    refuse_all_outside,
    warn_of_rows,
)
from ldpbeam.errors import DONE, UserError, check_charts
from ldpbeam.estimators.solving import check
from ldpbeam.printing import document, progress_bar
from ldpbeam.processes import cores
from ldpbeam.schemas.study.yaml_file import parse_study, study_text
from ldpbeam.study import Study
from ldpbeam.trials.evaluation import evaluation, run, summarised, with_estimators
from ldpbeam.trials.populations import names_for
from ldpbeam.trials.trial import untried
from ldpbeam.untrusted import shown


def evaluate_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam evaluate`` and return its exit code."""
    text = study_text(options.study)
    study = parse_study(text, options.study)
    name = _attribute(study, options.attribute)
    if options.estimators:
        for estimator in options.estimators:
            try:
                check(estimator, study.attribute(name), study.attribute(name).services, {})
            except ValueError as error:
                raise UserError(f"--estimators {estimator}: {error}") from None
        text = with_estimators(text, name, options.estimators)
        study = parse_study(text)
    for epsilon in options.epsilon:
        if not 0.0 < epsilon < math.inf:
            raise UserError(f"--epsilon {epsilon:g}: a number above 0")
    people = _people(options, study, name)
    populations = _populations(study, name, options.population, people)
    if not options.no_figures:
        check_charts("figures need", ", or give --no-figures")
    seeds = range(options.seed, options.seed + options.trials)
    wanted = evaluation(text, name, populations, people, options.epsilon, options.users, seeds)
    folder = output_folder(options.output)
    with progress_bar("trials", None) as show:
        results = run(
            wanted,
            folder / "trials.jsonl",
            options.processes or cores(),
            lambda now, left: show(now, now + left),
        )
    rows = summarised(wanted, results)
    _write_table(folder / "table.csv", rows)
    figures = [] if options.no_figures else draw_figures(rows, folder)
    written = ["trials.jsonl", "table.csv", *(path.name for path in figures)]
    document({"output": options.output, "trials": len(wanted.cases), "files": written, "errors": rows})
    _print(rows)
    count = len(wanted.cases)
    print(f"{count:,} trial{'s' if count > 1 else ''}; {', '.join(written)} are in {shown(options.output)}")
    return DONE


def _attribute(study: Study, asked: str | None) -> str:
    if asked is None and len(study.attributes) > 1:
        raise UserError(f"--attribute is missing: the study has {', '.join(study.attributes)}")
    check_attribute(asked, study)
    name = asked or next(iter(study.attributes))
    reason = untried(study.attribute(name))
    if reason is not None:
        raise UserError(f"{name!r} cannot be evaluated: {reason}")
    return name


def _people(options: argparse.Namespace, study: Study, name: str) -> People | None:
    """The people of ``--data``, if it is given."""
    if options.data is None:
        check_people(options, "--data", options.data)
        return None
    domain = study.attribute(name).domain
    people = read_people(options.data, people_columns(options, domain), domain)
    refuse_all_outside(people, options.data, name)
    warn_of_rows(people)
    return people


def _populations(study: Study, name: str, asked: list[str], people: People | None) -> list[str]:
    known = names_for(study.attribute(name).domain)
    for population in asked:
        if population not in known:
            raise UserError(f"--population {population}: {name!r} can have {', '.join(known)}")
    if asked or people is not None:
        return asked
    return list(known)


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _print(rows: list[dict[str, Any]]) -> None:
    """A row for each case and estimate, a column for each kind of error."""
    kinds = list(dict.fromkeys(row["error"] for row in rows))
    keys = ("population", "epsilon", "people", "estimate")
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        epsilon = "" if row["epsilon"] is None else f"{row['epsilon']:g}"
        of = (row["population"], epsilon, f"{row['users']:,}", row["estimate"])
        lines.setdefault(of, dict(zip(keys, of, strict=True)))[row["error"]] = f"{row['mean']:.3g}"
    print_fitting(Console(), [*keys, *kinds], list(lines.values()), keys=keys)


#: The title of an axis, by the kind of error.
TITLES = {
    "wasserstein": "W1 (Wasserstein distance)",
    "kolmogorov_smirnov": "KS (Kolmogorov-Smirnov distance)",
    "jensen_shannon": "square root of the Jensen-Shannon divergence",
    "mean_absolute_error": "mean absolute error of the shares",
    "mean_squared_error": "mean squared error of the shares",
    "uniform_guess": "mean absolute error of the uniform guess",
    "key_mean_error": "mean absolute error of the key means",
    "key_mean_squared_error": "mean squared error of the key means",
    "mean": "absolute error of the mean",
    "variance": "absolute error of the variance",
    "quantiles": "mean absolute error of the quantiles",
}


def draw_figures(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Draw the rows of the table, and give the files.

    The error is a line per estimate over epsilon, or over the number of people where there is one epsilon
    only. Populations stand side by side, and numbers of people below each other.

    Args:
        rows: those of :func:`~ldpbeam.trials.evaluation.summarised`.
        folder: where ``KIND.svg`` is written for each kind of error.
    """
    import altair as alt

    epsilons = {row["epsilon"] for row in rows}
    over, other = ("epsilon", "users") if len(epsilons) > 1 else ("users", None)
    written = []
    for kind in dict.fromkeys(row["error"] for row in rows):
        chosen = [dict(row) for row in rows if row["error"] == kind and row["mean"] > 0]
        if not chosen:
            continue
        estimates = alt.Scale(domain=list(dict.fromkeys(row["estimate"] for row in chosen)))
        data = alt.InlineData(values=chosen)
        shown = alt.Chart(data).encode(
            x=alt.X(f"{over}:Q", scale=alt.Scale(type="log", nice=False), title=over),
            y=alt.Y("mean:Q", scale=alt.Scale(type="log"), title=TITLES.get(kind, kind)),
            color=alt.Color("estimate:N", title="estimate", scale=estimates),
            shape=alt.Shape("estimate:N", title="estimate", scale=estimates),
        )
        spread: dict[str, Any] = {"column": alt.Column("population:N", title=None)}
        if other is not None:
            spread["row"] = alt.Row(f"{other}:Q", title="people")
        chart = (shown.mark_line() + shown.mark_point(filled=True)).properties(width=320, height=220)
        path = folder / f"{kind}.svg"
        chart.facet(**spread).save(path)
        written.append(path)
    return written
