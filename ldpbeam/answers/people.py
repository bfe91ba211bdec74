"""People and their true values from a CSV file, for simulated clients and for comparison with estimates."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from ldpbeam.domains import Categories, Domain, KeyValuePairs, KeyValues, Numeric, Vector
from ldpbeam.errors import UserError
from ldpbeam.nearest import did_you_mean
from ldpbeam.schemas.files.json_lines import other_text
from ldpbeam.schemas.files.local_files import refuse_special
from ldpbeam.schemas.reports import event_times
from ldpbeam.schemas.reports.casts import cast_column
from ldpbeam.words import counted

#: More people than this are not simulated in one process.
MOST_PEOPLE = 2**31
#: A text in quotes may have several lines, also where a block of the file ends.
CSV = pyarrow.csv.ParseOptions(newlines_in_values=True)


@dataclass(frozen=True)
class PeopleColumns:
    """The names of the columns of a CSV file; None for a column that the file does not have.

    Attributes:
        value: the true values; None for a vector, whose columns have the names of its coordinates.
        key: the key of each value, where a person has several rows.
        user: the user ids.
        time: the event times, RFC 3339 or epoch milliseconds.
        weight: how many people each row stands for, a whole number.
        group: the group of each person.
    """

    value: str | None = None
    key: str | None = None
    user: str | None = None
    time: str | None = None
    weight: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class People:
    """People and their true values.

    Attributes:
        values: one entry per person: numbers in the attribute's unit, shape (n,); category indexes, shape
            (n,); pairs of keys and values; or coordinates in the attribute's unit, shape (n, coordinates).
        users: user ids as text, shape (n,); None if the file has none.
        times: epoch milliseconds, shape (n,); None if the file has none.
        groups: group names, shape (n,); None if the file has none.
        skipped: how many rows had no usable value and were left out.
        clipped: how many values lay outside the domain and were clipped to it.
        unusable: a text that is no value, from a row that was left out; None if those rows are empty.
    """

    values: NDArray[Any] | KeyValuePairs
    users: pa.Array | None
    times: NDArray[np.int64] | None
    groups: pa.Array | None
    skipped: int
    clipped: int
    unusable: str | None = None

    @property
    def count(self) -> int:
        """The number of people."""
        return len(self.values)

    @property
    def numbers(self) -> int:
        """How many numbers the people have: one each, one per key, or one per coordinate."""
        return len(self.values.values) if isinstance(self.values, KeyValuePairs) else self.values.size


def read_people(path: str, columns: PeopleColumns, domain: Domain) -> People:
    """Read people from a CSV file with a header line.

    Raises:
        UserError: if the file or a column does not exist, no row has a usable value, a user id is missing, a
            time or weight is malformed, or a person has the same key twice.
    """
    coordinates = list(domain.coordinates) if isinstance(domain, Vector) else []
    table = _table(path, [*(name for name in vars(columns).values() if name is not None), *coordinates])
    if isinstance(domain, KeyValues):
        return _people_of_pairs(table, columns, domain, path)
    if isinstance(domain, Vector):
        texts = [table.column(name).combine_chunks() for name in coordinates]
        parts = [_numbers(text, domain.values) for text in texts]
        values, clipped = np.column_stack([part for part, _ in parts]), sum(count for _, count in parts)
        usable = ~np.isnan(values).any(axis=1)
        unusable = _first_text(zip(texts, np.isnan(values).T, strict=True))
    else:
        assert columns.value is not None
        text = table.column(columns.value).combine_chunks()
        values, usable, clipped = _values(text, domain)
        unusable = _first_text([(text, ~usable)])
    if not usable.any():
        raise UserError(f"{path}: {_no_value(table, columns, domain)}")
    rows = np.flatnonzero(usable)
    if columns.weight is not None:
        rows = np.repeat(rows, _weights(table.column(columns.weight), columns.weight, path)[rows])
        if not len(rows):
            raise UserError(
                f"{path}: column {columns.weight!r} is 0 in every row with a usable value, so there are no "
                "people"
            )
    return _people(table, columns, path, rows, values[rows], int((~usable).sum()), clipped, unusable)


def other_table(start: bytes) -> str | None:
    """What a file is that is no CSV, by its start, in words; None if that is not known."""
    header = start.partition(b"\n")[0]
    for separator, name in ((b";", "semicolons"), (b"\t", "tabs")):
        if separator in header and b"," not in header:
            return f"a table with {name} between its columns: save it with commas"
    return other_text(start)


def check_once(path: str, names: Iterable[str], columns: Sequence[str]) -> None:
    """See that no name is that of several columns of a file.

    Raises:
        UserError: if one is.
    """
    for name in names:
        if columns.count(name) > 1:
            raise UserError(f"{path}: several columns are called {name!r}: rename all but one")


def _header(start: bytes) -> list[str]:
    text = start.decode("utf-8-sig", "replace")
    return next(filter(None, csv.reader(io.StringIO(text, newline=""))), [])


def start_of(path: str) -> bytes:
    """The bytes of a file that tell what it is."""
    with open(path, "rb") as stream:
        return stream.read(65_536)


def _table(path: str, names: list[str]) -> pa.Table:
    try:
        refuse_special(path)
        header = _header(start_of(path))
        check_once(path, names, header)
        # In a file of one column, an empty line is a row without a value.
        layout = pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(header) > 1)
        return pyarrow.csv.read_csv(
            path,
            parse_options=layout,
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(dict.fromkeys(names)),
                column_types={name: pa.string() for name in names},
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    except (OSError, pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise UserError(f"{path}: {_unread(path, names, error)}") from None


def _unread(path: str, names: list[str], error: Exception) -> str:
    """Why a file could not be read as CSV, in words."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    start = start_of(path)
    if (other := other_table(start)) is not None:
        return f"it is {other}"
    if b"\0" in start or start.startswith((b"Obj\x01", b"PAR1")):
        return "this is not text: give people and their true values as CSV, with a header line"
    if "invalid UTF8" in str(error):
        return "it is not in UTF-8: save it in that encoding"
    if not isinstance(error, pa.ArrowKeyError):
        return str(error)
    header = start.decode("utf-8-sig", "replace").partition("\n")[0].strip()
    columns = _header(start)
    missing = next(name for name in names if name not in columns)
    hint = did_you_mean(missing, columns, ".", before="; ")
    return f"there is no column {missing!r}{hint} The first line is: {header[:500]}"


def _people(
    table: pa.Table,
    columns: PeopleColumns,
    path: str,
    rows: NDArray[np.int64],
    values: NDArray[Any] | KeyValuePairs,
    skipped: int,
    clipped: int,
    unusable: str | None,
) -> People:
    """The people of chosen rows of the file, one person per row; a row may be chosen several times."""
    chosen = pa.array(rows)

    def optional(name: str | None) -> pa.Array | None:
        return None if name is None else table.column(name).combine_chunks().take(chosen)

    users = optional(columns.user)
    if users is not None and users.null_count:
        raise UserError(f"{path}: column {columns.user!r} is empty in {counted(users.null_count, 'row')}")
    return People(
        values=values,
        users=users,
        times=None if columns.time is None else _times(table.column(columns.time), columns.time, path)[rows],
        groups=optional(columns.group),
        skipped=skipped,
        clipped=clipped,
        unusable=unusable,
    )


def _people_of_pairs(table: pa.Table, columns: PeopleColumns, domain: KeyValues, path: str) -> People:
    """People with one row per key and value; a row with an empty key makes a person without keys."""
    assert columns.key is not None and columns.value is not None and columns.user is not None
    users = table.column(columns.user).combine_chunks()
    if users.null_count:
        raise UserError(f"{path}: column {columns.user!r} is empty in {counted(users.null_count, 'row')}")
    encoded = users.dictionary_encode()
    person = encoded.indices.to_numpy().astype(np.int64)
    names = table.column(columns.key).combine_chunks()
    keys = pc.fill_null(pc.index_in(names, value_set=pa.array(domain.keys)), -1).to_numpy().astype(np.int64)
    texts = table.column(columns.value).combine_chunks()
    values, clipped = _numbers(texts, domain.values)
    usable = (keys >= 0) & ~np.isnan(values)
    if not usable.any():
        raise UserError(f"{path}: {_no_value(table, columns, domain)}")
    empty = names.is_null().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(usable)
    order = rows[np.lexsort((keys[rows], person[rows]))]
    twice = (np.diff(person[order]) == 0) & (np.diff(keys[order]) == 0)
    if twice.any():
        row = order[np.flatnonzero(twice)[0]]
        raise UserError(
            f"{path}: user {users[int(row)].as_py()!r} has the key {names[int(row)].as_py()!r} twice; a "
            "person has one value a key"
        )
    counts = np.bincount(person[order], minlength=len(encoded.dictionary))
    pairs = KeyValuePairs(
        np.concatenate(([0], np.cumsum(counts))), keys[order], domain.values.to_unit(values[order])
    )
    first = np.full(len(encoded.dictionary), len(person), dtype=np.int64)
    np.minimum.at(first, person, np.arange(len(person)))
    unusable = _first_text([(names, keys < 0), (texts, np.isnan(values) & ~empty)])
    return _people(table, columns, path, first, pairs, int((~usable & ~empty).sum()), clipped, unusable)


def _first_text(cells: Iterable[tuple[pa.Array, NDArray[np.bool_]]]) -> str | None:
    """The first text among the cells of columns that a mask chooses; None if all of them are empty."""
    chosen = (pc.drop_null(column.filter(pa.array(mask))) for column, mask in cells)
    return next((texts[0].as_py() for texts in chosen if len(texts)), None)


def _no_value(table: pa.Table, columns: PeopleColumns, domain: Domain) -> str:
    """Why no row can be used, in words."""
    if not len(table):
        return "it has a header line but no rows"
    if isinstance(domain, Vector):
        return "no row has a number in every coordinate's column"
    name = columns.key if isinstance(domain, KeyValues) else columns.value
    texts = pc.drop_null(table.column(name).combine_chunks())
    shown = (
        f"column {name!r} has texts such as {texts[0].as_py()!r}"
        if len(texts)
        else f"column {name!r} is empty"
    )
    if isinstance(domain, Categories):
        return f"{shown}: it has no category of the study, such as {domain.names[0]!r}"
    if isinstance(domain, KeyValues):
        return f"{shown}, but no row has a key of the study, such as {domain.keys[0]!r}, and a number"
    return f"{shown}: it has no numbers"


def _values(text: pa.Array, domain: Domain) -> tuple[NDArray[Any], NDArray[np.bool_], int]:
    """(values, shape (rows,); whether each row has one, shape (rows,); how many were clipped)."""
    if isinstance(domain, Numeric):
        values, clipped = _numbers(text, domain)
        return values, ~np.isnan(values), clipped
    assert isinstance(domain, Categories)
    index = pc.index_in(text, value_set=pa.array(domain.names))
    values = pc.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return values, values >= 0, 0


def _numbers(text: pa.Array, domain: Numeric) -> tuple[NDArray[np.float64], int]:
    """(numbers as clients clip and round them, NaN where a row has no number; how many were clipped)."""
    shaped = pc.if_else(
        pc.match_substring_regex(text, r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"), text, None
    )
    numbers = pc.cast(pc.utf8_trim_whitespace(shaped), pa.float64())
    values = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    outside = int(((values < domain.low) | (values > domain.high)).sum())
    return domain.nearest(values), outside


def _weights(column: pa.ChunkedArray, name: str, path: str) -> NDArray[np.int64]:
    try:
        numbers = pc.cast(column, pa.float64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: column {name!r} has weights that are not numbers: {error}") from None
    wrong = ~(np.isfinite(numbers) & (numbers >= 0.0) & (numbers == np.floor(numbers)))
    if wrong.any():
        raise UserError(
            f"{path}: column {name!r} has the weight {numbers[wrong][0]:g}; "
            "a weight is a whole number of people"
        )
    if numbers.sum() > MOST_PEOPLE:
        raise UserError(f"{path}: the weights in column {name!r} add up to more than {MOST_PEOPLE:,} people")
    return np.asarray(numbers, dtype=np.int64)


def _times(column: pa.ChunkedArray, name: str, path: str) -> NDArray[np.int64]:
    text = column.combine_chunks()
    if text.null_count:
        raise UserError(f"{path}: column {name!r} is empty in {counted(text.null_count, 'row')}")
    digits = pc.all(pc.match_substring_regex(text, r"^\d{1,18}$")).as_py()
    times = cast_column("event_time", pc.cast(text, pa.int64()) if digits else text)
    if times.null_count:
        first = text.filter(times.is_null())[0].as_py()
        raise UserError(f"{path}: column {name!r} has times such as {first!r}; write 2026-11-20T10:00:00Z")
    milliseconds = np.asarray(times.to_numpy(), dtype=np.int64)
    problems = event_times.problems(milliseconds)
    wrong = problems > (0 if digits else event_times.BEFORE_1990)
    if wrong.any():
        row = int(np.argmax(wrong))
        why = event_times.PROBLEMS[problems[row] - 1][1]
        if problems[row] == event_times.BEFORE_1990:
            why = (
                "a number is in milliseconds since 1970-01-01T00:00:00Z, and this one is before 1990; write "
                "old times as 1985-11-20T10:00:00Z"
            )
        raise UserError(f"{path}: column {name!r} has times such as {text[row].as_py()!r}: {why}")
    return milliseconds
