"""The result of :func:`ldpbeam.estimate`: estimates, and what became of every report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ldpbeam.answers.between import between_groups, between_windows
from ldpbeam.clients.times import milliseconds_of
from ldpbeam.library.differences import Differences, not_compared
from ldpbeam.library.needed import needed
from ldpbeam.schemas.outputs.estimates import json_fields
from ldpbeam.schemas.outputs.records import EstimateRecord, PeriodEntry
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.outputs.tables import estimate_rows, pair_rows, share_rows
from ldpbeam.study import Study
from ldpbeam.times import rfc3339

if TYPE_CHECKING:
    import altair
    import pandas
    import polars

#: Tables: one row per estimate; per value bucket, category or key of each; or per number of a pair.
Which = Literal["estimates", "shares", "pairs"]


@dataclass(frozen=True, repr=False)
class Estimates:
    """The estimates of a study.

    Iterating gives :class:`~ldpbeam.schemas.outputs.records.EstimateRecord` values: each has its
    attribute, name, window and group, and the fields of a line of ``estimates.jsonl``.

    Attributes:
        study: the study.
        estimates: one per attribute (or coordinate of a vector), window, group and wanted estimate.
        dead_letters: the reports that could not be used, each with its place in the input (``position`` is
            the table, ``row`` the row), the reason and a detail.
        counts: what became of the reports: ``in`` = ``used`` + ``duplicates`` + ``late`` + ``out_of_range`` +
            ``dead_letters``, and ``dead_letters_by_reason``.
        periods: what users spent in each period of the study's ledger; empty without one.
        snapshots: the statistic of each attribute, window and group.
    """

    study: Study
    estimates: tuple[EstimateRecord, ...]
    dead_letters: pa.Table
    counts: Mapping[str, Any]
    periods: tuple[PeriodEntry, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()

    def __iter__(self) -> Iterator[EstimateRecord]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __getitem__(self, index: int) -> EstimateRecord:
        return self.estimates[index]

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return f'<pre style="white-space: pre; overflow-x: auto">{escape(self.summary())}</pre>'

    def only(
        self, name: str | None = None, *, attribute: str | None = None, group: str | None = None
    ) -> Estimates:
        """The estimates with this name, attribute and group; None matches everything.

        Raises:
            ValueError: if there are none; the message lists what there is.
        """
        wanted = {"name": name, "attribute": attribute, "group": group}
        fields = {key: value for key, value in wanted.items() if value is not None}
        matching = tuple(
            record
            for record in self.estimates
            if all(getattr(record, key) == value for key, value in fields.items())
        )
        if not matching:
            there = {
                key: ", ".join(dict.fromkeys(str(getattr(record, key)) for record in self.estimates))
                or "none"
                for key in fields
            }
            raise ValueError(
                f"no estimate has {' and '.join(f'{key} {value!r}' for key, value in fields.items())}; there "
                f"are {'; '.join(f'{key}: {names}' for key, names in there.items())}"
            )
        return replace(self, estimates=matching)

    def difference(
        self, *, windows: tuple[Any, Any] | None = None, groups: tuple[str | None, str | None] | None = None
    ) -> Differences:
        """The second of two windows or groups minus the first: every number, with an interval.

        The intervals are for the people who reported on each side; ``about`` of the result says what is
        unknown, and which estimates are on one side only. :func:`ldpbeam.difference` reads the reports of
        both windows, and accounts for the dependence between the reports of one user.

        Args:
            windows: the starts of two windows, times with a zone, RFC 3339 text or milliseconds since 1970.
            groups: two groups; None for the reports without one.

        Raises:
            ValueError: if there is no such window or group, both are the same, or both pairs or none are
            given.
        """
        if (windows is None) == (groups is None):
            raise ValueError("give two windows, or two groups")
        if windows is not None:
            first, second = (
                start if isinstance(start, str) else rfc3339(milliseconds_of(start, "windows"))
                for start in windows
            )
            between = between_windows(self.estimates, self.study, first, second)
        else:
            assert groups is not None
            between = between_groups(self.estimates, self.study, *groups)
        left_out = not_compared(between.comparison, "group" if windows is None else "window")
        return Differences(between.comparison.differences, between.level, (*between.sentences, *left_out))

    def records(self) -> list[dict[str, Any]]:
        """The estimates as lines of ``estimates.jsonl``, without the name of a run."""
        return [json_fields(record) for record in self.estimates]

    def summary(self) -> str:
        """Text with a table of the estimates, what became of every report, and why some could not be used."""
        # A program that prints no table does without rich.
        from ldpbeam.answers.tables import summary_text

        return summary_text(self.estimates, self.counts)

    def to_arrow(self, table: Which = "estimates") -> pa.Table:
        """The estimates as an Arrow table whose columns are always the same.

        Args:
            table: ``estimates``, one row per estimate; ``shares``, one row per value bucket, category or key
                of each estimate, with its interval; or ``pairs``, one row per number of each pair.

        Raises:
            ValueError: for another name.
        """
        tables = {"estimates": estimate_rows, "shares": share_rows, "pairs": pair_rows}
        if table not in tables:
            raise ValueError(f"table {table!r}: there are {' and '.join(tables)}")
        return tables[table](self.estimates)

    def to_pandas(self, table: Which = "estimates") -> pandas.DataFrame:
        """:meth:`to_arrow` as a pandas data frame.

        Raises:
            ImportError: if pandas is not installed.
        """
        needed("pandas")
        return self.to_arrow(table).to_pandas()

    def to_polars(self, table: Which = "estimates") -> polars.DataFrame:
        """:meth:`to_arrow` as a polars data frame.

        Raises:
            ImportError: if polars is not installed.
        """
        return needed("polars").from_arrow(self.to_arrow(table))

    def plot(self) -> altair.VConcatChart:
        """A chart of the estimates: bars of numbers, categories and keys, dots of means, lines over windows.

        It draws each interval as a band or a line, and has panels for the largest groups or the last windows.
        Times are in the zone of the study's windows, or in UTC.

        Raises:
            ImportError: if Altair is not installed: ``pip install 'ldpbeam[report]'``.
            ValueError: if there is nothing to show.
        """
        needed("altair", "ldpbeam[report]")
        from ldpbeam.library.plot import chart

        return chart(self.estimates, self.study.clock, self.study.events)
