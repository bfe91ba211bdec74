"""Means of noise with a tail: unbiased, no noisier than plain sums, and moved little by a single report."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.estimators import Question, estimate
from ldpbeam.estimators.scores import scores
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.intervals.means import mean_interval
from ldpbeam.intervals.spread import variance_interval
from ldpbeam.mechanisms import Gaussian, Laplace, NumericMechanism, Piecewise
from ldpbeam.statistics import Answers, Moments, Statistic, empty, tally

Floats = NDArray[np.float64]
DOMAIN = Numeric(0.0, 180.0)
#: Each with the distribution of a report of the value 0 on [-1, 1].
NOISES: list[tuple[NumericMechanism, stats.rv_continuous]] = []
for epsilon in (0.1, 0.5, 1.0, 3.0):
    NOISES.append((Laplace(epsilon), stats.laplace(scale=2.0 / epsilon)))
    NOISES.append((Gaussian(epsilon), stats.norm(scale=Gaussian(epsilon).sigma)))
IDS = [f"{mechanism.name}-{mechanism.epsilon:g}" for mechanism, _ in NOISES]


def asked(mechanism: NumericMechanism, buckets: int = 256) -> Attribute:
    return Attribute("x", DOMAIN, buckets, (ServiceVersion("s", "", mechanism),))


def counted(attribute: Attribute, reports: Floats) -> Statistic:
    return tally(attribute, len(reports), [Answers(0, np.arange(len(reports)), reports)])


def chances(mechanism: NumericMechanism, noise: stats.rv_continuous, x: Floats, buckets: int) -> Floats:
    """P(cell | value x in [0, 1]) by the distribution function, shape (values, cells)."""
    edges = np.linspace(-mechanism.tail.end, mechanism.tail.end, buckets + 1)
    below = noise.cdf(edges - (2.0 * x[:, None] - 1.0))
    ends = np.ones((len(x), 1))
    return np.diff(np.hstack((0.0 * ends, below, ends)), axis=1)


@pytest.mark.parametrize("buckets", [32, 256])
@pytest.mark.parametrize(("mechanism", "noise"), NOISES, ids=IDS)
def test_scores_are_unbiased_at_every_value_and_hardly_noisier_than_reports(
    mechanism: NumericMechanism, noise: stats.rv_continuous, buckets: int
) -> None:
    scored = scores(mechanism, buckets)
    x = np.linspace(0.0, 1.0, 41)
    table = chances(mechanism, noise, x, buckets)
    plain = float(mechanism.variance(0.5))
    # The channel averages over a value bucket, which is 1/512 wide, and scores are smooth in the value.
    assert np.abs(table @ scored.first.cells - x).max() < scored.first.bias + 1e-4 * np.sqrt(plain)
    squares = np.sqrt(scored.second.noise.max())
    assert np.abs(table @ scored.second.cells - x**2).max() < scored.second.bias + 1e-4 * squares
    variance = table @ scored.first.cells**2 - x**2
    assert variance.max() < (0.9 if isinstance(mechanism, Laplace) else 1.06) * plain
    np.testing.assert_allclose(scored.first.noise_at(x), variance, atol=3e-3 * plain)


@pytest.mark.parametrize(("mechanism", "noise"), NOISES, ids=IDS)
def test_a_bounded_report_has_the_mean_of_the_value(
    mechanism: NumericMechanism, noise: stats.rv_continuous
) -> None:
    limit = mechanism.tail.mean_from
    for v in (-1.0, 1.0) if isinstance(mechanism, Gaussian) else (-1.0, -0.3, 0.0, 0.8, 1.0):
        inside = integrate.quad(
            lambda y, v=v: float(mechanism.bounded(y)) * noise.pdf(y - v), -limit, limit, points=(v,)
        )[0]
        high, low = float(mechanism.bounded(1e3 * limit)), float(mechanism.bounded(-1e3 * limit))
        assert inside + high * noise.sf(limit - v) + low * noise.cdf(-limit - v) == pytest.approx(v, abs=1e-7)


@pytest.mark.parametrize("mechanism", [Laplace(1.0), Gaussian(1.0, delta=1e-6)], ids=lambda m: m.name)
@pytest.mark.parametrize("n", [20_000, 200_000])
def test_fake_users_who_send_the_largest_report_move_a_mean_a_little_and_are_seen(
    mechanism: NumericMechanism, n: int
) -> None:
    rng = np.random.default_rng(7)
    attribute = asked(mechanism)
    reports = mechanism.perturb(rng.beta(2.0, 5.0, n), rng)
    honest = estimate("ivw", attribute, counted(attribute, reports))
    reports[: n // 100] = mechanism.report_range[1]
    statistic = counted(attribute, reports)
    for name in ("ivw", "ua"):
        found = estimate(name, attribute, statistic)
        # PM's fake users move a mean by 1% of C - v at most. No Gaussian mean stays within twice that.
        most = 0.01 * (Piecewise(1.0).bound + 1.0) / 2.0 * DOMAIN.width
        shift = found.mean - honest.mean
        # What the replaced reports said is noise: five of its standard errors.
        slack = 5.0 * found.standard_error * np.sqrt(0.01)
        assert shift < most * (1.0 if isinstance(mechanism, Laplace) else 3.6) + slack
        intervals = StatisticIntervals(attribute, statistic).of(found, WantedIntervals())
        assert "some are false" in intervals.flags["certain"]


@pytest.mark.parametrize("mechanism", [Gaussian(1.0, delta=1e-6), Piecewise(1.0)], ids=lambda m: m.name)
def test_fake_users_who_send_what_an_honest_person_may_are_seen_beside_the_estimate(
    mechanism: NumericMechanism,
) -> None:
    rng = np.random.default_rng(7)
    attribute = asked(mechanism)
    reports = mechanism.perturb(rng.beta(2.0, 5.0, 20_000), rng)
    found = []
    for fake in (0, 200):
        reports[:fake] = reports.max()
        statistic = counted(attribute, reports)
        answer = estimate("ivw", attribute, statistic)
        found.append(StatisticIntervals(attribute, statistic).of(answer, WantedIntervals()).flags)
    assert found[0] == {}
    assert "do not fit its mechanism" in found[1]["certain"]


@pytest.mark.parametrize("kind", [Laplace, Gaussian, Piecewise])
def test_no_mean_lies_outside_of_its_domain(kind: type[NumericMechanism]) -> None:
    mechanism = kind(1.0)
    attribute = asked(mechanism)
    for end, limit in zip(mechanism.report_range, (0.0, 180.0), strict=True):
        statistic = counted(attribute, np.full(1_000, end))
        for name in ("ivw", "ua", "em"):
            found = estimate(name, attribute, statistic)
            assert found.mean is not None and 0.0 <= found.mean <= 180.0
        found = estimate("ivw", attribute, statistic)
        assert found.mean == limit
        assert abs(found.details["mean_of_reports"] - limit) > 50.0
        assert "outside of the domain" in found.warnings[0]
        intervals = StatisticIntervals(attribute, statistic).of(found, WantedIntervals())
        assert "certain" in intervals.flags


POPULATIONS = {"low end": np.zeros(1), "beta": stats.beta(2, 5).ppf((np.arange(40) + 0.5) / 40)}


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_intervals_of_means_and_variances_hold_the_truth_as_often_as_they_say(
    kind: type[NumericMechanism], population: str
) -> None:
    mechanism = kind(1.0)
    noise = stats.laplace(scale=2.0) if isinstance(mechanism, Laplace) else stats.norm(scale=mechanism.sigma)
    attribute, x = asked(mechanism, 64), POPULATIONS[population]
    runs, each = 1_000, 2_000 // len(x)
    rng = np.random.default_rng(11)
    table = chances(mechanism, noise, x, 64)
    drawn = sum(rng.multinomial(each, row / row.sum(), size=runs) for row in table)
    truth, spread = 180.0 * float(x.mean()), 180.0**2 * float(x.var())
    shares = np.histogram(x, 64, (0.0, 1.0))[0] / len(x)
    held = np.zeros(2)
    for run, histogram in enumerate(drawn):
        moments = {1: Moments(2_000, (0,), (0,), (0,))}
        statistic = dataclasses.replace(
            empty(attribute), reports=2_000, users=2_000, histograms=(histogram,), moments=moments
        )
        question = Question(attribute, statistic, ("s",))
        ((low, high),) = mean_interval(question, WantedIntervals(0.95)).ends["certain"]["mean"].columns
        held[0] += low <= truth <= high
        if run % 4 == 0:
            ends = variance_interval(question, shares, 0.95)
            held[1] += ends[0] <= spread <= ends[1]
    # 1,000 runs have a standard error of 0.7%: 93% to 97% are nearly three of them.
    assert 0.93 <= held[0] / runs <= 0.97
    # 250 runs have one of 1.4%; at the least possible variance, intervals may be wider than they need be.
    assert held[1] / (runs / 4) >= 0.91


def test_a_false_report_moves_the_sums_of_users_of_different_services_by_its_bounded_self() -> None:
    attribute = Attribute(
        "x", DOMAIN, 64, (ServiceVersion("a", "", Laplace(1.0)), ServiceVersion("b", "", Piecewise(1.0)))
    )
    rng = np.random.default_rng(1)
    rows = np.arange(500)
    reports = [version.mechanism.perturb(rng.random(500), rng) for version in attribute.versions]
    new = tally(attribute, 500, [Answers(0, rows, reports[0]), Answers(1, rows[:300], reports[1][:300])])
    assert all(own.bounded for own in new.moments.values())
    reports[0][0] = -Laplace(1.0).report_range[1]
    false = tally(attribute, 500, [Answers(0, rows, reports[0]), Answers(1, rows[:300], reports[1][:300])])
    moved = np.subtract(*(float(estimate("ua", attribute, one).mean or 0.0) for one in (new, false)))
    assert abs(moved) < 2.0 * 3.0 / 500 * 90.0
