"""The order and the sums of the rows of received reports."""

from __future__ import annotations

import numpy as np

from ldpbeam.over_time.received import Received, UserReports, distinct, summed


def _rows(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Up to 30 rows of few different values, so that many agree in some columns, and in all."""
    rows, values = int(rng.integers(0, 31)), int(rng.integers(1, 5))
    kinds = Received.KINDS | UserReports.KINDS
    return {name: rng.integers(0, values, rows).astype(kind) for name, kind in kinds.items()}


def test_rows_are_in_order_and_distinct_whatever_their_order_was() -> None:
    rng = np.random.default_rng(26)
    for _ in range(500):
        columns = _rows(rng)
        rows = Received(*(columns[name] for name in Received.KINDS))
        expected = sorted(set(zip(*rows.columns.values(), strict=True)))
        assert list(zip(*distinct(rows).columns.values(), strict=True)) == expected


def test_reports_are_added_up_whatever_their_order_was() -> None:
    rng = np.random.default_rng(27)
    for _ in range(500):
        columns = _rows(rng)
        rows = UserReports(*(columns[name] for name in UserReports.KINDS))
        totals: dict[tuple[int, ...], int] = {}
        for *key, reports in zip(*rows.columns.values(), strict=True):
            totals[tuple(key)] = totals.get(tuple(key), 0) + reports
        expected = sorted((*key, reports) for key, reports in totals.items() if reports)
        assert list(zip(*summed(rows).columns.values(), strict=True)) == expected
