"""Domains: their scale, their buckets, and what they refuse."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam import Categories, Numeric
from ldpbeam.domains import as_text, bucket_midpoints

AGES = Numeric(18.0, 98.0)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), share=st.floats(0.0, 1.0))
def test_from_unit_is_the_inverse_of_to_unit(low: float, width: float, share: float) -> None:
    domain = Numeric(low, low + width)
    value = low + share * (domain.high - low)
    # Sums round to one part in 2^53 of the larger end: a few such errors, over the width.
    error = 4 * 2.0**-53 * max(abs(low), abs(low + width), 1.0)
    assert abs(float(domain.from_unit(domain.to_unit(value))) - value) <= 2 * error
    assert abs(float(domain.to_unit(value)) - share) <= 2 * error / domain.width + 1e-15


def test_the_ends_are_zero_and_one_and_the_outside_is_clipped() -> None:
    assert AGES.width == 80.0
    assert AGES.to_unit([-50.0, 18.0, 38.0, 98.0, 1e9]).tolist() == [0.0, 0.0, 0.25, 1.0, 1.0]
    assert AGES.from_unit([0.0, 0.25, 1.0]).tolist() == [18.0, 38.0, 98.0]


def test_values_of_a_step_are_the_numbers_that_one_writes() -> None:
    """Values far from zero have few digits, and small steps have small errors."""
    for low, step in [("0", "0.1"), ("-0.3", "0.01"), ("0.7", "1e-6"), ("20000101.05", "0.05"), ("1e9", "5")]:
        for count in (2, 13, 50, 500, 4_096):
            written = [float(Decimal(low) + place * Decimal(step)) for place in range(count)]
            if written[-1] - written[0] > 1e-9 * written[-1]:
                domain = Numeric(written[0], written[-1], float(step))
                assert domain.values.tolist() == domain.nearest(np.array(written)).tolist() == written


def test_edges_are_equal_buckets_of_the_domain() -> None:
    assert AGES.edges(4).tolist() == [18.0, 38.0, 58.0, 78.0, 98.0]
    assert bucket_midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]


def test_a_histogram_counts_every_value_once_in_its_bucket() -> None:
    values = [18.0, 37.9, 38.0, 77.9, 78.0, 98.0, 200.0, -3.0]
    assert AGES.histogram(values, 4).tolist() == [3, 1, 1, 3]
    rng = np.random.default_rng(1)
    many = rng.uniform(18.0, 98.0, 5000)
    expected, _ = np.histogram(many, AGES.edges(16))
    np.testing.assert_array_equal(AGES.histogram(many, 16), expected)


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf), (-math.inf, 0.0)]
)
def test_an_empty_or_endless_range_is_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="low < high"):
        Numeric(low, high)


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (0.0, 180.0, "[0, 180]"),
        (-1.0, 1.0, "[-1, 1]"),
        (18.0, 99.5, "[18, 99.5]"),
        (0.0, 5e6, "[0, 5e+06]"),
        (1_700_000_000.0, 1_700_086_400.0, "[1700000000, 1700086400]"),
        (1_700_000_000_000.0, 1_700_000_086_400.0, "[1700000000000, 1700000086400]"),
        (1.0, 1.000004, "[1, 1.000004]"),
        (-1_000_000.5, -1_000_000.0, "[-1000000.5, -1000000]"),
    ],
)
def test_the_ends_of_a_narrow_range_have_the_digits_that_tell_them_apart(
    low: float, high: float, ends: str
) -> None:
    assert Numeric(low, high).ends == ends


@pytest.mark.parametrize(
    ("low", "high", "step", "values"),
    [
        (0.0, 1.8, 0.18, ["0", "0.18", "0.36", "0.54", "0.72", "0.9", "1.08", "1.26", "1.44", "1.62", "1.8"]),
        (-0.3, 0.1, 0.1, ["-0.3", "-0.2", "-0.1", "0", "0.1"]),
        (35.5, 37.0, 0.5, ["35.5", "36", "36.5", "37"]),
        (0.0, 1.0, 1.0, ["0", "1"]),
    ],
)
def test_the_values_of_a_step_are_its_multiples_in_decimals(
    low: float, high: float, step: float, values: list[str]
) -> None:
    domain = Numeric(low, high, step)
    assert [as_text(value + 0.0) for value in domain.values] == values
    assert domain.count == len(values)
    unit = np.arange(len(values)) / (len(values) - 1)
    assert domain.to_unit(domain.values) == pytest.approx(unit, abs=1e-15)
    assert domain.middles(domain.count) == pytest.approx(unit, abs=1e-12)
    assert domain.edges(domain.count) == pytest.approx(np.append(domain.values, high + step) - step / 2)
    assert domain.histogram(domain.values, domain.count).tolist() == [1] * domain.count
    assert domain.variance_within(np.ones(domain.count)) == 0.0


def test_a_step_is_explained() -> None:
    ages = Numeric(0.0, 99.0, 1.0)
    rounded = "a number in [0, 99], rounded by clients to 0, 1, ..., 99, with a share for each"
    assert ages.explain(100) == f"{rounded} value"
    assert ages.explain(25) == f"{rounded} of 25 buckets of 4 values"


def test_numbers_are_rounded_to_the_nearest_value_and_halves_up() -> None:
    years = Numeric(-2.0, 100.0, 1.0)
    given = [-9.0, -2.0, -1.5, -0.51, -0.5, 17.49, 17.5, 18.49, 99.5, 1e9]
    assert years.from_unit(years.to_unit(given)) == pytest.approx(
        [-2.0, -2.0, -1.0, -1.0, 0.0, 17.0, 18.0, 18.0, 100.0, 100.0]
    )


def test_buckets_of_several_values_have_their_mean_and_variance() -> None:
    domain, rng = Numeric(10.0, 21.0, 1.0), np.random.default_rng(3)
    assert domain.edges(4).tolist() == [9.5, 12.5, 15.5, 18.5, 21.5]
    unit = domain.to_unit(domain.values).reshape(4, 3)
    assert domain.middles(4) == pytest.approx(unit.mean(axis=1))
    assert domain.variance_within(np.ones(4)) == pytest.approx(unit.var(axis=1)[0])
    values = rng.integers(10, 22, 500).astype(float)
    assert domain.histogram(values, 4).tolist() == np.histogram(values, domain.edges(4))[0].tolist()


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (0.0, "step must be above 0, found 0"),
        (-1.0, "step must be above 0, found -1"),
        (math.nan, "step must be above 0, found nan"),
        (0.3, "step 0.3 does not divide the range [0, 1]: there are 3.33333 steps"),
        (1e-3 / 5, "step 0.0002 makes 5,001 values of the range [0, 1]; there may be 4,096"),
    ],
)
def test_a_step_that_cannot_be_is_refused(step: float, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Numeric(0.0, 1.0, step)


def test_categories_count_indexes_and_keep_the_empty_ones() -> None:
    domain = Categories(("red", "green", "blue"))
    assert domain.size == 3
    assert domain.histogram([1, 1, 0]).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("names", "message"),
    [(("red",), "two categories"), (("red", "green", "red", "blue"), "twice in the domain: red$")],
)
def test_categories_that_are_too_few_or_doubled_are_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Categories(names)
