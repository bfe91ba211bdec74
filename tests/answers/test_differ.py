"""Which numbers of two runs differ."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.estimate_records import held, price, results

from ldpbeam.answers.difference import compared
from ldpbeam.intervals.answer import UNBIASED_SUMS
from ldpbeam.schemas.outputs.records import EstimateRecord, RangeShare


def median(value: float, certain: tuple[float, float] | None) -> EstimateRecord:
    """A median that is known to a tenth if people are spread smoothly."""
    ends = held(certain={"quantiles": certain}, if_smooth={"quantiles": (value - 0.1, value + 0.1)})
    return price(quantiles={"0.5": value}, ranges=None, intervals=ends)


@pytest.mark.parametrize(
    ("certain", "beyond"),
    [(((2.0, 3.0), (3.5, 4.5)), True), (((2.0, 3.6), (3.5, 4.5)), False), ((None, None), False)],
)
def test_a_quantile_differs_only_if_certain_intervals_do_not_meet(
    certain: tuple[tuple[float, float] | None, tuple[float, float] | None], beyond: bool
) -> None:
    first, second = (median(value, ends) for value, ends in zip((2.5, 4.0), certain, strict=True))
    (of_median,) = (
        one for one in compared(results(first), results(second)).differences if one.number == "quantile 0.5"
    )
    assert of_median.beyond == beyond
    # The lowest second median less the highest first one, and the reverse.
    assert of_median.certain == (
        None
        if certain[0] is None or certain[1] is None
        else (certain[1][0] - certain[0][1], certain[1][1] - certain[0][0])
    )
    # If people are spread smoothly, it is known to a tenth.
    assert of_median.beyond_if_smooth


def test_what_liars_do_on_both_sides_adds_up() -> None:
    first, second = (
        price(mean=mean, intervals=replace(held(certain={"mean": (mean - 1, mean + 1)}), liars=liars))
        for mean, liars in ((2.0, None), (3.8, 0.01))
    )
    (of_mean,) = (
        one for one in compared(results(first), results(second)).differences if one.number == "mean"
    )
    assert of_mean.low == pytest.approx(1.8 - 2) and of_mean.verdict == "not certain"


def test_means_differ_by_their_sums_whatever_is_known_of_smooth_people() -> None:
    """Certain intervals that meet are of numbers that may still differ: errors of sums add as squares."""
    first, second = (
        price(
            mean=mean,
            intervals=replace(
                held(certain={"mean": (mean - 1, mean + 1)}, if_smooth={"mean": (mean - 0.1, mean + 0.1)}),
                methods={"mean": UNBIASED_SUMS},
            ),
        )
        for mean in (2.0, 3.8)
    )
    (of_mean,) = (
        one for one in compared(results(first), results(second)).differences if one.number == "mean"
    )
    assert of_mean.low == pytest.approx(1.8 - math.hypot(1, 1)) and of_mean.verdict == "higher"
    assert of_mean.certain == (of_mean.low, of_mean.high)


@pytest.mark.parametrize(("liars", "noise"), [(None, math.hypot(0.03, 0.04)), (0.01, 0.07)])
def test_noise_of_shares_adds_up_as_errors_do_but_what_liars_do_adds_up(
    liars: float | None, noise: float
) -> None:
    first, second = (
        price(
            ranges=(RangeShare(0.0, 4.0, share),),
            quantiles=None,
            intervals=replace(
                held(
                    certain={"ranges": (share - 0.1 - known, share + 0.1 + known)},
                    without_noise={"ranges": (share - 0.1, share + 0.1)},
                    if_smooth={"ranges": (share - 0.01, share + 0.01)},
                ),
                liars=liars,
            ),
        )
        for share, known in ((0.3, 0.03), (0.56, 0.04))
    )
    (of_range,) = (one for one in compared(results(first), results(second)).differences if one.certain)
    assert of_range.number == "share from 0 to 4"
    assert of_range.certain == pytest.approx((0.26 - 0.2 - noise, 0.26 + 0.2 + noise))
    assert of_range.beyond == (liars is None)


def test_an_end_that_was_cut_at_zero_counts_with_all_of_itself() -> None:
    """Less of its noise is left than it had: so much that the rest would be too small an allowance."""
    first, second = (
        price(
            ranges=(RangeShare(0.0, 4.0, share),),
            quantiles=None,
            intervals=held(
                certain={"ranges": (low, high)},
                without_noise={"ranges": (low + 0.02, high - 0.05)},
                if_smooth={"ranges": (low, high)},
            ),
        )
        for share, low, high in ((0.5, 0.4, 0.6), (0.05, 0.0, 0.1))
    )
    (of_range,) = (one for one in compared(results(first), results(second)).differences if one.certain)
    assert of_range.certain == pytest.approx((-0.55 - 0.05, 0.05 - 0.42 + math.hypot(0.05, 0.02)))
