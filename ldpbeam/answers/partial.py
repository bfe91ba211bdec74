"""Windows that may hold a part of their time: the first and the last ones, where reports begin and end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.windows import Bounds

#: The first and the last windows may hold a part of their time if they have less than this part of the
#: median window's reports, where there are so many windows or more. Each window has the same nights and free
#: days, and times may be dates, so the number of reports tells more than the time of the first.
PART, FEWEST = 0.5, 5

_Series = tuple[str, str, bool]


def with_partial(records: Sequence[EstimateRecord]) -> list[EstimateRecord]:
    """The same records, in which those of such windows have their part of the usual reports.

    Args:
        records: all of a run, or of the runs that share a folder.
    """
    reports: dict[_Series, dict[Bounds, int]] = defaultdict(lambda: defaultdict(int))
    for record in records:
        if record.window is not None:
            reports[_series(record)][record.window] += record.reports
    parts = {(series, window): part for series, of in reports.items() for window, part in _parts(of)}
    return [
        record
        if record.window is None or (_series(record), record.window) not in parts
        else replace(record, partial=parts[_series(record), record.window])
        for record in records
    ]


def _series(record: EstimateRecord) -> _Series:
    return record.attribute, record.name, record.joined


def _parts(reports: dict[Bounds, int]) -> Iterator[tuple[Bounds, float]]:
    """(window, part of the usual reports) of windows from each end on that have less than :data:`PART`."""
    if len(reports) < FEWEST:
        return
    usual = float(np.median(list(reports.values())))
    ordered = sorted(reports)
    for windows in (ordered, ordered[::-1]):
        few = takewhile(lambda window: reports[window] < PART * usual, windows)
        yield from ((window, reports[window] / usual) for window in few)
