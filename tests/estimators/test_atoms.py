"""Atoms at the ends of a range, where clients clip values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.asked import question_of

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.density.atoms import HIGH, LOW
from ldpbeam.density.averaging import Fit
from ldpbeam.estimators.auto import numbers
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.intervals.numbers import of_distribution
from ldpbeam.mechanisms import build_mechanism

UNIT = Numeric(0.0, 1.0)


def weight_of(fits: Sequence[Fit], end: int) -> float:
    return sum(fit.weight for fit in fits if end in fit.prior.spikes)


def attribute_of(*names: str, epsilon: float, together: bool = False) -> Attribute:
    versions = tuple(ServiceVersion(name, "", build_mechanism(name, UNIT, epsilon)) for name in names)
    return Attribute("a", UNIT, 64, versions, names if together else (), joint_buckets=32)


@pytest.mark.parametrize("name", ["square_wave", "piecewise", "laplace", "hybrid"])
def test_the_columns_of_the_ends_are_those_of_the_values_zero_and_one(name: str) -> None:
    mechanism = build_mechanism(name, UNIT, 2.0)
    attribute = Attribute("a", UNIT, 64, (ServiceVersion(name, "", mechanism),))
    # In narrow buckets they are near the line through the last two columns.
    columns, cells = mechanism.channel(4_096, 64).dense(), attribute.at_ends(0)
    line = 1.5 * columns[:, [0, -1]] - 0.5 * columns[:, [1, -2]]
    np.testing.assert_allclose(cells, line, atol=1e-5)
    assert np.abs(columns[:, [0, -1]] - cells).max() > 1e-5


@pytest.mark.parametrize("name", ["square_wave", "piecewise", "laplace", "hybrid", "haar", "binned"])
def test_reports_of_an_end_are_together_as_likely_as_those_of_other_values(name: str) -> None:
    """Where cells are as narrow as value buckets, the line through the last two columns goes below zero."""
    version = ServiceVersion(name, "", build_mechanism(name, UNIT, 3.0))
    attribute = Attribute("a", UNIT, 256, (version,))
    columns, cells = attribute.channel(0).dense(), attribute.at_ends(0)
    assert cells.min() >= 0.0
    np.testing.assert_allclose(cells.sum(axis=0), columns[:, [0, -1]].sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("together", [False, True])
def test_people_who_are_clipped_are_at_the_end_and_not_beside_it(together: bool) -> None:
    names = ("square_wave", "piecewise") if together else ("square_wave",)
    attribute = attribute_of(*names, epsilon=3.0, together=together)
    drawn = np.random.default_rng(2).gamma(3.0, 1.0, 60_000)
    values = np.minimum(drawn / np.quantile(drawn, 0.92), 1.0)
    fitted = numbers.fit(question_of(attribute, values, 3))
    assert weight_of(fitted.fits, HIGH) > 0.95
    # Nobody is at the other end; it is as unlikely as before, or less.
    assert weight_of(fitted.fits, LOW) < 0.5


@pytest.mark.parametrize("name", ["square_wave", "piecewise"])
def test_a_density_without_a_bound_at_the_ends_is_not_taken_for_atoms(name: str) -> None:
    version = ServiceVersion(name, "", build_mechanism(name, UNIT, 3.0))
    values = np.random.default_rng(6).beta(0.5, 0.5, 200_000)
    fitted = numbers.fit(question_of(Attribute("a", UNIT, 256, (version,)), values, 6))
    # In the first and the last bucket are 8% of the people.
    assert max(weight_of(fitted.fits, end) for end in (LOW, HIGH)) < 0.2


def test_an_end_holds_as_many_people_as_the_reports_allow() -> None:
    """Reports hardly show 3%: over many runs its interval holds in some 80%."""
    attribute, held = attribute_of("square_wave", epsilon=1.0), list[bool]()
    for seed in range(5, 11):
        smooth = np.random.default_rng(seed).beta(2.0, 3.0, 20_000)
        clipped = np.where(np.arange(20_000) < 600, 1.0, smooth)
        for values in (smooth, clipped):
            intervals = of_distribution(question_of(attribute, values, seed), WantedIntervals())
            low, high = intervals.ends["if_smooth"]["distribution"].columns[-1]
            held.append(low <= (values > 63 / 64).mean() <= high)
    assert all(held[::2])
    # Without densities with atoms it holds in none of these.
    assert sum(held[1::2]) >= 3
