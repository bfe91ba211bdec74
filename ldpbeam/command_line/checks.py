"""The values of options that several commands share, checked and converted to Python objects.

If a check fails, it raises a UserError that names the option.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ldpbeam.answers.people import People, PeopleColumns, read_people
from ldpbeam.command_line.shared_options import PEOPLE_COLUMNS
from ldpbeam.domains import Domain, KeyValues, Vector
from ldpbeam.errors import StudyError, UserError, meant_or_known, naming
from ldpbeam.printing import warn
from ldpbeam.schemas.reports.columns import Columns
from ldpbeam.schemas.study.parts import Duration
from ldpbeam.schemas.study.yaml_file import parse_study, read_study
from ldpbeam.schemas.writer_schemas import WriterSchemas
from ldpbeam.study import Study
from ldpbeam.times import CALENDAR
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.storage import exists, is_local, open_raw
from ldpbeam.words import counted


def study_of(path: str, attribute: str | None = None) -> Study:
    """Read a study from a local file or an object store, and check that it has the attribute if one is given.

    Raises:
        UserError: if the study does not have the attribute.
        StudyError: if the file cannot be read or is no valid study.
    """
    study = parse_study(_text(path), path) if "://" in path else read_study(path)
    check_attribute(attribute, study.attributes)
    return study


def check_reachable(option: str, *paths: str) -> None:
    """Check that object stores answer for each of an option's paths that is in one.

    Raises:
        UserError: if one does not, or there is no such store.
    """
    for path in paths:
        if not is_local(path):
            with naming(f"{option} {path}"):
                exists(path)


def _text(path: str) -> str:
    try:
        with open_raw(path) as stream:
            return str(stream.read().decode())
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def check_attribute(attribute: str | None, names: Iterable[str]) -> None:
    """Check that the attribute of ``--attribute``, if one is given, is among those of the study."""
    if attribute is not None and attribute not in names:
        hint = meant_or_known(attribute, names)
        raise UserError(f"--attribute {attribute}: the study has no such attribute; {hint}")


def columns_of(options: argparse.Namespace, study: Study, *, whole: bool = False) -> Columns:
    """The columns that are read, for ``--attribute``, ``--service``, ``--column`` and ``--schemas``.

    Args:
        options: the options of the command.
        study: the study.
        whole: whether dead letters will hold whole records.

    Raises:
        UserError: if a column is not written as OURS=THEIRS, they do not fit the study or each other, or a
            schema is not available.
    """
    renamed: dict[str, str] = {}
    for text in options.column or ():
        name, equals, field = text.partition("=")
        if not equals:
            raise UserError(f"--column {text}: write our name and theirs, as in user_id=uid")
        if name in renamed:
            raise UserError(f"--column {text}: {name!r} is given twice, as {renamed[name]!r} before")
        renamed[name] = field
    try:
        wanted = checked_columns(
            study, options.attribute, options.service, whole=whole, renamed=renamed, options=True
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    return replace(wanted, schemas=_schemas_of(options.schemas or ()))


def _schemas_of(given: Sequence[str]) -> WriterSchemas:
    """The writers' schemas that ``--schemas`` names.

    Raises:
        UserError: if it is neither an address nor ID=FILE, a file has no schema of a record, or a registry
            does not answer.
    """
    registries = [where for where in given if re.match("https?://", where)]
    if len(registries) > 1:
        raise UserError(f"--schemas {registries[1]}: name one registry")
    texts: dict[int, str] = {}
    for where in given:
        if where in registries:
            continue
        number, equals, path = where.partition("=")
        if not (equals and re.fullmatch("[0-9]{1,10}", number)):
            raise UserError(
                f"--schemas {where}: write the address of a registry, as in http://localhost:8081, or an id "
                "and the file of its schema, as in 7=report.avsc"
            )
        if int(number) in texts:
            raise UserError(f"--schemas {where}: the id {number} is given twice")
        texts[int(number)] = _text(path)
    schemas = WriterSchemas(registries[0] if registries else None, tuple(texts.items()))
    try:
        schemas.check()
    except (OSError, ValueError) as error:
        raise UserError(f"--schemas: {error}") from None
    return schemas


def duration_of(option: str, text: str) -> int:
    """An option's duration in milliseconds.

    Raises:
        UserError: if the text is not a whole number and a unit, as in 90s.
    """
    try:
        return int(TypeAdapter(Duration).validate_python(text))
    except ValidationError:
        raise UserError(f"{option} {text}: write a whole number and a unit, as in 90s or 1h") from None


def length_of(option: str, text: str) -> int:
    """The length of windows that an option gives, in milliseconds.

    Raises:
        UserError: if the text is neither a duration above 0 nor a word of the calendar.
    """
    if text in CALENDAR:
        return CALENDAR[text]
    length = duration_of(option, text)
    if length == 0:
        raise UserError(f"{option} {text}: it must be above 0")
    return length


def check_people(options: argparse.Namespace, option: str, file: str | None) -> None:
    """Check that no option names a column of a file of people if there is no such file.

    Args:
        options: the options of the command.
        option: the option that names the file.
        file: the file; None if it is not given.

    Raises:
        UserError: if one does.
    """
    given = [f"--{name}-column" for name in PEOPLE_COLUMNS if getattr(options, f"{name}_column") is not None]
    if given and not file:
        raise UserError(f"{', '.join(given)}: these name columns of the file in {option}: add {option}")


def people_columns(options: argparse.Namespace, domain: Domain) -> PeopleColumns:
    """The columns that the options name, checked against the domain.

    Raises:
        UserError: if the domain needs a column that is not named, or does not use one that is.
    """
    if isinstance(domain, Vector):
        if options.value_column is not None:
            shown = ", ".join(domain.coordinates[:3])
            raise UserError(
                f"--value-column: a vector's values are in the columns of its names ({shown}, ...)"
            )
    elif options.value_column is None:
        raise UserError("--value-column is missing: which column has the true values?")
    if isinstance(domain, KeyValues):
        for option, given in (("--key-column", options.key_column), ("--user-column", options.user_column)):
            if given is None:
                raise UserError(f"{option} is missing: a person has a row for each key")
    elif options.key_column is not None:
        raise UserError("--key-column: the attribute has no keys")
    if options.weight_column and options.user_column:
        raise UserError(
            "a row with a --weight-column is several people, who share no user id: leave out --user-column"
        )
    return PeopleColumns(*(getattr(options, f"{name}_column") for name in PEOPLE_COLUMNS))


def output_folder(path: str) -> Path:
    """The folder of ``--output``, which is created if it does not exist.

    Raises:
        UserError: if it cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"--output {path}: a folder is needed") from None
    except OSError as error:
        raise UserError(f"--output {path}: {error.strerror or error}") from None
    return folder


def refuse_all_outside(people: People, path: str, attribute: str) -> None:
    """Check that some value of a file of people lies in the attribute's domain."""
    if people.clipped and people.clipped == people.numbers:
        raise UserError(
            f"{path}: every value lies outside of the domain of {attribute!r}, and would be moved to its "
            "nearest end: check the column and the unit"
        )


def warn_of_rows(people: People) -> None:
    """Warn of rows of a file of people that were left out, and of values that were clipped."""
    if people.skipped:
        example = f"; one has {people.unusable[:100]!r}" if people.unusable is not None else ""
        rows = counted(
            people.skipped, "row has no usable value and was", "rows have no usable value and were"
        )
        warn(f"{rows} left out{example}")
    if people.clipped:
        values = counted(
            people.clipped, "value lies outside the domain and was", "values lie outside the domain and were"
        )
        hint = ": check the column and the unit" if 2 * people.clipped >= people.numbers else ""
        warn(f"{values} clipped to it{hint}")


def true_values(options: argparse.Namespace, study: Study, *, times: bool, groups: bool) -> People | None:
    """The people whose true values are compared with estimates; None without ``--truth``.

    Args:
        options: the options of the command.
        study: the study.
        times: whether an estimate is only for the people of some time, such as its window.
        groups: whether an estimate is for a group.

    Raises:
        UserError: if the options for people do not fit together, or do not determine the people of an
            estimate, or their file cannot be read.
    """
    check_people(options, "--truth", options.truth)
    if not options.truth:
        return None
    if len(study.attributes) > 1 and not options.attribute:
        raise UserError("--truth needs --attribute: the study has several")
    name = options.attribute or next(iter(study.attributes))
    domain = study.attribute(name).domain
    for needed, what, option in ((times, "time", "time_column"), (groups, "group", "group_column")):
        if needed and getattr(options, option) is None:
            raise UserError(
                f"--truth compares each estimate with the people of its {what}, which no option gives: "
                f"add --{option.replace('_', '-')} COLUMN"
            )
    people = read_people(options.truth, people_columns(options, domain), domain)
    refuse_all_outside(people, options.truth, name)
    warn_of_rows(people)
    return people
