"""``ldpbeam plan``: how precise a study's estimates will be, before any report is collected."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console

from ldpbeam.answers.explain import less_noise
from ldpbeam.answers.fitting import print_fitting
from ldpbeam.command_line.checks import check_attribute, study_of
from ldpbeam.errors import DONE, UserError
from ldpbeam.planning.planned import FIRST, LAST, Planned, computed, detailed, simulated
from ldpbeam.planning.planning_options import MOST_SIMULATED, MOST_USERS
from ldpbeam.printing import document, progress_bar
from ldpbeam.study import Study, attribute_of
from ldpbeam.trials.populations import names_for
from ldpbeam.trials.trial import untried
from ldpbeam.untrusted import shown


def plan_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam plan`` and return its exit code.

    Raises:
        UserError: if an option or the study cannot be used.
    """
    study = study_of(options.study)
    check_attribute(options.attribute, study.described_names)
    if options.error is not None and not 0.0 < options.error < math.inf:
        raise UserError(f"--error {options.error:g}: a number above 0")
    if options.simulate is not None and options.users > MOST_SIMULATED:
        raise UserError(f"--users {options.users:,}: at most {MOST_SIMULATED:,} people are simulated")
    wanted = {options.attribute} if options.attribute else set(study.described_names)
    # With a panel, a window has a fraction of the users.
    users = options.users if study.panel is None else max(1, options.users // study.panel.windows)
    planned = list(computed(study, wanted, users, options.error))
    if options.simulate is not None:
        tried = _tried(study, wanted, options.simulate)
        seeds = range(options.seed, options.seed + options.trials)
        with progress_bar("simulated populations", len(tried)) as show:
            for number, (name, populations) in enumerate(tried, 1):
                planned += simulated(study, name, populations, users, options.error, seeds)
                show(number, None)
    planned = [detailed(study, line) for line in planned]
    document([asdict(line) for line in planned])
    if planned:
        _print(planned, options.error)
    for sentence in _notes(study, wanted, planned, options, users):
        print(shown(sentence))
    return DONE


def _tried(study: Study, wanted: set[str], asked: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Each attribute with the populations of a line: one that is asked for and its domain has, or all."""
    possible = {
        name: names_for(study.attribute(name).domain)
        for name in study.described_names
        if name in wanted and untried(study.attribute(name)) is None
    }
    for population in asked:
        if possible and not any(population in names for names in possible.values()):
            there = "; ".join(f"{name!r} can have {', '.join(names)}" for name, names in possible.items())
            raise UserError(f"--simulate {population}: {there}")
    return [
        (name, populations)
        for name, names in possible.items()
        for populations in ([(one,) for one in asked if one in names] if asked else [names])
    ]


def _notes(
    study: Study, wanted: set[str], planned: list[Planned], options: argparse.Namespace, users: int
) -> Iterator[str]:
    """What the table's numbers mean, and what has none."""
    yield (
        "Everybody reports to every service, to the last of its versions. Errors are relative to the people "
        "who report."
    )
    if study.panel is not None:
        yield (
            f"A user answers one window in {study.panel.windows:,} (panel): errors, and people for an error, "
            f"are of the {users:,} who answer one."
        )
    if any(line.least_error is not None for line in planned):
        yield (
            "For any people, the error is the standard error of an unbiased estimate: the least and the "
            "greatest of a few populations."
        )
        yield "Estimators that smooth, such as auto, can have less error: --simulate shows theirs."
    yield from dict.fromkeys(_detail(line) for line in planned if line.finest_detail is not None)
    if any(line.one_percent_fake is not None for line in planned):
        yield (
            "1% fake: if m of the n users of a window and group are fake, they move the estimate by at most "
            "100 m/n times that, whatever they send, to any version. No test detects careful fake users."
        )
        yield (
            "Estimators without a number have no such bound, or too many categories to try every report; "
            "docs/measured.md has the worst of several attacks on each mechanism."
        )
    for name in (name for name in study.described_names if name in wanted):
        lines = [line for line in planned if name in (line.attribute, attribute_of(line.attribute))]
        reason = untried(study.attribute(name))
        if options.simulate is None and not lines:
            more = "" if reason else ": --simulate computes it"
            yield f"{name!r} has no line, because its error has no formula{more}."
        elif options.simulate is not None and all(line.uncertainty is None for line in lines):
            can = ", ".join(names_for(study.attribute(name).domain)) if reason is None else ""
            yield f"{name!r} is not simulated: {reason or f'its populations are {can}'}."
        for version in () if study.is_pair(name) else study.attribute(name).versions:
            yield from less_noise(version)
    if options.simulate is None:
        yield "--simulate adds the errors of distributions and of keys, and those that auto will have."
        return
    yield (
        f"Errors of a population are mean absolute errors of {options.trials} simulations, with their "
        "standard errors."
    )
    if not options.simulate:
        yield "The population is that with the greatest error of all that --simulate knows."
    yield "A mean absolute error of a mean is about 0.8 of its standard error."


def _detail(line: Planned) -> str:
    """What an estimate of numbers can show."""
    widths = (f"{_number(width)} ({name})" for name, width in line.certain_widths.items())
    return (
        f"{line.attribute!r}, {line.estimate}: reports of {line.users:,} people show no detail finer than "
        f"{line.finest_detail:.0%} of the range. Certain intervals, which hold whatever people's values "
        f"are, are expected to be this wide where people are spread evenly: {', '.join(widths)}."
    )


def _print(planned: list[Planned], wanted: float | None) -> None:
    keys = ("attribute", "estimate", "error of", "people")
    names = ["attribute", "estimate", "estimator", "error of", "people", "error"]
    fake = "1% fake" if any(line.one_percent_fake is not None for line in planned) else ""
    enough = f"people for {wanted:g}" if wanted is not None else ""
    rows = [
        {
            "attribute": line.attribute,
            "estimate": line.estimate,
            "estimator": line.estimator,
            "error of": line.quantity,
            "people": line.population,
            "error": _error(line),
            enough: _people(line),
            fake: "" if line.one_percent_fake is None else _number(line.one_percent_fake),
        }
        for line in planned
    ]
    print_fitting(Console(), [*names, *filter(None, [enough, fake])], rows, keys=keys, left=("estimator",))


def _error(line: Planned) -> str:
    if line.uncertainty is not None:
        return f"{_number(line.error)} ± {_number(line.uncertainty)}"
    assert line.least_error is not None
    least, most = _number(line.least_error), _number(line.error)
    return most if least == most else f"{least} to {most}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _people(line: Planned) -> str:
    if line.users_for_error is None:
        return f"more than {MOST_USERS if line.uncertainty is None else LAST:,}"
    if line.uncertainty is not None and line.users_for_error == FIRST:
        return f"{FIRST:,} or fewer"
    return f"{line.users_for_error:,}"
