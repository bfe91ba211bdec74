"""From a table of reports to estimates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ldpbeam.answers import periods
from ldpbeam.answers.ledger_queries import reports_of_users
from ldpbeam.answers.published import cut_windows, warnings_of, with_refusals, without_groups
from ldpbeam.answers.solve import solved
from ldpbeam.clients.times import window_time
from ldpbeam.library.needed import needed
from ldpbeam.library.result import Estimates
from ldpbeam.library.tables import decoded_batches
from ldpbeam.schemas.outputs.records import PeriodEntry
from ldpbeam.study import Study
from ldpbeam.transforms.reports.ledger_rows import distinct
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.tally import Tally, tally_of
from ldpbeam.windows import EVERYTHING, FAR, Span, whole_windows


def estimate_reports(
    study: Study,
    reports: Any,
    attribute: str | None,
    service: str | None,
    columns: Mapping[str, str] | None,
    start: datetime | str | int | None,
    stop: datetime | str | int | None,
) -> Estimates:
    """The estimates of :func:`ldpbeam.estimate` from a table of reports.

    Raises:
        ImportError: as :func:`ldpbeam.estimate` does, and all others, too.
    """
    if study.ledger is not None:
        needed("duckdb", "ldpbeam[ledger]")
    wanted = checked_columns(study, attribute, service, renamed=columns)
    span = _span(study, start, stop)
    tally = tally_of(study, decoded_batches(reports, wanted), span)
    return estimates_of(study, tally, span)


def estimates_of(study: Study, tally: Tally, span: Span = EVERYTHING) -> Estimates:
    """The estimates of a tally; what a person should know is warned of, where the program asked for them."""
    estimates, left_out = solved(study, tally.snapshots)
    tally.counts += left_out.items()
    counts = tally.accounting
    refused, cells = (counts.get(name, {}) for name in ("payloads_refused", "reports_of_cells"))
    estimates = with_refusals(study, estimates, refused, cells)
    for sentence in (
        *warnings_of(study, counts, written=False),
        *without_groups(study, estimates),
        *cut_windows(study, span),
    ):
        warnings.warn(sentence, stacklevel=4)
    return Estimates(
        study,
        tuple(estimates),
        tally.dead_letter_table,
        counts,
        _periods(study, tally),
        tuple(tally.snapshots),
    )


def _periods(study: Study, tally: Tally) -> tuple[PeriodEntry, ...]:
    """What users spent in each period of the ledger."""
    if study.ledger is None:
        return ()
    totals = periods.added_up(study, reports_of_users(study, [distinct(tally.received).to_batches()]))
    return tuple(periods.entries_of(study, totals))


def _span(study: Study, start: datetime | str | int | None, stop: datetime | str | int | None) -> Span:
    """The event times that count; with windows, the span of the whole windows inside.

    Raises:
        ValueError: if one is no plausible time, ``start`` is not before ``stop``, or no whole window lies
            between them.
    """
    first = -FAR if start is None else window_time(start, "start", study.clock)
    after = FAR if stop is None else window_time(stop, "stop", study.clock)
    if first >= after:
        raise ValueError(f"start={start!r} is not before stop={stop!r}")
    given = Span(first, after)
    return given if study.windows is None else whole_windows(study.windows, given)
