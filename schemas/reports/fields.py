"""The names of fields: columns that are read from others, and names that are probably misspelt ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.nearest import did_you_mean, nearest

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


#: At most this many names of a record's fields are compared with those of missing fields, and no longer ones.
MOST_NAMES, LONGEST_NAME = 64, 20
#: This many records of a batch that lack a field are looked at, and this many different sets of names are
#: compared: clients of one kind share a mistake.
MOST_LOOKED_AT, MOST_SETS = 1_000, 100


def meant(
    missing: Mapping[str, NDArray[np.bool_]],
    sought: Mapping[str, str],
    fields: Callable[[int], Iterable[str]],
) -> pa.Array | None:
    """For each record, as JSON by column: [the field that it has, the missing one that is probably meant].

    Only records that lack a field are looked at, the first of them; each becomes a dead letter.

    Args:
        missing: which of n records lack the field of a column, shape (n,), by the column's name.
        sought: the name of the field of each column.
        fields: gives the names of the fields of the record at an index.

    Returns:
        Text, n values, null for a record without such a field; None if all are null.
    """
    lacks_any = np.logical_or.reduce(list(missing.values()))
    if not lacks_any.any():
        return None
    near: list[str | None] = [None] * len(lacks_any)
    compared: dict[tuple[tuple[str, ...], tuple[str, ...]], str | None] = {}
    for row in np.flatnonzero(lacks_any)[:MOST_LOOKED_AT].tolist():
        lacking = tuple(name for name, of in missing.items() if of[row])
        case = _compared(fields(row)), lacking
        if case not in compared and len(compared) < MOST_SETS:
            compared[case] = _meant(*case, sought)
        near[row] = compared.get(case)
    return pa.array(near, pa.string()) if any(near) else None


def meant_fields(missing: Iterable[str], fields: Iterable[str]) -> dict[str, str]:
    """The field that a record has and that is probably meant by each missing one, where there is one."""
    names = _compared(fields)
    near = {name: nearest(name, [other for other in names if other != name], 0.8) for name in missing}
    return {name: field for name, field in near.items() if field is not None}


def _compared(fields: Iterable[str]) -> tuple[str, ...]:
    # Records that a program made may have names that are no text, and names with digits may have ids in them.
    names = map(str, itertools.islice(fields, MOST_NAMES))
    return tuple(n for n in names if len(n) <= LONGEST_NAME and not any(map(str.isdigit, n)))


def _meant(fields: tuple[str, ...], missing: tuple[str, ...], sought: Mapping[str, str]) -> str | None:
    near = meant_fields((sought[name] for name in missing), fields)
    meant = {name: [near[sought[name]], sought[name]] for name in missing if sought[name] in near}
    return json.dumps(meant) if meant else None
