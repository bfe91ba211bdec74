"""What the ledger says, in sentences; nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ldpbeam.schemas.outputs.records import Guarantee, PeriodEntry
from ldpbeam.words import first_ones

#: On what every claim depends.
LIMITS = "That is so if all users are honest, and the estimates of a window are published once."


def sentence(claim: Guarantee | None, what: str) -> str:
    """What is claimed of the estimates of something, and what is not."""
    if claim is None:
        return f"Readers of the estimates {what}: nothing beyond the epsilon of the reports is claimed."
    delta = f" and delta {claim.delta:.1g}" if claim.delta else ""
    return (
        f"Readers of the estimates {what}, who see no report, learn of a user at most epsilon "
        f"{claim.epsilon:.3g}{delta}."
    )


def sentences(entries: Sequence[PeriodEntry]) -> Iterator[str]:
    """What a reader of the page or of the command should know."""
    for entry in entries:
        if entry.users_over_cap:
            yield (
                f"{entry.users_over_cap:,} users spent more than epsilon {entry.cap:g} in the period from "
                f"{entry.period_start} to {entry.period_end}"
            )
        yield from lacking(entry)
        yield sentence(entry.readers, f"from {entry.period_start} to {entry.period_end}")


def lacking(entry: PeriodEntry) -> Iterator[str]:
    """That the sums of a period lack reports of which there are estimates, if they do."""
    if entry.without_file:
        spans = first_ones([f"{start} to {end}" for start, end in entry.without_file])
        yield (
            "the ledger has no file of these times, of which there are estimates: users spent more than it "
            f"says: {spans}"
        )
