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
from ldpbeam.planning.planned import Planned, computed, detailed
from ldpbeam.planning.planning_options import MOST_USERS
from ldpbeam.printing import document
from ldpbeam.study import Study, attribute_of
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
    wanted = {options.attribute} if options.attribute else set(study.described_names)
    # With a panel, a window has a fraction of the users.
    users = options.users if study.panel is None else max(1, options.users // study.panel.windows)
    planned = [detailed(study, line) for line in computed(study, wanted, users, options.error)]
    document([asdict(line) for line in planned])
    if planned:
        _print(planned, options.error)
    for sentence in _notes(study, wanted, planned, users):
        print(shown(sentence))
    return DONE


def _notes(study: Study, wanted: set[str], planned: list[Planned], users: int) -> Iterator[str]:
    """What the table's numbers mean, and which estimates have none."""
    yield (
        "Everybody reports to every service, to the last of its versions. Errors are relative to the people "
        "who report."
    )
    if study.panel is not None:
        yield (
            f"A user answers one window in {study.panel.windows:,} (panel): errors, and people for an error, "
            f"are of the {users:,} who answer one."
        )
    if planned:
        yield (
            "The error is the standard error of an unbiased estimate: the least and the greatest of a few "
            "populations. Estimators that smooth, such as auto, can have less."
        )
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
        if not any(name in (line.attribute, attribute_of(line.attribute)) for line in planned):
            reason = untried(study.attribute(name))
            more = "" if reason else ": ldpbeam evaluate measures it on people who are drawn"
            yield f"{name!r} has no line, because its error has no formula{more}."
        for version in () if study.is_pair(name) else study.attribute(name).versions:
            yield from less_noise(version)


def _detail(line: Planned) -> str:
    """The detail that an estimate of numbers can show."""
    widths = (f"{_number(width)} ({name})" for name, width in line.certain_widths.items())
    return (
        f"{line.attribute!r}, {line.estimate}: reports of {line.users:,} people show no detail finer than "
        f"{line.finest_detail:.0%} of the range. Certain intervals, which hold whatever people's values "
        f"are, are expected to be this wide where people are spread evenly: {', '.join(widths)}."
    )


def _print(planned: list[Planned], wanted: float | None) -> None:
    names = ["attribute", "estimate", "estimator", "error of", "error"]
    fake = "1% fake" if any(line.one_percent_fake is not None for line in planned) else ""
    enough = f"people for {wanted:g}" if wanted is not None else ""
    rows = [
        {
            "attribute": line.attribute,
            "estimate": line.estimate,
            "estimator": line.estimator,
            "error of": line.quantity,
            "error": _error(line),
            enough: _people(line),
            fake: "" if line.one_percent_fake is None else _number(line.one_percent_fake),
        }
        for line in planned
    ]
    keys = ("attribute", "estimate", "error of")
    print_fitting(Console(), [*names, *filter(None, [enough, fake])], rows, keys=keys, left=("estimator",))


def _error(line: Planned) -> str:
    least, most = _number(line.least_error), _number(line.error)
    return most if least == most else f"{least} to {most}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _people(line: Planned) -> str:
    return f"more than {MOST_USERS:,}" if line.users_for_error is None else f"{line.users_for_error:,}"
