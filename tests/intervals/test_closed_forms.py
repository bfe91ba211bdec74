"""Intervals in closed form: of bounded numbers, of categories' shares, and of means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from support.forced_responses import forced_responses

from ldpbeam import Answers, Attribute, Categories, Numeric, ServiceVersion, Statistic, build_mechanism, tally
from ldpbeam.estimators import estimate as solve
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.bounded import above_zero, within_one
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.mechanisms import registered_mechanisms

N = 2_000
WANTED = WantedIntervals()
COLOURS = Categories(tuple("abcdefgh"))
TWENTY = Categories(tuple("abcdefghijklmnopqrst"))
MINUTES = Numeric(0.0, 60.0)


def asked(domain: Numeric | Categories, **services: tuple[str, float]) -> Attribute:
    versions = [
        ServiceVersion(name, "", build_mechanism(mechanism, domain, epsilon))
        for name, (mechanism, epsilon) in services.items()
    ]
    return Attribute("x", domain, 64, tuple(versions))


def reports(
    attribute: Attribute, values: NDArray[np.float64], rng: np.random.Generator, apart: bool = False
) -> Statistic:
    """The statistic of users who answer all services, or each the one of its turn."""
    answers = []
    for index, version in enumerate(attribute.versions):
        rows = np.arange(len(values))
        if apart:
            rows = rows[rows % len(attribute.versions) == index]
        answers.append(Answers(index, rows, version.mechanism.perturb(values[rows], rng)))
    return tally(attribute, len(values), answers)


def test_intervals_above_zero_are_those_of_feldman_and_cousins() -> None:
    """Their Table X prints the 95% intervals of a number of zero or more, to two digits."""
    table = {
        -3.0: (0.0, 0.42), -2.0: (0.0, 0.62), -1.0: (0.0, 1.10), 0.0: (0.0, 1.96), 1.0: (0.0, 2.96),
        2.0: (0.35, 3.96), 3.0: (1.14, 4.96),
    }  # fmt: skip
    found = above_zero(np.array(list(table)), 0.95)
    assert np.abs(found - np.array(list(table.values()))).max() < 0.006


@pytest.mark.parametrize("truth", [0.0, 0.01, 0.05, 0.3, 0.97, 1.0])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_within_one_hold_the_truth_in_the_stated_share_of_all_samples(
    truth: float, level: float
) -> None:
    error, places = 0.03, np.linspace(-8.0, 8.0, 200_001)
    ends = within_one(truth + error * places, error, level)
    assert (ends >= 0.0).all() and (ends <= 1.0).all() and (ends[:, 1] > ends[:, 0]).all()
    held = (ends[:, 0] <= truth + 1e-12) & (ends[:, 1] >= truth - 1e-12)
    cells = np.diff(ndtr(places))
    assert cells @ held[1:] == pytest.approx(level, abs=1e-3)


def coverage(held: list[NDArray[np.bool_]]) -> tuple[float, float]:
    """The share of intervals that hold the truth, and its standard error; a run's intervals may depend."""
    shares = np.array([np.mean(run) for run in held])
    return float(shares.mean()), float(np.sqrt(np.maximum(shares.var(), 0.05 * 0.95 / 64) / len(shares)))


#: Every mechanism whose reports are of categories, and options that change how its reports are counted.
MECHANISMS_OF_SHARES = {
    **{name: {} for name, kind in registered_mechanisms().items() if kind.domain_type is Categories},
    "matrix": forced_responses(20, 1.0),
    "olh": {"seeds": 64},
    "olh of any seed": {"seeds": "any"},
}


@pytest.mark.parametrize("mechanism", MECHANISMS_OF_SHARES)
def test_intervals_of_shares_are_of_unbiased_shares_with_the_variance_of_the_mechanism(
    mechanism: str,
) -> None:
    """That the variance is right is proved in mechanisms, and that the interval then holds, above."""
    name, _, _ = mechanism.partition(" of ")
    made = build_mechanism(name, TWENTY, 1.0, **MECHANISMS_OF_SHARES[mechanism])
    attribute = Attribute("x", TWENTY, 64, (ServiceVersion("s", "", made),))
    rng, weights = np.random.default_rng(7), 1.0 / np.arange(1, 21) ** 2
    statistic = reports(attribute, rng.choice(20, N, p=weights / weights.sum()), rng)
    unbiased = made.unbiased_frequencies(statistic.histograms[0], N)
    noise = made.share_variances(np.clip(unbiased, 0.0, 1.0), statistic.histograms[0]) / N
    for estimator in ("inversion", "norm_sub"):
        intervals = StatisticIntervals(attribute, statistic).of(
            solve(estimator, attribute, statistic), WANTED
        )
        np.testing.assert_allclose(
            intervals.of("frequencies"), within_one(unbiased, np.sqrt(noise), 0.95), rtol=1e-9, atol=1e-12
        )


def test_services_that_asked_different_people_are_held_too() -> None:
    """GRR with a large epsilon has most of the weight: a third of the people then stands for all."""
    attribute = asked(COLOURS, a=("grr", 6.0), b=("oue", 1.0), c=("olh", 1.0))
    rng, held = np.random.default_rng(8), []
    for _ in range(150):
        values = rng.choice(8, N, p=np.full(8, 1.0 / 8.0))
        statistic = reports(attribute, values, rng, apart=True)
        found = (
            StatisticIntervals(attribute, statistic)
            .of(solve("norm_sub", attribute, statistic), WANTED)
            .of("frequencies")
        )
        assert found is not None
        truth = np.bincount(values, minlength=8) / N
        held.append((found[:, 0] <= truth) & (truth <= found[:, 1]))
    share, error = coverage(held)
    assert abs(share - 0.95) < 4.0 * error


def test_simultaneous_intervals_hold_all_shares_at_once() -> None:
    attribute = asked(COLOURS, s=("grr", 1.0))
    rng, held, wanted = np.random.default_rng(9), [], WantedIntervals(0.9, simultaneous=True)
    for _ in range(300):
        values = rng.choice(8, N)
        statistic = reports(attribute, values, rng)
        found = (
            StatisticIntervals(attribute, statistic)
            .of(solve("inversion", attribute, statistic), wanted)
            .of("frequencies")
        )
        assert found is not None
        truth = np.bincount(values, minlength=8) / N
        held.append(bool(((found[:, 0] <= truth) & (truth <= found[:, 1])).all()))
    assert abs(np.mean(held) - 0.9) < 4.0 * math.sqrt(0.9 * 0.1 / 300)


MEANS = {
    "one wave": {"s": ("square_wave", 0.5)},
    "three": {"a": ("square_wave", 1.0), "b": ("piecewise", 2.0), "c": ("stochastic_rounding", 1.0)},
}


@pytest.mark.parametrize(("services", "apart"), [(MEANS["one wave"], False), (MEANS["three"], True)])
def test_intervals_of_the_mean_hold_the_mean_of_the_people_who_reported(
    services: dict[str, tuple[str, float]], apart: bool
) -> None:
    attribute = asked(MINUTES, **services)
    rng, held = np.random.default_rng(10), []
    for _ in range(300):
        values = rng.beta(2.0, 5.0, N)
        statistic = reports(attribute, values, rng, apart)
        estimate = solve("ua", attribute, statistic)
        found = StatisticIntervals(attribute, statistic).of(estimate, WANTED).of("mean")
        assert found is not None
        held.append(found[0, 0] <= 60.0 * values.mean() <= found[0, 1])
    assert abs(np.mean(held) - 0.95) < 4.0 * math.sqrt(0.95 * 0.05 / 300)


def test_everybody_at_one_end_has_almost_no_noise_with_signs() -> None:
    attribute = asked(MINUTES, s=("stochastic_rounding", 6.0))
    statistic = reports(attribute, np.ones(N), np.random.default_rng(11))
    found = StatisticIntervals(attribute, statistic).of(solve("ua", attribute, statistic), WANTED).of("mean")
    assert found is not None
    bound = 1.0 / math.tanh(3.0)
    assert np.ptp(found) < 4.5 * 30.0 * math.sqrt((bound**2 - 1.0) / N)


def test_without_reports_there_are_no_intervals() -> None:
    attribute = asked(MINUTES, s=("square_wave", 0.5))
    statistic = tally(attribute, 0, [])
    assert not StatisticIntervals(attribute, statistic).of(solve("ems", attribute, statistic), WANTED).ends
