"""True values in a CSV file: for simulating clients, and for comparing estimates with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from ldpbeam.domains import Categories, Domain, Numeric
from ldpbeam.pipelines.errors import UserError
from ldpbeam.schemas.reports import Columns, decoded

#: More people than this are not simulated in one process.
MOST_PEOPLE = 2**31


@dataclass(frozen=True)
class PeopleColumns:
    """Which columns of a CSV file say what; None where it has none.

    Attributes:
        value: the true value.
        user: who it is of.
        time: when, RFC 3339 or epoch milliseconds.
        weight: how many people a row stands for.
        group: which group they belong to.
    """

    value: str
    user: str | None = None
    time: str | None = None
    weight: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class People:
    """People and their true values, one row a person.

    Attributes:
        values: in the attribute's unit, or category indexes; shape (n,).
        users: their ids as text, None where the file has none.
        times: epoch milliseconds, None where the file has none.
        groups: their groups, None where the file has none.
        skipped: rows without a usable value.
        clipped: people whose value lay outside the numeric domain, and was clipped.
    """

    values: NDArray[Any]
    users: pa.Array | None
    times: NDArray[np.int64] | None
    groups: pa.Array | None
    skipped: int
    clipped: int


def read_people(path: str, columns: PeopleColumns, domain: Domain) -> People:
    """The people of a CSV file with a header line.

    Raises:
        UserError: if there is no such file or column, or a time or weight that is none.
    """
    names = [name for name in vars(columns).values() if name is not None]
    kinds = {name: pa.string() for name in names}
    try:
        table = pyarrow.csv.read_csv(
            path,
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(dict.fromkeys(names)), column_types=kinds,
                strings_can_be_null=True,
            ),
        )  # fmt: skip
    except pa.ArrowKeyError as error:
        with open(path, encoding="utf-8", errors="replace") as stream:
            header = stream.readline(500).strip()
        raise UserError(f"{path}: {error.args[0]}; its first line is: {header}") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{path}: {error}") from None
    values, skipped, clipped = _values(table.column(columns.value).combine_chunks(), domain, path)
    rows = np.flatnonzero(~np.isnan(values) if values.dtype.kind == "f" else values >= 0)
    if columns.weight is not None:
        rows = np.repeat(rows, _weights(table.column(columns.weight), columns.weight, path)[rows])
    chosen = pa.array(rows)

    def optional(name: str | None) -> pa.Array | None:
        return None if name is None else table.column(name).combine_chunks().take(chosen)

    users = optional(columns.user)
    if users is not None and users.null_count:
        raise UserError(f"{path}: column {columns.user!r} is empty in {users.null_count} rows")
    return People(
        values=values[rows],
        users=users,
        times=None if columns.time is None else _times(table.column(columns.time), columns.time, path)[rows],
        groups=optional(columns.group),
        skipped=skipped,
        clipped=clipped,
    )


def _values(text: pa.Array, domain: Domain, path: str) -> tuple[NDArray[Any], int, int]:
    """(values, rows that have none, rows clipped); NaN or -1 where a row has none."""
    if isinstance(domain, Numeric):
        shaped = pc.if_else(
            pc.match_substring_regex(text, r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"),
            text,
            None,
        )
        numbers = pc.cast(pc.utf8_trim_whitespace(shaped), pa.float64())
        values = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
        missing = int(np.isnan(values).sum())
        outside = int(((values < domain.low) | (values > domain.high)).sum())
        if missing == len(values):
            raise UserError(f"{path}: no row has a number in the value column")
        return np.clip(values, domain.low, domain.high), missing, outside
    if not isinstance(domain, Categories):
        raise UserError(f"{path}: people with several values are not read from one column")
    index = pc.index_in(text, value_set=pa.array(domain.names))
    values = pc.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    missing = int((values < 0).sum())
    if missing == len(values):
        raise UserError(f"{path}: no row's value is a category of the study, such as {domain.names[0]!r}")
    return values, missing, 0


def _weights(column: pa.ChunkedArray, name: str, path: str) -> NDArray[np.int64]:
    try:
        weights = pc.cast(pc.cast(column, pa.float64()), pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: column {name!r} is no whole number everywhere: {error}") from None
    if np.isnan(weights.astype(float)).any() or (weights < 0).any():
        raise UserError(f"{path}: column {name!r} has weights that are missing or negative")
    if weights.sum() > MOST_PEOPLE:
        raise UserError(f"{path}: column {name!r} stands for more than {MOST_PEOPLE:,} people")
    return np.asarray(weights, dtype=np.int64)


def _times(column: pa.ChunkedArray, name: str, path: str) -> NDArray[np.int64]:
    text = column.combine_chunks()
    digits = pc.all(pc.match_substring_regex(text, r"^\d{1,15}$")).as_py()
    rows = pa.array(np.zeros(len(text), dtype=np.int64))
    source = pc.cast(text, pa.int64()) if digits else text
    times = decoded({"event_time": source}, Columns(), {}, rows, rows).column("event_time")
    if times.null_count:
        first = text.filter(times.is_null())[0].as_py()
        raise UserError(f"{path}: column {name!r} has times such as {first!r}; write 2026-11-20T10:00:00Z")
    return np.asarray(times.to_numpy(), dtype=np.int64)


def true_histogram(
    people: People, chosen: NDArray[np.bool_], domain: Domain, buckets: int
) -> NDArray[np.int64]:
    """How many of the chosen people have a value in each bucket or category."""
    values = people.values[chosen]
    if isinstance(domain, Numeric):
        return domain.histogram(values, buckets)
    assert isinstance(domain, Categories)
    return domain.histogram(values)
