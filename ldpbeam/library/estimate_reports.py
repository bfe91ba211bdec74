"""``ldpbeam.estimate``: from a table of reports to estimates, in this process."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ldpbeam.answers import ledger, periods
from ldpbeam.answers.alarms import in_order
from ldpbeam.answers.child import one_blas_thread
from ldpbeam.answers.ledger_queries import reports_of_users
from ldpbeam.answers.published import (
    Size,
    chosen,
    cut_windows,
    size_of,
    smallest,
    warnings_of,
    with_refusals,
    without_groups,
)
from ldpbeam.answers.solve import solve, sort_key
from ldpbeam.clients.times import milliseconds_of
from ldpbeam.errors import UserError
from ldpbeam.library.needed import needed
from ldpbeam.library.result import Estimates
from ldpbeam.library.tables import decoded_batches
from ldpbeam.schemas.outputs.records import PeriodEntry
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import check_tables
from ldpbeam.transforms.reports.ledger_rows import distinct
from ldpbeam.transforms.reports.validation import columns_or_only
from ldpbeam.transforms.tally import Tally, tally_of
from ldpbeam.windows import FAR, Bounds, Span, whole_windows


def estimate(
    study: Study,
    reports: Any,
    *,
    attribute: str | None = None,
    service: str | None = None,
    columns: Mapping[str, str] | None = None,
    start: datetime | str | int | None = None,
    stop: datetime | str | int | None = None,
) -> Estimates:
    """Every estimate that a study asks for, from reports in memory.

    The reports are validated, cut, joined and counted by the functions that ``ldpbeam estimate`` runs on
    Beam, so the estimates are the same, bit for bit. Invalid reports become dead letters of the result.

    Args:
        study: the study.
        reports: a table of pandas, polars or Arrow (anything with ``__arrow_c_stream__``), a dict of columns,
            or an iterable of these or of single reports, as :meth:`ldpbeam.Client.report` gives them (dicts
            or named tuples of single values). The columns are those of a file of reports: ``user_id``,
            ``payload``, ``attribute``, ``service``, and where the study needs them ``event_time``,
            ``report_id``, and the group and version fields. In a dict of columns, a text stands for a column
            that has it in every row.
            Payloads of several types (numbers and bytes) are best given as several tables.
        attribute: the attribute of reports that do not name one; by default the study's, if it has only one.
        service: the service of reports that do not name one; by default the study's, if it has only one.
        columns: the reports' own name of a column, by ours, where they differ: ``{"user_id": "uid"}``.
        start: the first event time that counts, and with windows the start of the first whole window: a time
            with a zone, RFC 3339 text, or milliseconds since 1970.
        stop: the first event time after the span.

    Returns:
        The estimates, in the order of the study, with the dead letters and the counts.

    Raises:
        ImportError: if the study keeps a ledger over periods and DuckDB is not installed: ``pip install
            'ldpbeam[ledger]'``.
        TypeError: if the reports are not a table, or ``study`` is not a Study.
        ValueError: if a column is missing, ``attribute`` or ``service`` is unknown, ``columns`` cannot be,
            ``start`` or ``stop`` is no plausible time, no whole window lies between them, or windows overlap
            too often to join users.
    """
    if not isinstance(study, Study):
        raise TypeError(
            f"the first argument is a Study, found {type(study).__name__}: ldpbeam.Study.from_yaml(...) or "
            "from_dict(...); an estimate from a statistic is ldpbeam.estimators.estimate"
        )
    try:
        check_tables(study)
    except UserError as error:
        raise ValueError(str(error)) from None
    if study.ledger is not None:
        needed("duckdb", "ldpbeam[ledger]")
    wanted = columns_or_only(study, attribute, service, renamed=columns)
    span = _span(study, start, stop)
    tally = tally_of(study, decoded_batches(reports, wanted), span)
    snapshots = _chosen(study, tally)
    decided = study.for_a_run((snapshot.attribute, 1) for snapshot in tally.snapshots)
    with one_blas_thread():
        estimates = [record for snapshot in snapshots for record in solve(decided, snapshot)]
    estimates.sort(key=lambda record: sort_key(study, record))
    slides = study.windows is not None and study.windows.slides
    estimates = in_order(estimates, slides=slides, clock=study.local)
    counts = tally.accounting
    estimates = with_refusals(study, estimates, counts.get("payloads_refused", {}))
    for sentence in (
        *warnings_of(study, counts, written=False),
        *without_groups(study, estimates),
        *cut_windows(study, span),
    ):
        warnings.warn(sentence, stacklevel=2)
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
    spent = ledger.Ledger(study)
    spent.add(tally.snapshots)
    totals = periods.added_up(study, reports_of_users(study, [distinct(tally.received).to_batches()]))
    return tuple(periods.entries_of(study, totals, [list(spent.entries())]))


def _chosen(study: Study, tally: Tally) -> list[Snapshot]:
    """The snapshots that are estimated; the others are counted in the tally."""
    windows: dict[tuple[str, Bounds | None], list[Snapshot]] = {}
    sizes: dict[str, list[Size]] = {}
    for snapshot in tally.snapshots:
        windows.setdefault((snapshot.attribute, snapshot.window), []).append(snapshot)
    for (name, _), snapshots in windows.items():
        sizes.setdefault(name, []).append(size_of(snapshots))
    least, estimated = smallest(study, sizes), []
    for snapshots in windows.values():
        picked = chosen(study, snapshots, least)
        tally.counts += picked.counts.items()
        estimated += picked.snapshots
    return estimated


def _span(study: Study, start: datetime | str | int | None, stop: datetime | str | int | None) -> Span:
    """The event times that count; with windows, the span of the whole windows inside.

    Raises:
        ValueError: if one is no plausible time, ``start`` is not before ``stop``, or no whole window lies
            between them.
    """
    first = -FAR if start is None else milliseconds_of(start, "start")
    after = FAR if stop is None else milliseconds_of(stop, "stop")
    if first >= after:
        raise ValueError(f"start={start!r} is not before stop={stop!r}")
    given = Span(first, after)
    return given if study.windows is None else whole_windows(study.windows, given)
