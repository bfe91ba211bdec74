"""What the ledger says, in sentences; nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ldpbeam.schemas.outputs.records import PeriodEntry
from ldpbeam.words import first_ones


def sentences(entries: Sequence[PeriodEntry]) -> Iterator[str]:
    """What a reader of the page or of the command should know."""
    for entry in entries:
        if entry.users_over_cap:
            yield (
                f"{entry.users_over_cap:,} users spent more than epsilon {entry.cap:g} in the period from "
                f"{entry.period_start} to {entry.period_end}"
            )
        yield from lacking(entry)


def lacking(entry: PeriodEntry) -> Iterator[str]:
    """That the sums of a period lack reports of which there are estimates, if they do."""
    if entry.without_file:
        spans = first_ones([f"{start} to {end}" for start, end in entry.without_file])
        yield (
            "the ledger has no file for these times, though estimates exist, so users spent more than it "
            f"says: {spans}"
        )
