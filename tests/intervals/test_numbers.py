"""Intervals of a number's distribution: a smooth density's posterior, and the variance in closed form."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.asked import statistic_of
from support.covering import covering

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.certainty import IF_SMOOTH, Intervals
from ldpbeam.density.averaging import Family, weigh
from ldpbeam.density.draws import draws, of_people
from ldpbeam.density.likelihoods import Exact
from ldpbeam.density.modes import log_posterior
from ldpbeam.density.priors import Prior
from ldpbeam.domains import Floats, Numeric, bucket_midpoints
from ldpbeam.estimators import estimate as solve
from ldpbeam.estimators.auto import joined as auto_joined
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.intervals.numbers import ends, whole_buckets
from ldpbeam.mechanisms import build_mechanism, registered_mechanisms
from ldpbeam.statistics import Statistic

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


def found(attribute: Attribute, statistic: Statistic, wanted: WantedIntervals = WANTED) -> Intervals:
    estimate = Estimate("none", attribute.services, 0, None, distribution=np.full(1, np.nan), mean=np.nan)
    return StatisticIntervals(attribute, statistic).of(
        Estimate(**{**vars(estimate), "variance": np.nan}), wanted
    )


def smooth(intervals: Intervals, name: str) -> Floats:
    ends = intervals.of(name, IF_SMOOTH)
    assert ends is not None
    return ends


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
    """Of 12 runs, in the average over the numbers of a kind; docs/measured.md has more runs and settings.

    Intervals of the level 1/2 that are too wide hold more than half; those of 95% could hardly hold more.
    """
    rng, held = np.random.default_rng(3), defaultdict[tuple[str, float], list[float]](list)
    for _ in range(12):
        values = rng.beta(2.0, 4.0, people)
        statistic = statistic_of(attribute, values, rng)
        for (name, truth), level in itertools.product(truths(values, attribute.buckets).items(), (0.5, 0.95)):
            told = found(attribute, statistic, replace(WANTED, level=level))
            low, high = smooth(told, name).T
            held[name, level].append(float(((low <= truth) & (truth <= high)).mean()))
    for (name, level), shares in held.items():
        # As if three numbers of a kind were independent, at least.
        error = max(float(np.std(shares)), math.sqrt(level * (1.0 - level) / 3.0)) / math.sqrt(len(shares))
        assert np.mean(shares) > level - 4.0 * error, (name, level)
        # Those that rest on smoothness are wider than their level needs.
        most = level if name in ("mean", "variance") else 0.5 + 0.5 * level
        assert np.mean(shares) < most + 4.0 * error, (name, level)


def test_one_more_draw_lies_between_the_ends_with_the_chance_of_the_level() -> None:
    told, middle = ends(np.random.default_rng(4).random((240, 20_000)), 0.95)
    assert middle.mean() == pytest.approx(0.5, abs=0.01)
    between = told[:, 1] - told[:, 0]
    assert between.mean() == pytest.approx(0.95, abs=4.0 * between.std() / math.sqrt(20_000))


def test_higher_levels_have_wider_intervals_and_those_of_all_draws_say_so() -> None:
    attribute = asked(("square_wave", 2.0))
    statistic = statistic_of(attribute, np.random.default_rng(1).beta(2.0, 5.0, 20_000), 2)
    told = [found(attribute, statistic, replace(WANTED, level=level)) for level in (0.9, 0.99, 0.999, 0.9999)]
    widths = [np.diff(smooth(one, "quantiles")).mean() for one in told]
    # Those of the normal distribution are 1.64, 2.58 and 3.29 standard deviations.
    assert widths[0] * 1.3 < widths[1] and widths[1] * 1.1 < widths[2]
    assert [one.methods["if_smooth"].startswith("all draws") for one in told] == [False, False, False, True]


def test_simultaneous_bands_hold_a_smooth_population_whole() -> None:
    attribute, rng, whole = asked(("square_wave", 2.0), buckets=32), np.random.default_rng(4), list[bool]()
    wanted = WantedIntervals(0.9, simultaneous=True)
    for _ in range(12):
        values = rng.beta(3.0, 3.0, 5_000)
        ends = smooth(found(attribute, statistic_of(attribute, values, rng), wanted), "distribution")
        truth = truths(values, 32)["distribution"]
        whole.append(bool(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()))
    assert np.mean(whole) > 0.9 - 4.0 * math.sqrt(0.9 * 0.1 / 12)


def test_draws_of_few_coefficients_have_the_posterior_distribution() -> None:
    """Two coefficients of five reports, far from normal: against a sum over a grid."""
    matrix = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    likelihood = Exact(matrix, np.array([5.0, 0.0, 0.0]), np.ones(3, dtype=np.int64))
    fits = weigh(likelihood, [Family([Prior(1, 6.0)])])
    told = draws(likelihood, fits, np.random.default_rng(5), many=4_000)
    side = np.linspace(-6.0, 6.0, 301)
    points = np.stack([own.ravel() for own in np.meshgrid(side, side)])
    logs = log_posterior(likelihood, fits[0].curves, points)[0]
    shares, weights = fits[0].curves.shares(points), np.exp(logs - logs.max())
    weights /= weights.sum()
    for bucket in range(3):
        mean = float(weights @ shares[bucket])
        deviation = math.sqrt(float(weights @ (shares[bucket] - mean) ** 2))
        # Draws are chosen again once and then moved, so that a few hundred of them are independent.
        assert told[bucket].mean() == pytest.approx(mean, abs=4.0 * deviation / math.sqrt(400))
        assert told[bucket].std() == pytest.approx(deviation, rel=0.15)
    assert np.quantile(told[1], 0.05) < 1e-3


def test_draws_on_the_plain_scale_are_of_the_posterior_too() -> None:
    likelihood = Exact(np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([0.0, 9.0]), np.ones(2, dtype=np.int64))
    fits = weigh(likelihood, [Family([Prior(1, 3.0, "plain")])])
    told = draws(likelihood, fits, np.random.default_rng(6), many=4_000)
    points = np.linspace(-8.0, 8.0, 8_001)[None]
    logs = log_posterior(likelihood, fits[0].curves, points)[0]
    shares, weights = fits[0].curves.shares(points)[0], np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = float(weights @ shares)
    deviation = math.sqrt(float(weights @ (shares - mean) ** 2))
    assert told[0].mean() == pytest.approx(mean, abs=4.0 * deviation / math.sqrt(400))


def test_the_people_who_reported_are_around_their_own_posteriors() -> None:
    """A density that is known: each person's value is drawn from its posterior, here one by one."""
    rng = np.random.default_rng(7)
    matrix, density = np.array([[0.7, 0.2, 0.1], [0.3, 0.8, 0.9]]), np.array([0.2, 0.3, 0.5])
    counts = np.array([40.0, 60.0])
    likelihood = Exact(matrix, counts, np.ones(3, dtype=np.int64))
    given = np.repeat(density[:, None], 20_000, axis=1)
    told = of_people(likelihood, given, density, rng, total=100.0, people=100.0)
    held = matrix * density / (matrix @ density)[:, None]
    drawn = sum(rng.multinomial(int(n), own, 20_000) for n, own in zip(counts, held, strict=True)) / 100.0
    # Means and covariances of 20,000 draws each: four standard errors of deviations below 0.05.
    np.testing.assert_allclose(told.mean(axis=1), drawn.mean(axis=0), atol=4 * 0.05 / math.sqrt(20_000) * 1.5)
    np.testing.assert_allclose(np.cov(told), np.cov(drawn.T), atol=4 * 0.05**2 * math.sqrt(2 / 20_000) * 1.5)


def test_ends_of_quantiles_in_spikes_and_at_the_ends_of_the_range_take_whole_buckets() -> None:
    shares = np.array([0.1, 0.1, 0.1, 0.6, 0.1, 0.0, 0.0, 0.0])
    found = whole_buckets(np.array([[0.05, 0.4], [0.45, 0.55], [0.2, 0.95]]), shares)
    np.testing.assert_allclose(found, [[0.0, 0.5], [0.375, 0.55], [0.2, 1.0]])


def test_the_same_statistic_gives_the_same_bits() -> None:
    values = np.random.default_rng(9).random(500)
    # Both are made anew, since the last statistic's fit is kept.
    attributes = [asked(("square_wave", 1.0)) for _ in range(2)]
    one, other = (found(attribute, statistic_of(attribute, values, 9)) for attribute in attributes)
    for name in ("mean", "variance", "quantiles", "ranges", "distribution"):
        np.testing.assert_array_equal(smooth(one, name), smooth(other, name))
    assert one == other


def test_spikes_that_the_reports_show_are_flagged() -> None:
    attribute = asked(("square_wave", 4.0))
    values = np.random.default_rng(1).choice([0.2, 0.4, 0.41, 0.9], 100_000)
    told = found(attribute, statistic_of(attribute, values, 2))
    assert "spikes" in told.flags["if_smooth"] and "certain" not in told.flags


def test_signs_say_nothing_of_the_variance() -> None:
    """The variance then comes from the prior alone, and its interval is wide."""
    attribute = asked(("stochastic_rounding", 4.0))
    values = np.full(50_000, 0.5)
    told = found(attribute, statistic_of(attribute, values, 2))
    assert told.of("variance") is None
    assert np.ptp(smooth(told, "variance")) > 0.1 * 60.0**2 / 4.0


def test_many_value_buckets_are_put_together() -> None:
    attribute = asked(("square_wave", 1.0), buckets=2048)
    values = np.random.default_rng(1).beta(2.0, 5.0, 5_000)
    told = found(attribute, statistic_of(attribute, values, 2))
    ends_of_buckets = smooth(told, "distribution")
    pairs = ends_of_buckets.reshape(1024, 2, 2)
    # The first and the last bucket have the people at the ends, besides.
    assert (pairs == pairs[:, :1])[1:-1].all()
    assert (pairs[[0, -1], [0, 1], 1] > pairs[[0, -1], [1, 0], 1]).all()
    middle = ends_of_buckets.mean(axis=1)
    assert abs(middle @ bucket_midpoints(2048) / middle.sum() - 2.0 / 7.0) < 0.1


NAMES = [name for name, kind in registered_mechanisms().items() if kind.domain_type is Numeric]


@pytest.mark.parametrize(
    ("name", "epsilon", "people", "values"),
    covering(itertools.product(NAMES, [0.01, 15.0], [1, 400], ["zeros", "ones", "random"])),
)
def test_every_mechanism_has_intervals_that_are_ordered_and_within_the_domain(
    name: str, epsilon: float, people: int, values: str
) -> None:
    attribute = asked((name, epsilon), buckets=256, **({"delta": 1e-6} if name == "gaussian" else {}))
    rng = np.random.default_rng(people)
    sent = {"zeros": np.zeros, "ones": np.ones, "random": rng.random}[values](people)
    intervals = found(attribute, statistic_of(attribute, sent, rng))
    if (buckets := intervals.of("distribution", IF_SMOOTH)) is None:
        assert "likelihood" in intervals.methods["if_smooth"]
    else:
        assert buckets.shape == (256, 2)
    largest = {"mean": 60.0, "variance": 900.0, "quantiles": 60.0, "ranges": 1.0, "distribution": 1.0}
    for part, most in largest.items():
        for condition in intervals.ends:
            ends = intervals.of(part, condition)
            low, high = np.zeros((0, 2)).T if ends is None else ends.T
            assert (low >= -1e-9).all() and (low <= high).all() and (high <= most + 1e-9).all(), part


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("buckets", [2, 3, 4, 5, 31, 33])
def test_any_number_of_buckets_will_do(buckets: int, joined: bool) -> None:
    attribute = asked(("square_wave", 1.0), ("piecewise", 1.0), buckets=buckets, joined=joined)
    told = found(attribute, statistic_of(attribute, np.random.default_rng(1).random(200), 2))
    assert told.of("mean") is not None and smooth(told, "distribution").shape == (buckets, 2)


@pytest.mark.parametrize("joined", [False, True])
def test_inside_of_wide_buckets_are_the_intervals_of_the_density(joined: bool) -> None:
    """Ten buckets do not divide 256. None is flagged as unexplained."""
    attribute = asked(("square_wave", 2.0), ("piecewise", 2.0), buckets=10, joined=joined)
    held, width = list[bool](), list[float]()
    for seed in range(6):
        values = np.random.default_rng(seed).beta(2.0, 5.0, 50_000)
        statistic = statistic_of(attribute, values, seed)
        told = StatisticIntervals(attribute, statistic).of(solve("auto", attribute, statistic), WANTED)
        assert not told.flags
        for name in ("quantiles", "ranges"):
            low, high = smooth(told, name).T
            held += ((low <= truths(values, 10)[name]) & (truths(values, 10)[name] <= high)).tolist()
        width.append(float(np.diff(smooth(told, "quantiles")).mean()))
    # Of the 30, as many as 12 are taken to be independent. The mechanism's standard error of a mean is 0.1.
    assert np.mean(held) > 0.95 - 4.0 * math.sqrt(0.95 * 0.05 / 12)
    assert np.mean(width) < 2.5


def test_everybody_is_within_the_whole_range_where_the_likelihood_is_of_second_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auto_joined, "EXACT_ENTRIES", 0)
    attribute = asked(("square_wave", 3.0), ("piecewise", 3.0), joined=True)
    statistic = statistic_of(attribute, np.random.default_rng(1).beta(2.0, 5.0, 2_000), 2)
    told = found(attribute, statistic, WantedIntervals(ranges=((0.0, 60.0),)))
    ends_of_range = smooth(told, "ranges")
    np.testing.assert_allclose(ends_of_range, [[1.0, 1.0]], atol=1e-4)


@pytest.mark.parametrize("smoothly", [True, False])
def test_the_mean_of_joined_services_is_narrower_than_that_of_their_sums_if_smooth(smoothly: bool) -> None:
    """It never leaves that one: of four single values, the densities of the model know less than the sums."""
    attribute = asked(("square_wave", 2.0), ("stochastic_rounding", 2.0), joined=True)
    rng = np.random.default_rng(3)
    for _ in range(4):
        values = rng.beta(2.0, 4.0, 5_000) if smoothly else rng.choice([0.1, 0.35, 0.4, 0.8], 5_000)
        told = found(attribute, statistic_of(attribute, values, rng))
        (low, high), ((least, most),) = smooth(told, "mean")[0], told.ends["certain"]["mean"].columns
        assert least <= low and high <= most
        if smoothly:
            assert low <= 60.0 * values.mean() <= high and high - low < 0.98 * (most - least)


def with_a_gap(rng: np.random.Generator) -> Floats:
    return np.where(rng.random(30_000) < 0.5, rng.uniform(0.1, 0.4, 30_000), rng.uniform(0.6, 0.8, 30_000))


@pytest.mark.parametrize("draw", [with_a_gap, lambda rng: rng.beta(0.5, 0.5, 30_000)], ids=["a gap", "poles"])
def test_intervals_hold_what_is_not_smooth_in_most_runs(
    draw: Callable[[np.random.Generator], Floats],
) -> None:
    """Of a spline's intervals fewer than 64% of these held; docs/measured.md has more runs and settings."""
    attribute, held = asked(("square_wave", 3.0), buckets=256), list[float]()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        values = draw(rng)
        told, truth = found(attribute, statistic_of(attribute, values, rng)), truths(values, 256)
        assert not told.flags
        for name in ("quantiles", "ranges"):
            low, high = smooth(told, name).T
            held += ((low <= truth[name]) & (truth[name] <= high)).tolist()
    # Numbers of a run depend on each other: as many as half of the 40 are taken to be independent.
    assert np.mean(held) > 0.95 - 4.0 * math.sqrt(0.95 * 0.05 / 20)
