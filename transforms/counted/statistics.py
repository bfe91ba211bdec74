"""Rows of a table of counts become the snapshots of windows and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.counted import CellSums, Exact, counted_bits, tally_counted
from ldpbeam.domains import Floats, Integers
from ldpbeam.errors import meant_or_known
from ldpbeam.mechanisms import UnbiasedMechanism
from ldpbeam.mechanisms.mechanism import FIXED_POINT_STEPS
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.reports.casts import as_numbers
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.statistics import Answers, Statistic, has_tail, merge
from ldpbeam.study import attribute_of
from ldpbeam.transforms.counted.columns import (
    ATTRIBUTE,
    CELL,
    COUNT,
    ONES,
    PAYLOAD,
    PLACE,
    REPORTS,
    SERVICE,
    SUMS,
    VERSION,
    CountTable,
    column_of,
    reported_columns,
)
from ldpbeam.transforms.reports.counts import IN, OF_CELLS, OUT_OF_RANGE, ROWS_OF_COUNTS, USED
from ldpbeam.transforms.reports.dead_letters import REASONS
from ldpbeam.transforms.reports.payloads import checked_payloads
from ldpbeam.transforms.tally import Tally
from ldpbeam.transforms.windows.groups import GroupStatistics, snapshots
from ldpbeam.transforms.windows.piece_keys import GroupKey, WindowKey
from ldpbeam.windows import EVERYTHING, Bounds, Span

#: Counts are below this.
MOST = 2**62


class _Part(NamedTuple):
    """Rows of one channel.

    Attributes:
        channel: its index in ``attribute.versions``.
        version: the channel.
        prefix: what the names of its columns begin with.
        places: the places of the rows among those of their attribute, window and group, shape (n,).
        rows: the rows, shape (n,).
    """

    channel: int
    version: ServiceVersion
    prefix: str
    places: Integers
    rows: Integers

    def columns(self, *names: str) -> list[str]:
        """The columns of the channel with some names."""
        return [column_of(self.prefix, name) for name in names]


@dataclass
class CountedReports:
    """The statistics of a table of counts.

    Args:
        table: the table.

    Attributes:
        of_cells: how many numbers are known by their cells alone, by a name of the accounting.
    """

    table: CountTable
    of_cells: Counter[str] = field(default_factory=Counter)

    def snapshots(self) -> list[Snapshot]:
        """One snapshot per attribute, window and group.

        Raises:
            ValueError: if the study asks for what counts cannot tell, a column is missing, or a row is
                impossible; the text names the row.
        """
        study = self.table.study
        for key, asked in (("windows.joined", study.windows_joined > 1), ("ledger", study.ledger)):
            if asked:
                raise ValueError(f"{key}: counts do not say which reports come from one user: leave it out")
        by_window: dict[WindowKey, GroupStatistics] = {}
        for of, window, rows in self._keys():
            of_window = by_window.setdefault(WindowKey(of.attribute, window), GroupStatistics())
            of_window[of] = self._statistic(study.attribute(of.attribute), rows)
        return [snapshot for key, groups in by_window.items() for snapshot in snapshots(study, key, groups)]

    def _keys(self) -> Iterator[tuple[GroupKey, Bounds | None, Integers]]:
        """(attribute and group, window, the rows) of everything that has a statistic of its own."""
        table, every = self.table, np.arange(self.table.rows)
        names, groups = table.study.estimated, table.study.groups
        only = table.attribute or (names[0] if len(names) == 1 else None)
        rows_of: dict[tuple[str, Bounds | None, str | None], list[int]] = {}
        keys = zip(
            table.texts(ATTRIBUTE, every, only),
            table.windows,
            table.texts(groups.field, every) if groups else [None] * len(every),
            strict=True,
        )
        for row, key in enumerate(keys):
            rows_of.setdefault(key, []).append(row)
        for (name, window, group), rows in rows_of.items():
            if name not in names:
                raise ValueError(_unknown(ATTRIBUTE, name, names, rows[0]))
            yield GroupKey(name, group), window, np.array(rows)

    def _statistic(self, attribute: Attribute, rows: Integers) -> Statistic:
        """The statistic of some rows of an attribute."""
        parts = list(self._parts(attribute, rows))
        if PLACE in self.table.columns:
            return merge([self._of_places(attribute, part) for part in parts])
        counts = self.table.integers(COUNT, rows, MOST).astype(np.int64)
        sent = [pair for part in parts for pair in self._sent(attribute, part, counts)]
        return tally_counted(attribute, counts, [answer for answer, _ in sent], [c for _, c in sent if c])

    def _parts(self, attribute: Attribute, rows: Integers) -> Iterator[_Part]:
        """The rows of each channel. Services that have columns of their own are joined by user."""
        table, services = self.table, attribute.services
        wide = [v.service for v in attribute.versions if {*reported_columns(v, v.service)} & {*table.columns}]
        only = table.service or (services[0] if len(services) == 1 else None)
        named = table.texts(SERVICE, rows, only)
        there = list(dict.fromkeys(wide or named.tolist()))
        if attribute.group_users and len(there) > 1 and not wide:
            raise ValueError(
                f"the reports of {' and '.join(map(str, there))} are brought together by user: count users "
                "by what they sent to each, with a column per service (docs/counts.md)"
            )
        for service in there:
            places = np.arange(len(rows)) if wide else np.flatnonzero(named == service)
            if service not in services:
                raise ValueError(_unknown(SERVICE, service, services, rows[places[0]]))
            prefix = service if wide else ""
            names = {attribute.versions[i].version: i for i in attribute.versions_of([service])}
            only = next(iter(names)) if len(names) == 1 else None
            of_rows = table.texts(column_of(prefix, VERSION), rows[places], only)
            for name in dict.fromkeys(of_rows.tolist()):
                chosen = places[of_rows == name]
                if name in names:
                    yield _Part(names[name], attribute.versions[names[name]], prefix, chosen, rows[chosen])
                elif name is not None or not wide:
                    raise ValueError(_unknown(VERSION, name, names, rows[chosen[0]]))

    def _sent(
        self, attribute: Attribute, part: _Part, counts: Integers
    ) -> Iterator[tuple[Answers, CellSums | None]]:
        """What the users of a channel's rows sent; nothing if they sent it nothing."""
        table, mechanism = self.table, part.version.mechanism
        names = [PAYLOAD, *([CELL] if isinstance(mechanism, UnbiasedMechanism) else [])]
        ways = part.columns(*names, *(mechanism.payload_dtype.names or ())[:1])
        way = next((name for name in ways if table.given(name, part.rows).any()), "")
        given = table.given(way, part.rows)
        if not part.prefix and not given.all():
            row = part.rows[int(np.argmin(given))]
            raise ValueError(f"row {row}: give {' or '.join(ways)} for the reports to {part.version.label}")
        if not given.any():
            return
        part = part._replace(places=part.places[given], rows=part.rows[given])
        if [way] == part.columns(CELL) and isinstance(mechanism, UnbiasedMechanism):
            cells = table.integers(way, part.rows, mechanism.cells(attribute.buckets)).astype(np.int64)
            middles = mechanism.representatives(attribute.buckets)[cells]
            sums = self._sums(attribute, part, mechanism, middles, counts[part.places].astype(np.object_))
            yield Answers(part.channel, part.places, middles), CellSums(part.channel, part.places, *sums)
            return
        column = table.payloads(way, part.rows) if [way] == part.columns(PAYLOAD) else self._of_fields(part)
        if pa.types.is_string(column.type) and mechanism.payload_dtype.kind != "V":
            column = as_numbers(column)
        batch = pa.record_batch([column], ["payload"])
        service = self.table.study.described(attribute.name).services[part.version.service]
        payloads, problems = checked_payloads(mechanism, batch, np.arange(len(part.rows)), service.payload)
        if problems.any():
            index = int(np.argmax(problems > 0))
            raise ValueError(
                f"row {part.rows[index]}: {REASONS[problems[index]].replace('_', ' ')}: a report of "
                f"{part.version.label} is {mechanism.output()}; leave such rows out of the counts"
            )
        yield Answers(part.channel, part.places, payloads), None

    def _of_fields(self, part: _Part) -> pa.Array:
        """Payloads of several numbers, such as a seed and a hash, that have a column each."""
        mechanism = part.version.mechanism
        if mechanism.hashes_per_report:
            raise ValueError(
                f"{part.version.label}: with seeds: any almost every report has another seed, so counting "
                "saves nothing: give the reports"
            )
        payloads = np.zeros(len(part.rows), dtype=mechanism.payload_dtype)
        for name in payloads.dtype.names or ():
            most = 1 << 8 * payloads.dtype[name].itemsize
            payloads[name] = self.table.integers(column_of(part.prefix, name), part.rows, most)
        return payload_column(payloads)

    def _sums(
        self, attribute: Attribute, part: _Part, mechanism: UnbiasedMechanism, middles: Floats, users: Exact
    ) -> tuple[Exact, Exact]:
        """The sums of the reports in cells, and of their squares, in steps."""
        columns = part.columns(*SUMS)
        steps = mechanism.fixed_point(middles).astype(np.object_)
        sums, squares = steps * users, steps**2 * users
        if has_tail(mechanism):
            assert mechanism.tail is not None
            # The distance beyond an end is exponential: the mean of its square is twice that of its mean.
            beyond = users * (np.abs(middles) > mechanism.tail.end)
            squares += beyond * round((mechanism.tail.excess[1] / mechanism.fixed_point_step) ** 2)
        if all(self.table.given(name, part.rows).all() for name in columns):
            sums, squares = (self.table.integers(name, part.rows) for name in columns)
        else:
            self.of_cells[f"{OF_CELLS}{attribute_of(attribute.name)}/{part.version.service}"] += users.sum()
        wrong = (sums**2 > users * squares) | (squares > users * FIXED_POINT_STEPS**2)
        if wrong.any():
            raise ValueError(
                f"row {part.rows[int(np.argmax(wrong))]}: no reports of {part.version.label} have this "
                f"count, sum and squares, which are in steps of {mechanism.fixed_point_step!r}"
            )
        return sums, squares

    def _of_places(self, attribute: Attribute, part: _Part) -> Statistic:
        """The statistic of bits that are counted by category."""
        table, mechanism, rows = self.table, part.version.mechanism, part.rows
        bins = mechanism.bits
        if not bins or attribute.joint_services:
            raise ValueError(
                f"{PLACE}: reports of {part.version.label} are not counted by place: "
                f"use {PAYLOAD} and {COUNT}"
            )
        places = table.integers(PLACE, rows, bins).astype(np.int64)
        ones, (reports, *others) = np.zeros(bins, np.int64), {*table.integers(REPORTS, rows, MOST)}
        ones[places] = table.integers(ONES, rows, reports + 1)
        if others or len(np.unique(places)) < len(places):
            raise ValueError(
                f"rows {rows[0]} to {rows[-1]}: give one row for each place of {part.version.label} in a "
                f"window and group, all with the same {REPORTS}"
            )
        return counted_bits(attribute, part.channel, reports, ones)


def _unknown(what: str, name: str | None, names: Iterable[str], row: int) -> str:
    return f"row {row}: unknown {what} {name!r}; {meant_or_known(name or '', names)}"


def tally_counts(table: CountTable, span: Span = EVERYTHING, tally: Tally | None = None) -> Tally:
    """The statistics of a table of counts, in the place of those of reports.

    Args:
        table: the table.
        span: windows outside are out of range.
        tally: to what they are added; a new one by default.

    Raises:
        ValueError: as :meth:`CountedReports.snapshots` does.
    """
    tally, counted = tally or Tally(), CountedReports(table)
    for snapshot in counted.snapshots():
        inside = span.holds(snapshot.window)
        tally.snapshots += [snapshot] if inside else []
        reports = snapshot.statistic.reports
        tally.counts += [(IN, reports), (USED if inside else OUT_OF_RANGE, reports)]
    tally.counts += [(ROWS_OF_COUNTS, table.rows), *counted.of_cells.items()]
    return tally
