"""Windows that may hold a part of their time: the first and the last ones, where reports begin and end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from ldpbeam.answers.alarms import series_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.windows import Bounds

#: With at least FEWEST windows, the first and the last one may cover only part of their time if they have
#: less than this PART of the median window's reports. Nights and weekends are in every window, and times may
#: be dates, so the number of reports says more than the time of the first.
PART, FEWEST = 0.5, 5


def with_partial(records: Sequence[EstimateRecord]) -> list[EstimateRecord]:
    """The same records, where those of partial windows have ``partial``: their part of the usual reports.

    A window is partial by the reports of all groups together. Then only the groups that have few reports
    themselves are marked, because one group may end before the others.

    Args:
        records: all of a run, or of the runs that share a folder.
    """
    of_all, of_group = _counted(), _counted()
    for record in records:
        if record.window is not None:
            of_all[_all_groups(record)][record.window] += record.reports
            of_group[series_of(record)][record.window] += record.reports
    few = {(series, window) for series, of in of_all.items() for window in _few_at_the_ends(of)}
    usual = {series: _usual(of) for series, of in of_group.items()}

    def marked(record: EstimateRecord) -> EstimateRecord:
        if (_all_groups(record), record.window) not in few:
            return record
        usually = usual[series_of(record)]
        return (
            replace(record, partial=record.reports / usually) if record.reports < PART * usually else record
        )

    return [marked(record) for record in records]


def _counted() -> defaultdict[tuple[object, ...], defaultdict[Bounds, int]]:
    return defaultdict(lambda: defaultdict(int))


def _all_groups(record: EstimateRecord) -> tuple[object, ...]:
    return record.attribute, record.name, record.joined


def _usual(reports: Mapping[Bounds, int]) -> float:
    return float(np.median(list(reports.values())))


def _few_at_the_ends(reports: Mapping[Bounds, int]) -> Iterator[Bounds]:
    """The windows from each end on that have less than :data:`PART` of the usual reports."""
    if len(reports) < FEWEST:
        return
    ordered, least = sorted(reports), PART * _usual(reports)
    for windows in (ordered, ordered[::-1]):
        yield from takewhile(lambda window: reports[window] < least, windows)
