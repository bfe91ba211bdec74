"""Intervals of a number's distribution: a smooth density's posterior, and the variance in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Floats, Numeric, bucket_midpoints
from ldpbeam.estimators.auto.numbers import auto_numbers
from ldpbeam.estimators.em import fit_channel
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.intervals import Intervals, WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.intervals.evidence import Evidence, evidence_of
from ldpbeam.intervals.numbers import NOT_SMOOTH, quantile_draws
from ldpbeam.intervals.smooth import ROUGHNESS, SLOPE, Normals, posterior
from ldpbeam.mechanisms import build_mechanism, registered_mechanisms
from ldpbeam.metrics import quantiles
from ldpbeam.statistics import Answers, Statistic, tally

MINUTES = Numeric(0.0, 60.0)
WANTED = WantedIntervals(0.95, False, (0.1, 0.5, 0.9), ((0.0, 15.0), (10.0, 50.0)))


def asked(*services: tuple[str, float], buckets: int = 64, joined: bool = False, **options: Any) -> Attribute:
    versions = tuple(
        ServiceVersion(f"s{place}", "", build_mechanism(name, MINUTES, epsilon, **options))
        for place, (name, epsilon) in enumerate(services)
    )
    return Attribute(
        "x", MINUTES, buckets, versions, tuple(v.service for v in versions) if joined else (), 16
    )


def sent(attribute: Attribute, values: Floats, rng: np.random.Generator) -> Statistic:
    rows = np.arange(len(values))
    answers = [Answers(i, rows, v.mechanism.perturb(values, rng)) for i, v in enumerate(attribute.versions)]
    return tally(attribute, len(values), answers)


def found(attribute: Attribute, statistic: Statistic, wanted: WantedIntervals = WANTED) -> Intervals:
    estimate = Estimate("none", attribute.services, 0, None, distribution=np.full(1, np.nan), mean=np.nan)
    return StatisticIntervals(attribute, statistic).of(
        Estimate(**{**vars(estimate), "variance": np.nan}), wanted
    )


def truths(values: Floats, buckets: int) -> dict[str, NDArray[Any]]:
    minutes = 60.0 * values
    return {
        "mean": np.array([minutes.mean()]),
        "variance": np.array([minutes.var()]),
        "quantiles": np.quantile(minutes, WANTED.quantiles),
        "ranges": np.array([((minutes >= low) & (minutes <= high)).mean() for low, high in WANTED.ranges]),
        "distribution": MINUTES.histogram(minutes, buckets) / len(values),
    }


CASES = [
    (asked(("square_wave", 2.0)), 20_000),
    (asked(("piecewise", 1.0), ("square_wave", 1.0), buckets=32), 5_000),
    (asked(("square_wave", 2.0), ("stochastic_rounding", 2.0), buckets=32, joined=True), 5_000),
]


@pytest.mark.parametrize(("attribute", "people"), CASES, ids=["one", "stacked", "joined"])
def test_intervals_hold_the_truth_of_a_smooth_population_at_about_their_level(
    attribute: Attribute, people: int
) -> None:
    """Of 40 runs, in the average over the numbers of a kind; docs/coverage.md has more runs and settings."""
    rng, held = np.random.default_rng(3), {name: list[float]() for name in truths(np.zeros(1), 2)}
    for _ in range(40):
        values = rng.beta(2.0, 4.0, people)
        told = found(attribute, sent(attribute, values, rng))
        for name, truth in truths(values, attribute.buckets).items():
            low, high = np.asarray(getattr(told, name)).reshape(-1, 2).T
            held[name].append(float(((low <= truth) & (truth <= high)).mean()))
    for name, shares in held.items():
        error = max(float(np.std(shares)), math.sqrt(0.95 * 0.05)) / math.sqrt(len(shares))
        assert abs(np.mean(shares) - 0.95) < 4.0 * error, name


def test_simultaneous_bands_hold_a_smooth_population_whole() -> None:
    attribute, rng, whole = asked(("square_wave", 2.0), buckets=32), np.random.default_rng(4), list[bool]()
    wanted = WantedIntervals(0.9, simultaneous=True)
    for _ in range(60):
        values = rng.beta(3.0, 3.0, 5_000)
        ends = found(attribute, sent(attribute, values, rng), wanted).distribution
        truth = truths(values, 32)["distribution"]
        assert ends is not None
        whole.append(bool(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()))
    assert np.mean(whole) > 0.9 - 4.0 * math.sqrt(0.9 * 0.1 / 60)


def test_the_posterior_of_many_reports_is_that_of_the_likelihood() -> None:
    """With few buckets and many reports the prior is nothing: mode and spread are those of the likelihood."""
    attribute = asked(("square_wave", 3.0), buckets=6)
    statistic = sent(attribute, np.random.default_rng(5).beta(2.0, 2.0, 200_000), np.random.default_rng(6))
    question = Question(attribute, statistic, attribute.services)
    evidence = evidence_of(question, 6)
    assert evidence is not None
    told = posterior(evidence, 6, np.random.default_rng(7))
    fit = fit_channel(
        attribute.channel(0), statistic.histograms[0], smoothing=False, tolerance=1e-9, max_iterations=100_000
    )
    matrix = attribute.channel(0).dense()
    information = matrix.T @ (matrix * (statistic.histograms[0] / (matrix @ fit.weights) ** 2)[:, None])
    # Given that shares sum to one, their covariance is that of the information in the other directions.
    free = np.linalg.svd(np.ones((1, 6)))[2][1:].T
    covariance = free @ np.linalg.inv(free.T @ information @ free) @ free.T
    errors = np.sqrt(covariance.diagonal())
    assert np.abs((told.mode - fit.weights) / errors).max() < 0.3
    assert told.shares.std(axis=0) == pytest.approx(errors, rel=0.2)


def test_draws_of_the_coefficients_have_the_posterior_covariance() -> None:
    """The diagonal form is the inverse of information plus prior, computed anew here."""
    rng = np.random.default_rng(8)
    rows, counts = rng.random((30, 12)), rng.integers(1, 50, 30).astype(np.float64)
    columns = rng.standard_normal((12, 5))
    evidence = Evidence(counts.sum(), counts.sum(), lambda f: rows.T @ (counts / (rows @ f)), rows, counts)
    theta = 0.1 * rng.standard_normal(5)
    normals = Normals(evidence, columns, theta)
    shares = np.exp(columns @ theta)
    shares /= shares.sum()
    change = np.diag(shares) @ columns - np.outer(shares, shares @ columns)
    information = change.T @ rows.T @ np.diag(counts / (rows @ shares) ** 2) @ rows @ change
    drawn, kinds, logs = normals.draws(rng)
    for place, rough in enumerate(ROUGHNESS):
        precision = information + np.diag([1.0 / SLOPE**2] + [1.0 / rough**2] * 4)
        mean = np.linalg.solve(precision, change.T @ evidence.slopes(shares) + information @ theta)
        np.testing.assert_allclose(normals.means[place], mean, rtol=1e-8, atol=1e-10)
        own = drawn[kinds == place] - mean
        density = -0.5 * np.einsum("ij,jk,ik->i", own, precision, own)
        left = logs[kinds == place] - density
        assert np.ptp(left) < 1e-8 if len(left) else True


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_of_draws_are_those_of_each_distribution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draws = rng.dirichlet(np.full(20, 0.3), 30) - 0.01 * rng.random((30, 20))
    levels = (0.05, 0.5, 0.9)
    told = quantile_draws(draws, levels)
    for own, expected in zip(told, draws, strict=True):
        np.testing.assert_allclose(own, quantiles(expected, np.linspace(0.0, 1.0, 21), levels), atol=1e-9)


def test_the_same_statistic_gives_the_same_bits() -> None:
    attribute = asked(("square_wave", 1.0))
    statistic = sent(attribute, np.random.default_rng(9).random(500), np.random.default_rng(9))
    one, other = found(attribute, statistic), found(attribute, statistic)
    for name in ("mean", "variance", "quantiles", "ranges", "distribution"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_reports_that_say_little_of_the_shape_are_flagged_and_many_are_not() -> None:
    attribute = asked(("square_wave", 0.3))
    few = found(attribute, sent(attribute, np.random.default_rng(1).random(300), np.random.default_rng(2)))
    assert "rest on its being smooth" in few.flags["quantiles"]
    attribute = asked(("square_wave", 2.0))
    values = np.random.default_rng(1).beta(2.0, 5.0, 50_000)
    assert not found(attribute, sent(attribute, values, np.random.default_rng(2))).flags


def test_spikes_that_the_reports_show_are_flagged() -> None:
    attribute = asked(("square_wave", 4.0))
    values = np.random.default_rng(1).choice([0.2, 0.4, 0.41, 0.9], 100_000)
    told = found(attribute, sent(attribute, values, np.random.default_rng(2)))
    assert "spikes" in told.flags["distribution"]
    assert "mean" not in told.flags and "variance" not in told.flags


def test_signs_say_nothing_of_the_variance() -> None:
    """The variance then comes from the prior alone, and its interval is wide and flagged."""
    attribute = asked(("stochastic_rounding", 4.0))
    values = np.full(50_000, 0.5)
    told = found(attribute, sent(attribute, values, np.random.default_rng(2)))
    assert "posterior" in told.methods["variance"]
    assert "variance" in told.flags


def test_many_value_buckets_are_put_together() -> None:
    attribute = asked(("square_wave", 1.0), buckets=2048)
    values = np.random.default_rng(1).beta(2.0, 5.0, 5_000)
    told = found(attribute, sent(attribute, values, np.random.default_rng(2)))
    assert told.distribution is not None and told.distribution.shape == (2048, 2)
    assert (told.distribution.reshape(-1, 4, 2) == told.distribution.reshape(-1, 4, 2)[:, :1]).all()
    middle = (told.distribution[:, 0] + told.distribution[:, 1]) / 2.0
    assert abs(middle @ bucket_midpoints(2048) / middle.sum() - 2.0 / 7.0) < 0.1


NAMES = [name for name, kind in registered_mechanisms().items() if kind.domain_type is Numeric]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.01, 15.0])
@pytest.mark.parametrize("people", [1, 400])
def test_every_mechanism_has_intervals_that_are_ordered_and_within_the_domain(
    name: str, epsilon: float, people: int
) -> None:
    options = {"delta": 1e-6} if name == "gaussian" else {}
    attribute = asked((name, epsilon), buckets=256, **options)
    rng = np.random.default_rng(people)
    for values in (np.zeros(people), np.ones(people), rng.random(people)):
        told = found(attribute, sent(attribute, values, rng))
        if told.distribution is None:
            assert "likelihood" in told.flags["distribution"]
        else:
            assert told.distribution.shape == (256, 2)
        for part, least, most in (
            ("mean", 0.0, 60.0), ("variance", 0.0, 900.0), ("quantiles", 0.0, 60.0), ("ranges", 0.0, 1.0),
            ("distribution", 0.0, 1.0),
        ):  # fmt: skip
            ends = getattr(told, part)
            if ends is not None:
                low, high = np.asarray(ends).reshape(-1, 2).T
                assert (least - 1e-9 <= low).all() and (low <= high).all() and (high <= most + 1e-9).all(), (
                    part
                )


@pytest.mark.parametrize("buckets", [2, 3, 4, 5, 31, 33])
def test_any_number_of_buckets_will_do(buckets: int) -> None:
    attribute = asked(("square_wave", 1.0), buckets=buckets)
    told = found(attribute, sent(attribute, np.random.default_rng(1).random(200), np.random.default_rng(2)))
    assert told.mean is not None
    assert (told.distribution is None) == (buckets == 2)


def flagged(draw: Callable[[np.random.Generator], Floats], seed: int) -> bool:
    """Whether ``auto``, of 30,000 reports of SW at epsilon 3, shows that a density is not smooth."""
    rng = np.random.default_rng(seed)
    attribute = asked(("square_wave", 3.0), buckets=256)
    statistic = sent(attribute, draw(rng), rng)
    question = Question(attribute, statistic, ("s0",))
    found = StatisticIntervals(attribute, statistic).of(auto_numbers(question), WANTED)
    return found.flags.get("distribution") == NOT_SMOOTH == found.flags.get("quantiles")


def with_a_gap(rng: np.random.Generator) -> Floats:
    return np.where(rng.random(30_000) < 0.5, rng.uniform(0.1, 0.4, 30_000), rng.uniform(0.6, 0.8, 30_000))


def test_an_estimate_that_shows_a_gap_flags_the_intervals_of_a_smooth_density() -> None:
    assert [flagged(with_a_gap, seed) for seed in range(5)] == [True] * 5
    assert [flagged(lambda rng: rng.beta(3.0, 2.0, 30_000), seed) for seed in range(5)] == [False] * 5
