"""The columns of a table of counts, as a GROUP BY gives it, read exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.attributes import ServiceVersion
from ldpbeam.domains import Integers
from ldpbeam.errors import meant_or_known
from ldpbeam.schemas.reports.casts import as_text, cast_column, unwrapped
from ldpbeam.study import Study
from ldpbeam.windows import Bounds

#: The columns that identify a row, besides the group field of the study.
ATTRIBUTE, SERVICE, WINDOW, VERSION = "attribute", "service", "window_start", "version"
#: The column with the number of users, or reports, that a row stands for.
COUNT = "count"
#: Of bits: the category, how many of the reports have its bit set, and how many reports there are.
PLACE, ONES, REPORTS = "place", "ones", "reports"
#: What was reported: a whole payload, or the cell of a number, with the sums of the reports in it.
PAYLOAD, CELL, SUMS = "payload", "cell", ("sum", "squares")

Texts = NDArray[np.object_]


def column_of(prefix: str, name: str) -> str:
    """The column of a service that has columns of its own; the payload is in the one with its name."""
    return name if not prefix else prefix if name == PAYLOAD else f"{prefix}_{name}"


def reported_columns(version: ServiceVersion, prefix: str = "") -> list[str]:
    """The columns that may say what was reported through a channel."""
    fields = version.mechanism.payload_dtype.names or ()
    return [column_of(prefix, name) for name in (PAYLOAD, CELL, *SUMS, VERSION, *fields)]


def arrays_of(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of a table of Arrow by name."""
    return {name: unwrapped(table.column(name)) for name in table.column_names}


@dataclass(frozen=True)
class CountTable:
    """A table of counts.

    Attributes:
        study: the study.
        columns: the columns by name, of equal lengths.
        attribute: the attribute of rows that do not name one; by default the study's, if it has only one.
        service: the service of rows that do not name one; by default the attribute's, if it has only one.

    Raises:
        ValueError: if there is a column that the study does not have.
    """

    study: Study
    columns: Mapping[str, pa.Array]
    attribute: str | None = None
    service: str | None = None

    def __post_init__(self) -> None:
        names = list(dict.fromkeys(self._names()))
        for name in self.columns:
            if name not in names:
                raise ValueError(
                    f"column {name!r}: counts have no such column; {meant_or_known(name, names)}"
                )

    def _names(self) -> Iterator[str]:
        """The columns that a table of the study's counts may have."""
        yield from (COUNT, ATTRIBUTE, SERVICE)
        yield from [WINDOW] if self.study.windows else []
        yield from [self.study.groups.field] if self.study.groups else []
        versions = [
            version for name in self.study.estimated for version in self.study.attribute(name).versions
        ]
        for version in versions:
            yield from reported_columns(version)
        yield from (PLACE, ONES, REPORTS)
        for version in versions:
            yield from reported_columns(version, version.service)

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def given(self, name: str, rows: Integers) -> NDArray[np.bool_]:
        """Which of some rows have a value in a column; none if there is no such column."""
        if name not in self.columns:
            return np.zeros(len(rows), dtype=np.bool_)
        valid: NDArray[np.bool_] = self._taken(name, rows).is_valid().to_numpy(zero_copy_only=False)
        return valid

    def texts(self, name: str, rows: Integers, otherwise: str | None = None) -> Texts:
        """The values of a column as texts; ``otherwise`` where there is none."""
        if name not in self.columns:
            return np.full(len(rows), otherwise, dtype=np.object_)
        column = cast_column(name, self._taken(name, rows))
        return np.array(
            [otherwise if text is None else text for text in column.to_pylist()], dtype=np.object_
        )

    def integers(self, name: str, rows: Integers, below: int | None = None) -> Texts:
        """The values of a column as whole numbers of any size, from 0 on, or of any sign without ``below``.

        Raises:
            ValueError: if there is no such column, or a value is another; the text names the row.
        """
        if name not in self.columns:
            raise ValueError(f"there is no column {name!r}")
        taken = self._taken(name, rows)
        texts = as_text(taken).to_pylist()
        numbers = np.zeros(len(rows), dtype=np.object_)
        for index, text in enumerate(texts):
            try:
                number = numbers[index] = int(text)
            except (TypeError, ValueError):
                number = None
            if number is None or (below is not None and not 0 <= number < below):
                given = taken[index].as_py()
                limits = "" if below is None else f" from 0 to {below - 1:,}"
                exact = ": doubles are not exact, so CAST it AS DECIMAL(38, 0)" * isinstance(given, float)
                raise ValueError(
                    f"row {rows[index]}: {name} must be a whole number{limits}, found {given!r}{exact}"
                )
        return numbers

    def payloads(self, name: str, rows: Integers) -> pa.Array:
        """The payloads in a column, as those of reports."""
        return cast_column("payload", self._taken(name, rows))

    @cached_property
    def windows(self) -> list[Bounds | None]:
        """The window of each row.

        Raises:
            ValueError: if there is no column of them, or one is not of the study; the text names the row.
        """
        windows = self.study.windows
        if windows is None:
            return [None] * self.rows
        if WINDOW not in self.columns:
            raise ValueError(
                f"there is no column {WINDOW!r}: the study has windows, so each row needs its start"
            )
        begin: dict[int | None, Bounds] = {}
        starts = cast_column("event_time", self.columns[WINDOW], self.study.local).to_pylist()
        for start in dict.fromkeys(starts):
            holding = [] if start is None else windows.between(start, start)
            if not holding or holding[0][0] != start:
                row = starts.index(start)
                value = self.columns[WINDOW][row].as_py()
                raise ValueError(
                    f"row {row}: no window of the study starts at {WINDOW} {value!s}: give times with a "
                    "zone, such as 2026-01-31T00:00:00Z"
                )
            begin[start] = holding[0]
        return [begin[start] for start in starts]

    def _taken(self, name: str, rows: Integers) -> pa.Array:
        column = self.columns[name]
        return column if len(rows) == len(column) else column.take(pa.array(rows))
