"""``ldpbeam init``: takes a file and options, and writes a commented study."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path

from ldpbeam.domains import as_text
from ldpbeam.errors import DONE, StudyError, UserError
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
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.untrusted import shown

#: The mechanism of a service that names none.
_FOR_NUMBERS, _FOR_CATEGORIES = "square_wave", "auto"


def init_command(options: argparse.Namespace) -> int:
    """Run ``ldpbeam init`` and return its exit code."""
    path = Path(options.output)
    schema = path.with_suffix(".schema.json")
    if path.exists():
        raise UserError(f"{path}: it exists, and is not overwritten; name another with --output")
    if options.range and options.categories:
        raise UserError("--range and --categories: the attribute is a number or a category; give one of them")
    draft, column = _draft(options)
    text = draft.text(schema.name)
    try:
        parse_study(text, str(path))
    except StudyError as error:
        raise UserError(f"these options do not make a valid study, so nothing is written: {error}") from None
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
    print(f"{shown(str(path))} is written; edit it as you like. Next:")
    for command in following:
        print(f"  {shown(command)}")
    return DONE


def _draft(options: argparse.Namespace) -> tuple[Draft, str]:
    """What the study says, and the name of the column that the attribute is named after."""
    columns = columns_of(options.data) if options.data else []
    column = options.attribute
    if not column:
        which = f"name one of the columns {', '.join(columns)}" if columns else "as in --attribute minutes"
        raise UserError(f"--attribute is missing: {which}")
    proposed = Proposal()
    if options.data and not (options.range or options.categories):
        proposed = proposal(options.data, column)
    range_ = tuple(options.range) if options.range else proposed.range
    categories = tuple(options.categories or proposed.categories)
    if range_ is None and not categories:
        raise UserError("--range or --categories is missing, as in --range 0 180, or a file to propose one")
    default = _FOR_NUMBERS if range_ else _FOR_CATEGORIES
    epsilon = 1.0 if options.epsilon is None else options.epsilon
    groups = _field(options.groups or "none", columns, column)
    without = bool(columns) and not any(map(names_users, columns))
    taken = proposed != Proposal()
    if proposed.most is not None and proposed.range is not None:
        low, high, *ends = map(as_text, (*proposed.most, *proposed.range))
        warn(
            f"98% of the values lie from {low} to {high}, and the range is {ends[0]} to {ends[1]}: a few "
            f"values take up most of the resolution. --range {low} {high} clips the others to its ends"
        )
    name = options.name or _as_name(Path(options.data).stem if options.data else column)
    draft = Draft(
        name=name,
        attribute=_as_name(column),
        range=range_,
        step=proposed.step,
        scale=proposed.scale,
        categories=categories,
        epsilon=epsilon,
        services={
            service: mechanism or default
            for service, _, mechanism in (entry.partition("=") for entry in options.services or ["app"])
        },
        windows=None if options.windows == "none" else options.windows,
        groups=None if groups == "none" else groups,
        users=not without if options.users is None else options.users == "ids",
        data=Path(options.data).name if taken else None,
    )
    return draft, column


def _as_name(text: str) -> str:
    """A text as a name of a study: other characters become _."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-")[:64] or "value"


def _field(text: str, columns: list[str], column: str) -> str:
    """The field of groups; with a file, one of its columns.

    Raises:
        UserError: if it cannot be one.
    """
    if text == "none":
        return text
    if text == column:
        raise UserError(f"--groups {text}: this column is perturbed, so reports cannot name groups of it")
    if columns and text not in columns:
        meant = did_you_mean(text, columns, f"there are {', '.join(columns)}")
        raise UserError(f"--groups {text}: the file has no such column; {meant}")
    return text


def _following(path: Path, draft: Draft, data: str | None, column: str) -> list[str]:
    """The commands that come next."""
    study = ["--study", str(path)]
    commands = [["explain", *study], ["plan", *study, "--users", "10000"]]
    if data and not data.endswith(".parquet"):
        perturb = ["perturb", *study, "--attribute", draft.attribute]
        perturb += ["--input", data, "--value-column", column]
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
