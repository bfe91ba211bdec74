"""From decoded batches to statistics, with the functions that the stages of a batch run call."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.joining.kept import Alike, in_parts
from ldpbeam.transforms.joining.pairs import InPairs
from ldpbeam.transforms.joining.report_ids import compared, compared_by_id, first_of_ids
from ldpbeam.transforms.reports.batches import attribute_name
from ldpbeam.transforms.reports.counts import IN, OUT_OF_RANGE, accounting
from ldpbeam.transforms.reports.dead_letters import PLAIN, SCHEMA, Disclosure, counts_of, disclosed
from ldpbeam.transforms.reports.validation import Validation
from ldpbeam.transforms.segments import Part, read_reports, write_reports
from ldpbeam.transforms.storage import join, spilling_in
from ldpbeam.transforms.windows.cut import Pieces, check_overlap
from ldpbeam.transforms.windows.fold import Fold, Folded, JoinedFold
from ldpbeam.transforms.windows.groups import Accumulator, added_up, by_window, snapshots, with_added
from ldpbeam.transforms.windows.piece_keys import PieceKey, WindowKey
from ldpbeam.windows import EVERYTHING, Bounds, Span

#: Reports of shards are spilled, where that is allowed, when this many wait in memory, or this many bytes.
HELD_REPORTS, HELD_BYTES = 2**21, 2**28


@dataclass(frozen=True)
class Spill:
    """Where the reports of a large run wait for those of their users.

    Attributes:
        folder: a folder of this machine, which the run alone uses.
        shards: how many shards of users there are; one is in memory at a time.
    """

    folder: str
    shards: int


@dataclass
class Tally:
    """The statistics of some reports, and what became of every report.

    Attributes:
        disclosure: what dead letters may reveal.
        ledger_key: the key of the ledger over periods.
        snapshots: one per attribute, window and group.
        dead_letters: what could not be used, with the columns of ``dead_letter.avsc``.
        counts: counts of reports by name, as every stage gave them.
        received: the rows of the ledger over periods; empty if the study has none.
    """

    disclosure: Disclosure = PLAIN
    ledger_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    snapshots: list[Snapshot] = field(default_factory=list)
    dead_letters: list[pa.RecordBatch] = field(default_factory=list)
    counts: list[tuple[str, int]] = field(default_factory=list)
    received: list[pa.RecordBatch] = field(default_factory=list)

    def refuse(self, letters: Iterable[pa.RecordBatch]) -> None:
        """Keep dead letters, and count them; they are of the schema ``LETTERS``."""
        for batch in letters:
            self.dead_letters.append(disclosed(batch, self.disclosure))
            self.counts += counts_of(batch).items()

    @property
    def accounting(self) -> dict[str, Any]:
        """What became of every report."""
        return accounting(self.counts)

    @property
    def dead_letter_table(self) -> pa.Table:
        """All dead letters."""
        return pa.Table.from_batches(self.dead_letters, schema=SCHEMA)


def tally_of(
    study: Study,
    decoded: Iterable[pa.RecordBatch],
    span: Span = EVERYTHING,
    tally: Tally | None = None,
    spill: Spill | None = None,
) -> Tally:
    """Validate, drop duplicates, cut by window, join users and count.

    Args:
        study: the study.
        decoded: decoded batches of reports.
        span: reports outside are out of range, and only the windows inside are estimated.
        tally: to what the reports are added; a new one by default.
        spill: where reports wait beyond :data:`HELD_REPORTS`; None to hold all in memory.

    Raises:
        ValueError: if windows overlap too often to join users.
        OSError: if the disk does not take what is spilled.
    """
    tally = tally or Tally()
    tally.snapshots += _folded(study, usable(study, decoded, span, tally, spill), span, tally, spill)
    return tally


def usable(
    study: Study,
    decoded: Iterable[pa.RecordBatch],
    span: Span,
    tally: Tally,
    spill: Spill | None = None,
) -> Iterator[pa.RecordBatch]:
    """The valid reports within a span, without duplicates by report id; a tally counts the others."""
    reports = _valid(study, decoded, span, tally)
    return _without_duplicates(study, reports, span, tally, spill) if study.duplicates == "drop" else reports


def _valid(
    study: Study, decoded: Iterable[pa.RecordBatch], span: Span, tally: Tally
) -> Iterator[pa.RecordBatch]:
    validation = Validation(study, span, tally.disclosure, tally.ledger_key if study.ledger else None)
    for batch in decoded:
        tally.counts.append((IN, batch.num_rows))
        for validated in validation.in_parts(batch):
            tally.counts += validated.counts.items()
            tally.refuse(validated.letters)
            tally.received += validated.received
            yield from validated.reports


def _without_duplicates(
    study: Study, reports: Iterable[pa.RecordBatch], span: Span, tally: Tally, spill: Spill | None
) -> Iterator[pa.RecordBatch]:
    """Drop duplicates by report id, and after that the reports outside the span."""
    alike = compared(study)
    shards = _Shards(spill, "ids", "report_id" if alike.most is None else "user", lambda _: alike)
    for batch in reports:
        batch, others = compared_by_id(study, batch)
        yield others
        shards.add(batch)
    for key, pieces in shards.together():
        for first, counts in first_of_ids(study, study.attribute(key.attribute), pieces):
            tally.counts += counts
            for batch in first:
                outside = span.outside(batch.column("event_time").to_numpy())
                tally.counts.append((OUT_OF_RANGE, int(outside.sum())))
                yield batch.filter(pa.array(~outside)) if outside.any() else batch
    tally.counts += shards.counts.items()


def _folded(
    study: Study, reports: Iterable[pa.RecordBatch], span: Span, tally: Tally, spill: Spill | None
) -> Iterator[Snapshot]:
    """Cut reports by shard of users, fold the shards, and add up by window and group."""
    fold, alone = Fold(study, span), Pieces(study.windows, 1, span=span)
    shards = _Shards(spill, "users", "user", fold.alike, study.in_pairs)
    if study.group_users:
        check_overlap(study.windows)
    by_window_key: dict[WindowKey, Accumulator] = {}

    def add(window: Bounds | None, folded: Folded) -> None:
        shards.counts.update(dict(folded.counts(study)))
        for window_key, statistics in by_window(folded.statistics, window):
            by_window_key[window_key] = with_added(by_window_key.get(window_key, []), statistics)

    def fold_alone() -> None:
        for key, parts in alone.taken():
            for window, folded in fold.fold(key, parts):
                add(window, folded)

    for batch in reports:
        if fold.compares(study.attribute(attribute_name(batch))):
            shards.add(batch)
            continue
        # In a batch without a watermark no report is late, so that there is nothing to count.
        list(alone.gather(batch))
        if alone.reports >= HELD_REPORTS:
            fold_alone()
    fold_alone()
    folds = [fold, JoinedFold(study, span)] if study.windows_joined > 1 else [fold]
    for key, pieces in shards.together():
        alike = fold.alike(key.attribute)
        for part, left_out in in_parts(pieces, alike):
            shards.counts.update(dict(alike.counts(left_out)))
            for own_fold in folds:
                for window, folded in own_fold.fold(key, part):
                    add(window, folded)
    tally.counts += shards.counts.items()
    for window_key in list(by_window_key):
        # What lies around a small statistic takes more memory than the statistic.
        yield from snapshots(study, window_key, added_up(by_window_key.pop(window_key)))


class _Shards:
    """Reports by the shard of a column, in memory and, beyond a limit, in segments.

    Args:
        spill: where they are spilled; None to hold all in memory, in one shard.
        name: the folder of the segments.
        column: the column.
        alike: of which reports of an attribute one is kept, so that others are left out before they are
            spilled.
        in_pairs: the pairs that attributes are in.
    """

    def __init__(
        self,
        spill: Spill | None,
        name: str,
        column: str,
        alike: Callable[[str], Alike],
        in_pairs: InPairs | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._folder = None if spill is None else join(spill.folder, name)
        self._pieces = Pieces(
            None, 1 if spill is None else spill.shards, column=column, alike=alike, in_pairs=in_pairs
        )
        self._parts: dict[PieceKey, list[Part]] = {}
        self._bytes = self._segments = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the reports of a channel."""
        if not batch.num_rows:
            return
        list(self._pieces.gather(batch))
        self._bytes += batch.nbytes
        if self._folder is not None and (self._pieces.reports >= HELD_REPORTS or self._bytes >= HELD_BYTES):
            self._write(self._folder)

    def _write(self, folder: str) -> None:
        for alike, _, left_out in self._pieces.leave_out_repeats():
            self.counts.update(dict(alike.counts(left_out)))
        pieces = [(key, batch) for key, parts in self._pieces.taken() for batch in parts]
        self._segments, self._bytes = self._segments + 1, 0
        with spilling_in(folder):
            parts = write_reports(folder, self._segments, [batch for _, batch in pieces], durable=False)
        for (key, _), part in zip(pieces, parts, strict=True):
            self._parts.setdefault(key, []).append(part)

    def together(self) -> Iterator[tuple[PieceKey, Iterable[pa.RecordBatch]]]:
        """(key, the reports of its shard) of everything, shard by shard."""
        fresh: dict[PieceKey, list[pa.RecordBatch]] = {}
        for key, parts in self._pieces.taken():
            fresh.setdefault(key, []).extend(parts)
        for key in dict.fromkeys([*self._parts, *fresh]):
            yield key, _Shard(self._folder or "", self._parts.pop(key, []), fresh.pop(key, []))


@dataclass(frozen=True)
class _Shard:
    """The reports of a shard, which are read whenever they are gone through."""

    folder: str
    parts: list[Part]
    fresh: list[pa.RecordBatch]

    @property
    def reports(self) -> int:
        """How many there are."""
        return sum(part.rows for part in self.parts) + sum(int(batch.num_rows) for batch in self.fresh)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from read_reports(self.folder, self.parts)
        yield from self.fresh
