"""Which numbers of two runs differ."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estimate_records import price, results

from ldpbeam.answers.difference import compared
from ldpbeam.schemas.outputs.records import CumulativeShares, Ends, EstimateRecord, StrictRecord


def median(value: float, strict: tuple[float, float] | None) -> EstimateRecord:
    """A median that is known to a tenth if the density is smooth."""
    intervals = price().intervals
    assert intervals is not None
    cdf = CumulativeShares((0.0,), (0.0,), (0.1,))
    kept = None if strict is None else StrictRecord(cdf, {"0.5": Ends(*strict)})
    ends = {"0.5": Ends(value - 0.1, value + 0.1)}
    return price(
        quantiles={"0.5": value}, ranges=None, intervals=replace(intervals, quantiles=ends, strict=kept)
    )


@pytest.mark.parametrize(
    ("strict", "beyond"),
    [(((2.0, 3.0), (3.5, 4.5)), True), (((2.0, 3.6), (3.5, 4.5)), False), ((None, None), False)],
)
def test_a_quantile_differs_only_if_strict_intervals_do_not_meet(
    strict: tuple[tuple[float, float] | None, tuple[float, float] | None], beyond: bool
) -> None:
    first, second = (median(value, ends) for value, ends in zip((2.5, 4.0), strict, strict=True))
    (of_median,) = (
        one for one in compared(results(first), results(second)).differences if one.number == "quantile 0.5"
    )
    assert of_median.beyond == beyond
