"""``ldpbeam init``: asks a few questions, or takes a file and options, and writes a commented study."""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from ldpbeam.command_line.checks import duration_of
from ldpbeam.domains import as_text
from ldpbeam.errors import DONE, StudyError, UserError
from ldpbeam.mechanisms.mechanism import LARGEST_EPSILON, SMALLEST_EPSILON
from ldpbeam.nearest import did_you_mean
from ldpbeam.pipelines.commands.init_data import (
    Proposal,
    columns_of,
    names_users,
    proposal,
    times_in,
)
from ldpbeam.pipelines.commands.init_text import Draft
from ldpbeam.printing import document, note, warn
from ldpbeam.schemas.study.json_schema import study_schema
from ldpbeam.schemas.study.models import GroupsModel
from ldpbeam.schemas.study.parts import Name
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.untrusted import shown

T = TypeVar("T")
#: The mechanism of a service that names none.
_FOR_NUMBERS, _FOR_CATEGORIES = "square_wave", "auto"


def init_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam init`` and return its exit code."""
    path = Path(options.output)
    schema = path.with_suffix(".schema.json")
    if path.exists():
        raise UserError(f"{path}: it exists, and is not overwritten; name another with --output")
    if options.range and options.categories:
        raise UserError("--range and --categories: it is a number or a category; give one of them")
    ask = _Questions(options.yes)
    draft, column = _draft(options, ask)
    text = draft.text(schema.name)
    try:
        parse_study(text, str(path))
    except StudyError as error:
        raise UserError(f"these answers do not make a valid study, so nothing is written: {error}") from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
        if not schema.exists():
            schema.write_text(json.dumps(study_schema()) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--output {path}: {error.strerror or error}") from None
    if draft.exposure:
        warn(draft.exposure)
    if not draft.users and options.users is None:
        note("no column is a user id, so the study says users: none; where reports have ids, --users ids")
    following = list(_following(path, draft, options.data, column))
    document({"study": str(path), "schema": str(schema), "next": following})
    print(f"{shown(str(path))} is written; change it as you like. Next:")
    for command in following:
        print(f"  {shown(command)}")
    return DONE


def _draft(options: argparse.Namespace, ask: _Questions) -> tuple[Draft, str]:
    """What the study says, and the name of the column that the attribute is named after."""
    columns = columns_of(options.data) if options.data else []
    column = ask(
        options.attribute or None,
        f"Attribute to estimate ({', '.join(columns)})" if columns else "Attribute to estimate, say minutes",
        None, "--attribute", lambda text: _one_of(columns, text) if columns else _name(text),
    )  # fmt: skip
    proposed = Proposal()
    domain_given = options.range or options.categories
    if options.data and not domain_given:
        proposed = proposal(options.data, column)
    range_, categories = _domain(options, ask, proposed)
    default = _FOR_NUMBERS if range_ else _FOR_CATEGORIES
    question = "Epsilon of a report; less protects more, 0.5 to 2 is usual"
    epsilon = ask(options.epsilon, question, 1.0, "--epsilon", float)
    if not SMALLEST_EPSILON < epsilon <= LARGEST_EPSILON:
        raise UserError(f"--epsilon {epsilon:g}: above 0 and at most {LARGEST_EPSILON:g}")
    services = ask(
        options.services,
        f"Services that collect it, as NAME or NAME=MECHANISM (default mechanism: {default})",
        ["app"], "--services", str.split,
    )  # fmt: skip
    question = "Size of windows of event time, as in 1h; none for one over everything"
    windows = _duration(ask(options.windows, question, "none", "--windows", _duration))

    def field(text: str) -> str:
        return _field(text, columns, column)

    question = "Field of reports whose values are groups, as in region; none for no groups"
    groups = field(ask(options.groups or None, question, "none", "--groups", field))
    users = options.users or "ids"
    if options.users is None and columns and not any(map(names_users, columns)):
        question = "No column is a user id. Will reports have one (ids), or not (none)"
        users = ask(None, question, "none", "--users", lambda text: _one_of(["ids", "none"], text))
    taken = proposed != Proposal() and (proposed.range, proposed.categories) == (range_, categories)
    if taken and proposed.most is not None and proposed.range is not None:
        low, high, *ends = map(as_text, (*proposed.most, *proposed.range))
        warn(
            f"98% of the values lie from {low} to {high}, and the range is {ends[0]} to {ends[1]}: few "
            f"values take most of the resolution. --range {low} {high} clips the others to its ends"
        )
    name = options.name or _as_name(Path(options.data).stem if options.data else column)
    draft = Draft(
        name=_name(name),
        attribute=_as_name(column),
        range=range_,
        step=proposed.step if taken else None,
        categories=categories,
        epsilon=epsilon,
        services={
            service: mechanism or default
            for service, _, mechanism in (entry.partition("=") for entry in services)
        },
        windows=None if windows == "none" else windows,
        groups=None if groups == "none" else groups,
        users=users == "ids",
        data=Path(options.data).name if taken else None,
    )
    return draft, column


def _domain(
    options: argparse.Namespace, ask: _Questions, proposal: Proposal
) -> tuple[tuple[float, float] | None, tuple[str, ...]]:
    """The range of a number, or the categories."""
    if options.range:
        return _range(options.range), ()
    if options.categories:
        return None, tuple(options.categories)
    proposed = "categories" if proposal.categories else "numbers" if proposal.range else None
    kind = ask(proposed, "Is it numbers or categories", "numbers", "--range or --categories", _kind)
    if kind == "numbers":
        question = "From which number to which"
        return ask(None, question, proposal.range, "--range", lambda text: _range(text.split())), ()
    if len(proposal.categories) > 20:
        return None, proposal.categories
    return None, ask(
        None,
        "Which categories, with commas between them", proposal.categories or None, "--categories",
        lambda text: tuple(part.strip() for part in text.split(",")),
    )  # fmt: skip


class _Questions:
    """Asks on a terminal; elsewhere, and with ``--yes``, takes what is proposed.

    Args:
        silent: whether nothing is asked.
    """

    def __init__(self, silent: bool) -> None:
        self._silent = silent or sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty()

    def __call__(
        self, given: T | None, question: str, proposed: T | None, option: str, read: Callable[[str], T]
    ) -> T:
        """What the option says if it is given, else the answer, as ``read`` makes it of the text.

        After a mistake the question is asked again.

        Raises:
            UserError: if nothing can be asked or the input ends, and nothing is proposed.
        """
        if given is not None:
            return given
        if self._silent:
            if proposed is None:
                raise UserError(
                    f"{option} is missing, and there is no terminal to ask on (or --yes is given)"
                )
            return proposed
        default = "" if proposed is None else f" [{_offered(proposed)}]"
        while True:
            print(f"{shown(question)}{shown(default)}: ", end="", file=sys.stderr, flush=True)
            try:
                line = sys.stdin.readline()
            except UnicodeDecodeError as error:
                raise UserError(
                    f"the answer is not in {error.encoding}, the encoding of this terminal"
                ) from None
            if not line:
                raise UserError("the input ended before all was answered; nothing is written")
            if not line.strip() and proposed is not None:
                return proposed
            try:
                return read(line.strip())
            except (UserError, ValueError) as error:
                print(f"  {shown(str(error))}", file=sys.stderr)


def _offered(proposed: object) -> str:
    if isinstance(proposed, list | tuple):
        comma = ", " if proposed and isinstance(proposed, tuple) and isinstance(proposed[0], str) else " "
        return comma.join(map(_offered, proposed))
    return as_text(proposed) if isinstance(proposed, float) else str(proposed)


def _one_of(names: list[str], text: str) -> str:
    if text not in names:
        raise UserError(f"there are {', '.join(names)}")
    return text


def _kind(text: str) -> str:
    return _one_of(["numbers", "categories"], text)


def _range(ends: list[str] | list[float]) -> tuple[float, float]:
    try:
        low, high = map(float, ends)
    except ValueError:
        raise UserError("write two numbers, as in 0 100") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError("--range: a range needs two finite numbers, low < high")
    return low, high


def _name(text: str) -> str:
    try:
        return str(TypeAdapter(Name).validate_python(text))
    except ValidationError as error:
        raise UserError(f"{text}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _as_name(text: str) -> str:
    """A text as a name of a study: other characters become _."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-")[:64] or "value"


def _duration(text: str) -> str:
    if text != "none":
        duration_of("--windows", text)
    return text


def _field(text: str, columns: list[str], column: str) -> str:
    """The field of groups; with a file, one of its columns.

    Raises:
        UserError: if it cannot be one.
    """
    if text == "none":
        return text
    if text == column:
        raise UserError(f"--groups {text}: this column is perturbed, so reports cannot name groups of it")
    try:
        GroupsModel(field=text)
    except ValidationError as error:
        raise UserError(
            f"--groups {text}: {error.errors()[0]['msg'].removeprefix('Value error, ')}"
        ) from None
    if columns and text not in columns:
        meant = did_you_mean(text, columns, f"there are {', '.join(columns)}")
        raise UserError(f"--groups {text}: the file has no such column; {meant}")
    return text


def _following(path: Path, draft: Draft, data: str | None, column: str) -> list[str]:
    """The commands that come next."""
    study = ["--study", str(path)]
    commands = [["explain", *study], ["plan", *study, "--users", "10000"]]
    if data and not data.endswith(".parquet"):
        perturb = [
            "perturb",
            *study,
            "--attribute",
            draft.attribute,
            "--input",
            data,
            "--value-column",
            column,
        ]
        users = next(filter(names_users, columns_of(data) if draft.users else ()), None)
        times = times_in(data)
        perturb += ["--user-column", users] if users else []
        perturb += ["--time-column", times] if times else []
        if draft.windows and not times:
            perturb += ["--start", "2026-01-01T00:00:00Z"]
        if draft.groups:
            perturb += ["--group-column", draft.groups]
        commands.append([*perturb, "--output", "reports"])
    commands.append(["estimate", *study, "--input", "reports/*", "--output", "out"])
    return [f"ldpbeam {shlex.join(command)}" for command in commands]
