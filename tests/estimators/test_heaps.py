"""Heaps at round values, where a domain has a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from support.asked import question_of

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.density.averaging import average
from ldpbeam.density.families import numbers as weigh
from ldpbeam.density.heaps import EACH, combs, of_each, open_combs
from ldpbeam.density.priors import Heaps, Prior
from ldpbeam.estimators.auto import numbers
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.metrics import wasserstein

YEARS = Numeric(0.0, 100.0, 1.0)
WANTED = WantedIntervals(0.95, False, (0.5,), ((20.0, 40.0),))


def attribute_of(domain: Numeric, epsilon: float, *names: str) -> Attribute:
    versions = tuple(ServiceVersion(name, "", build_mechanism(name, domain, epsilon)) for name in names)
    return Attribute("a", domain, 256, versions, names if len(names) > 1 else (), joint_buckets=32)


def years(people: int, heaped: float) -> NDArray[np.float64]:
    rng = np.random.default_rng(8)
    values = np.floor(101.0 * rng.beta(2.0, 3.0, people))
    return np.where(rng.random(people) < heaped, np.floor(values / 10.0 + 0.5) * 10.0, values).clip(
        0.0, 100.0
    )


def test_combs_count_from_zero() -> None:
    found = {comb.name: comb.groups for comb, _ in combs(-4, 40)}
    assert found["multiples of 10 steps"] == ((4, 14, 24, 34),)
    assert found["multiples of 10 steps plus 9"] == ((3, 13, 23, 33),)
    assert found["multiples of 12 steps"] == ((4, 16, 28),)
    # Each value has one rest, and combs with less than three teeth are left out.
    rests = [groups[0] for name, groups in found.items() if name.startswith("multiples of 7 steps")]
    assert sorted(sum(rests, ())) == list(range(40))
    assert not any(name.startswith("multiples of 15 steps") for name in found)
    # A short scale has hardly any combs, and its values may have heights of their own.
    assert {name.name for name, _ in combs(0, 8)} == {"multiples of 2 steps", "multiples of 2 steps plus 1"}
    assert len(of_each(11)) == 3


@pytest.mark.parametrize(
    ("domain", "first"),
    [
        (Numeric(0.0, 100.0, 1.0), 0),
        (Numeric(-10.0, 40.0, 0.5), -20),
        (Numeric(0.36, 2.16, 0.18), 2),
        # Zero is no multiple: then the first value is.
        (Numeric(0.25, 10.25, 1.0), 0),
        (Numeric(0.0, 100.0), None),
    ],
)
def test_the_first_value_is_numbered_in_steps_from_zero(domain: Numeric, first: int | None) -> None:
    attribute = attribute_of(domain, 1.0, "square_wave")
    fitted = numbers.fit(question_of(attribute, np.linspace(0.0, 1.0, 50), 1))
    assert numbers.first_value(attribute, fitted.likelihood) == first


def test_heights_are_prior_means_at_zero_and_move_one_group_each() -> None:
    heaps = Heaps("some", ((1, 3), (2,)), 0.7, 0.5)
    curves = replace(Prior(2, 1.0), heaps=(heaps,)).curves(np.ones(5))
    logs = np.log(curves.shares(np.zeros((curves.matrix.shape[1], 1)))[:, 0])
    np.testing.assert_allclose(logs - logs[0], [0.0, 0.7, 0.7, 0.7, 0.0], atol=1e-12)
    np.testing.assert_allclose(curves.matrix[:, :2], 0.5 * np.array([[0, 1, 0, 1, 0], [0, 0, 1, 0, 0]]).T)


@pytest.mark.parametrize("names", [("square_wave",), ("square_wave", "piecewise")])
def test_heaps_that_reports_show_are_found(names: tuple[str, ...]) -> None:
    values = years(40_000, 0.4)
    fitted = numbers.fit(question_of(attribute_of(YEARS, 3.0, *names), values / 100.0, 2))
    combed = sum(fit.weight for fit in fitted.fits if any(own.name != EACH for own in fit.prior.heaps))
    assert combed > 0.95
    truth = np.bincount(values.astype(int), minlength=101) / len(values)
    found, without = average(fitted.fits), average(weigh(fitted.likelihood))
    assert wasserstein(found, truth) < wasserstein(without, truth)
    # Between the ends the tens are about as high above their neighbours as they are.
    tens = np.arange(10, 80, 10)
    assert np.log(found[tens] / truth[tens]) == pytest.approx(0.0, abs=0.35)


def test_heaps_of_a_period_that_nobody_named_are_found_beside_powers_at_the_ends() -> None:
    rng = np.random.default_rng(4)
    values = np.floor(101.0 * rng.beta(2.0, 3.0, 20_000))
    near = np.floor(values / 7.0 + 0.5) * 7.0
    values = np.where(rng.random(len(values)) < 0.3, near, values).clip(0.0, 100.0)
    fitted = numbers.fit(question_of(attribute_of(YEARS, 3.0, "square_wave"), values / 100.0, 5))
    likeliest = max(fitted.fits, key=lambda fit: fit.weight)
    assert "multiples of 7 steps" in [own.name for own in likeliest.prior.heaps]


def test_open_combs_are_those_that_the_reports_neither_show_nor_exclude() -> None:
    shown, hidden = (
        numbers.fit(question_of(attribute_of(YEARS, epsilon, "square_wave"), years(people, 0.4) / 100.0, 2))
        for epsilon, people in ((4.0, 40_000), (1.0, 2_000))
    )
    tens = "multiples of 10 steps"
    # Where tens are shown, all that is open has them. Where nothing is, they are open beside no heaps.
    assert all(
        tens in [own.name for own in fit.prior.heaps] for fits in open_combs(shown.fits) for fit in fits
    )
    assert [tens] in [[own.name for own in fits[0].prior.heaps] for fits in open_combs(hidden.fits)]
    assert not open_combs([fit for fit in hidden.fits if not fit.prior.heaps])
