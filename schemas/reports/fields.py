"""Reports whose fields have other names than our columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ldpbeam.nearest import did_you_mean

#: The prefix of ldpbeam's internal fields, which reports may not have.
OWN = "ldpbeam."


def check(renamed: Mapping[str, str], names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The renamed columns, as :class:`ldpbeam.schemas.reports.columns.Columns` has them.

    Args:
        renamed: the field of the input that has a column, by the column's name.
        names: the names of all columns that are read.

    Raises:
        ValueError: if there is no such column, a field has no name or one of ldpbeam's own, or two columns
            would be read from one field.
    """
    for name, field in renamed.items():
        if name not in names:
            meant = did_you_mean(str(name), names, f"there are: {', '.join(names)}")
            raise ValueError(f"{name!r} is not a column of this study's reports; {meant}")
        if not isinstance(field, str) or not field:
            raise ValueError(f"{name!r} needs the name of the field that has it, as in user_id=uid")
        if field.startswith(OWN):
            raise ValueError(
                f"{name!r} cannot be read from {field!r}: names that begin with {OWN} are ldpbeam's own"
            )
    column_of: dict[str, str] = {}
    for name in names:
        field = renamed.get(name, name)
        if field in column_of:
            raise ValueError(
                f"{column_of[field]!r} and {name!r} would both be read from the field {field!r}: name "
                "another field for one"
            )
        column_of[field] = name
    return tuple(renamed.items())
