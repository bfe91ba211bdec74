"""``ldpbeam.estimate``: from a table of reports, or of counts, to estimates, in this process."""

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
from ldpbeam.errors import UserError
from ldpbeam.library.needed import needed
from ldpbeam.library.result import Estimates
from ldpbeam.library.tables import count_columns, decoded_batches
from ldpbeam.schemas.outputs.records import PeriodEntry
from ldpbeam.study import Study
from ldpbeam.transforms.candidates import check_tables
from ldpbeam.transforms.counted.columns import CountTable
from ldpbeam.transforms.counted.statistics import tally_counts
from ldpbeam.transforms.reports.ledger_rows import distinct
from ldpbeam.transforms.reports.validation import checked_columns
from ldpbeam.transforms.tally import Tally, tally_of
from ldpbeam.windows import EVERYTHING, FAR, Span, whole_windows


def estimate(
    study: Study,
    reports: Any = None,
    *,
    counts: Any = None,
    attribute: str | None = None,
    service: str | None = None,
    columns: Mapping[str, str] | None = None,
    start: datetime | str | int | None = None,
    stop: datetime | str | int | None = None,
) -> Estimates:
    """Every estimate that a study asks for, from reports in memory, or from counts of them.

    The reports are validated, cut, joined and counted by the functions that ``ldpbeam estimate`` runs on
    Beam, so the estimates are the same, bit for bit. Invalid reports become dead letters of the result.

    Args:
        study: the study.
        reports: a table of pandas, polars or Arrow (anything with ``__arrow_c_stream__``), a dict of columns,
            or an iterable of these or of single reports, such as those of :meth:`ldpbeam.Client.report`
            (dicts or named tuples of single values). The columns are those of a file of reports: ``user_id``,
            ``payload``, ``attribute``, ``service``, and if the study needs them ``event_time``,
            ``report_id``, and the group and version fields. In a dict of columns, a text stands for a column
            with the same text in every row. If payloads have several types (numbers and bytes), it is best to
            give several tables.
        counts: instead of ``reports``, a table of counts from a GROUP BY: a row per attribute, service,
            window, group and payload, with the number of its reports (docs/counts.md). The estimates are
            those of the reports. Your query must drop duplicates and late reports.
        attribute: the attribute of reports that do not name one; by default the study's, if it has only one.
        service: the service of reports that do not name one; by default the study's, if it has only one.
        columns: names of columns in the reports, by our names, where they differ: ``{"user_id": "uid"}``.
        start: the first event time that counts; with windows, only whole windows from then on count. A time
            with a zone, RFC 3339 text, or milliseconds since 1970.
        stop: the first event time after the span.

    Returns:
        The estimates, in the order of the study, with the dead letters and the counts.

    Raises:
        ImportError: if the study keeps a ledger over periods and DuckDB is not installed: ``pip install
            'ldpbeam[ledger]'``.
        TypeError: if the reports are not a table, or ``study`` is not a Study.
        ValueError: if a column is missing, ``attribute`` or ``service`` is unknown, ``columns`` is invalid,
            ``start`` or ``stop`` is not a plausible time, no whole window lies between them, or windows
            overlap too often to join users; or if counts are given with reports or a span of time, or a row
            of the counts is impossible.
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
    if counts is not None:
        if any(given is not None for given in (reports, columns, start, stop)):
            raise ValueError("counts: leave out reports, columns, start and stop: the query decides")
        table = CountTable(study, count_columns(counts), attribute, service)
        return _estimates_of(study, tally_counts(table), EVERYTHING)
    if study.ledger is not None:
        needed("duckdb", "ldpbeam[ledger]")
    wanted = checked_columns(study, attribute, service, renamed=columns)
    span = _span(study, start, stop)
    return _estimates_of(study, tally_of(study, decoded_batches(reports, wanted), span), span)


def _estimates_of(study: Study, tally: Tally, span: Span) -> Estimates:
    """The estimates of a tally, with warnings that point to the caller's line."""
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
        warnings.warn(sentence, stacklevel=3)
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
        ValueError: if one is not a plausible time, ``start`` is not before ``stop``, or no whole window lies
            between them.
    """
    first = -FAR if start is None else window_time(start, "start", study.clock)
    after = FAR if stop is None else window_time(stop, "stop", study.clock)
    if first >= after:
        raise ValueError(f"start={start!r} is not before stop={stop!r}")
    given = Span(first, after)
    return given if study.windows is None else whole_windows(study.windows, given)
