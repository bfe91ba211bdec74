"""From decoded batches to statistics, with the functions that the stages of a batch run call."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ldpbeam.over_time.received import Received
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.joining.kept import in_parts
from ldpbeam.transforms.joining.report_ids import compared_by_id, first_of_ids
from ldpbeam.transforms.reports.batches import attribute_name
from ldpbeam.transforms.reports.counts import IN, OUT_OF_RANGE, accounting
from ldpbeam.transforms.reports.dead_letters import PLAIN, SCHEMA, Disclosure, counts_of, disclosed
from ldpbeam.transforms.reports.validation import Validation
from ldpbeam.transforms.windows.cut import Pieces, check_overlap
from ldpbeam.transforms.windows.fold import Fold, JoinedFold
from ldpbeam.transforms.windows.groups import Accumulator, added_up, by_window, snapshots, with_added
from ldpbeam.transforms.windows.piece_keys import PieceKey, WindowKey
from ldpbeam.windows import EVERYTHING, Span

#: A shard of users has about this many reports, so that their keys fit into one Arrow array.
SHARD_REPORTS = 2**21


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
    received: list[Received] = field(default_factory=list)

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
    study: Study, decoded: Iterable[pa.RecordBatch], span: Span = EVERYTHING, tally: Tally | None = None
) -> Tally:
    """Validate, drop duplicates, cut by window, join users and count.

    Args:
        study: the study.
        decoded: decoded batches of reports.
        span: reports outside are out of range, and only the windows inside are estimated.
        tally: to what the reports are added; a new one by default.

    Raises:
        ValueError: if windows overlap too often to join users.
    """
    tally = tally or Tally()
    tally.snapshots += _folded(study, usable(study, decoded, span, tally), span, tally)
    return tally


def usable(study: Study, decoded: Iterable[pa.RecordBatch], span: Span, tally: Tally) -> list[pa.RecordBatch]:
    """The valid reports within a span, without duplicates by report id; a tally counts the others."""
    reports = list(_valid(study, decoded, span, tally))
    return list(_without_duplicates(study, reports, span, tally)) if study.duplicates == "drop" else reports


def _valid(
    study: Study, decoded: Iterable[pa.RecordBatch], span: Span, tally: Tally
) -> Iterator[pa.RecordBatch]:
    validation = Validation(study, span, tally.disclosure, tally.ledger_key if study.ledger else None)
    for batch in decoded:
        validated = validation.validate(batch)
        tally.counts += [(IN, batch.num_rows), (OUT_OF_RANGE, validated.out_of_range)]
        tally.refuse(validated.letters)
        tally.received += validated.received
        yield from validated.reports


def _without_duplicates(
    study: Study, reports: Iterable[pa.RecordBatch], span: Span, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """Drop duplicates by report id, and after that the reports outside the span."""
    by_attribute: dict[str, list[pa.RecordBatch]] = {}
    for batch in reports:
        batch, others = compared_by_id(study, batch)
        yield others
        by_attribute.setdefault(attribute_name(batch), []).append(batch)
    for name, batches in by_attribute.items():
        for first, counts in first_of_ids(study, study.attribute(name), batches):
            tally.counts += counts
            for batch in first:
                outside = span.outside(batch.column("event_time").to_numpy())
                tally.counts.append((OUT_OF_RANGE, int(outside.sum())))
                yield batch.filter(pa.array(~outside)) if outside.any() else batch


def _folded(study: Study, reports: list[pa.RecordBatch], span: Span, tally: Tally) -> Iterator[Snapshot]:
    """Cut reports by shard of users, fold the shards, and add up by window and group."""
    fold, alone = Fold(study, span), Pieces(study.windows, 1, span=span)
    many = max(1, -(-sum(batch.num_rows for batch in reports) // SHARD_REPORTS))
    shards = Pieces(None, many)
    if study.group_users:
        check_overlap(study.windows)
    folds = [fold, JoinedFold(study, span)] if study.windows_joined > 1 else [fold]
    for batch in reports:
        pieces = shards if fold.compares(study.attribute(attribute_name(batch))) else alone
        # In a batch without a watermark no report is late, so that there is nothing to count.
        list(pieces.gather(batch))
    by_key: dict[PieceKey, list[pa.RecordBatch]] = {}
    for key, parts in itertools.chain(shards.taken(), alone.taken()):
        by_key.setdefault(key, []).extend(parts)
    by_window_key: dict[WindowKey, Accumulator] = {}
    counts: Counter[str] = Counter()
    for key, batches in by_key.items():
        alike = fold.alike(key.attribute)
        compared = fold.compares(study.attribute(key.attribute))
        divided = in_parts(batches, alike) if compared else iter([(batches, 0)])
        for part, left_out in divided:
            counts.update(dict(alike.counts(left_out)))
            for own_fold in folds:
                for window, folded in own_fold.fold(key, part):
                    counts.update(dict(folded.counts(study)))
                    for window_key, statistics in by_window(folded.statistics, window):
                        by_window_key[window_key] = with_added(by_window_key.get(window_key, []), statistics)
    tally.counts += counts.items()
    for window_key in list(by_window_key):
        # What lies around a small statistic takes more memory than the statistic.
        yield from snapshots(study, window_key, added_up(by_window_key.pop(window_key)))
