"""EM and EMS against the dense matrix, on planted truths, and the contract every estimator keeps."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldpbeam import Attribute, Categories, Numeric, ServiceVersion, registered_estimators
from ldpbeam.channels import Channel, StackedChannel
from ldpbeam.estimators import estimate
from ldpbeam.estimators.em import fit_channel
from ldpbeam.estimators.iteration import Trace, maximise, smooth
from ldpbeam.estimators.products import ChannelProducts
from ldpbeam.estimators.question import distribution_moments
from ldpbeam.mechanisms import Laplace, RandomisedResponse, SquareWave, StochasticRounding, build_mechanism
from ldpbeam.statistics import Moments, Statistic, empty

UNIT = Numeric(0.0, 1.0)
Floats = NDArray[np.float64]


def one_service(name: str, epsilons: Sequence[float], buckets: int) -> Attribute:
    versions = tuple(
        ServiceVersion("s", f"v{i}", build_mechanism(name, UNIT, epsilon))
        for i, epsilon in enumerate(epsilons)
    )
    return Attribute("x", UNIT, buckets, versions)


def expected_statistic(attribute: Attribute, truth: Floats, n: float) -> Statistic:
    """What n users of a distribution send on average, to each channel, rounded to integers."""
    histograms = tuple(
        np.rint(n * attribute.channel(index).dense() @ truth).astype(np.int64)
        for index in range(len(attribute.versions))
    )
    nothing = (0,) * len(histograms)
    moments = {1 << i: Moments(int(h.sum()), nothing, nothing) for i, h in enumerate(histograms)}
    return dataclasses.replace(empty(attribute), histograms=histograms, moments=moments)


def beta(buckets: int) -> Floats:
    return np.diff(stats.beta(2, 5).cdf(np.linspace(0.0, 1.0, buckets + 1)))


def dense(matrix: Floats, counts: Floats, iterations: int, smoothing: bool) -> tuple[Floats, list[float]]:
    """(weights, log-likelihood before each update) by the whole matrix: Algorithm 1 of the SW paper."""
    weights, trace = np.full(matrix.shape[1], 1.0 / matrix.shape[1]), []
    for _ in range(iterations):
        probabilities = matrix @ weights
        trace.append(float(counts @ np.log(probabilities)))
        weights = weights * (matrix.T @ (counts / probabilities)) / counts.sum()
        weights = smooth(weights) if smoothing else weights
    return weights, trace


CHANNELS = {
    "square wave": SquareWave(1.0).channel(6, 9),
    "laplace": Laplace(2.0).channel(6, 5),
    "stochastic rounding": StochasticRounding(1.0).channel(6, 2),
    "two versions": StackedChannel([SquareWave(0.5).channel(6, 7), SquareWave(3.0).channel(6, 8)]),
}


@pytest.mark.parametrize("entries", ["dense", "structured"])
@pytest.mark.parametrize("name", CHANNELS)
def test_iterates_are_those_of_the_dense_matrix(
    name: str, entries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = CHANNELS[name]
    matrix = channel.dense()
    if entries == "structured":
        use_structured_products(monkeypatch, channel)
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 30, channel.shape[0])
    counts[0] = 0  # a report bucket nobody hit
    for smoothing in (False, True):
        fit = fit_channel(channel, counts, smoothing=smoothing, tolerance=-math.inf, trace=Trace(12))
        weights, trace = dense(matrix, counts, 12, smoothing)
        np.testing.assert_allclose(fit.weights, weights, atol=1e-12)
        np.testing.assert_allclose(fit.log_likelihoods, trace, rtol=1e-12)


def use_structured_products(monkeypatch: pytest.MonkeyPatch, channel: Channel) -> ModuleType:
    module = importlib.import_module("ldpbeam.estimators.products")
    monkeypatch.setattr(module, "DENSE_ENTRIES", 0)

    def dense(self: Channel) -> Floats:
        raise AssertionError("the dense matrix was asked for")

    monkeypatch.setattr(type(channel), "dense", dense)
    return module


def test_smoothing_weighs_neighbours_and_treats_both_ends_alike() -> None:
    weights = np.array([0.5, 0.1, 0.0, 0.1, 0.3])
    expected = np.array([1.1 / 3, 0.7 / 4, 0.2 / 4, 0.5 / 4, 0.7 / 3])
    np.testing.assert_allclose(smooth(weights), expected / expected.sum(), atol=1e-15)
    np.testing.assert_allclose(smooth(weights[::-1]), smooth(weights)[::-1], atol=1e-15)
    uniform = np.full(7, 1 / 7)
    np.testing.assert_allclose(smooth(uniform), uniform, atol=1e-15)
    assert smooth(np.array([0.9, 0.1])).tolist() == [0.9, 0.1]


@pytest.mark.parametrize(
    ("likelihoods", "iterations"),
    [([-9, -5, -2, -1.5, -1.4], 4), ([-9, -5, -7, -1], 3), ([-9, -5, -5, -1], 3)],
)
def test_a_gain_below_the_tolerance_or_a_fall_stops(likelihoods: list[float], iterations: int) -> None:
    planned = iter(likelihoods)
    fit = maximise(
        ChannelProducts(
            lambda _: np.array([math.exp(next(planned))]), lambda _: np.array([1.0, 1.0]), np.zeros
        ),
        np.array([1.0]),
        np.array([0.5, 0.5]),
        smoothing=False,
        tolerance=0.75,
        trace=Trace(100),
    )
    assert fit.converged
    np.testing.assert_allclose(fit.log_likelihoods, likelihoods[:iterations])


def test_plain_em_never_loses_likelihood_and_stops_at_the_first_small_gain() -> None:
    attribute = one_service("square_wave", [1.0], 32)
    answer = estimate("em", attribute, expected_statistic(attribute, beta(32), 1e5))
    gains = np.diff(answer.log_likelihoods)
    tolerance = 1e-3 * math.e
    assert answer.converged
    assert not answer.warnings
    assert answer.n_iterations == len(answer.log_likelihoods)
    assert (gains[:-1] >= tolerance).all()
    assert 0.0 <= gains[-1] < tolerance
    assert answer.details["tolerance"] == pytest.approx(tolerance)
    assert answer.details["tolerance_per_report"] == pytest.approx(tolerance / answer.reports)


def test_running_out_of_iterations_is_said() -> None:
    attribute = one_service("square_wave", [1.0], 32)
    seen: list[tuple[int, float]] = []
    found = estimate(
        "ems",
        attribute,
        expected_statistic(attribute, beta(32), 1e5),
        options={"max_iterations": 3},
        progress=lambda iteration, likelihood: seen.append((iteration, likelihood)),
    )
    assert not found.converged
    assert found.n_iterations == 3
    assert "not converged after 3 iterations" in found.warnings[0]
    assert seen == list(enumerate(found.log_likelihoods.tolist(), start=1))
    assert found.details["tolerance"] == 1e-3


def test_moments_of_a_distribution_are_those_of_uniform_buckets() -> None:
    # A uniform distribution on [10, 50]: mean 30, variance 40^2 / 12, whatever the buckets.
    assert distribution_moments(Numeric(10, 50), np.full(3, 1 / 3)) == pytest.approx((30, 400 / 3))
    two = np.array([0.25, 0.75])
    expected = 0.25 * (5**2 / 3) + 0.75 * (10**3 - 5**3) / 15 - 6.25**2
    assert distribution_moments(Numeric(0, 10), two) == pytest.approx((6.25, expected))


def test_what_an_estimator_cannot_answer_is_refused() -> None:
    attribute = one_service("square_wave", [1.0], 8)
    statistic = expected_statistic(attribute, beta(8), 100)
    grr = ServiceVersion("s", "", RandomisedResponse(1.0, size=2))
    colours = Attribute("c", Categories(("a", "b")), 0, (grr,))
    other = one_service("square_wave", [1.1], 8)
    with pytest.raises(ValueError, match=r"unknown estimator 'me'; did you mean 'mle'. there are: auto, em"):
        estimate("me", attribute, statistic)
    with pytest.raises(ValueError, match="no option 'tol'; it takes: tolerance, max_iterations"):
        estimate("em", attribute, statistic, options={"tol": 1})
    for option, value in (("tolerance", 0.0), ("tolerance", math.nan), ("max_iterations", 0)):
        with pytest.raises(ValueError, match=f"option '{option}' is a .*number .*found {value}"):
            estimate("em", attribute, statistic, options={option: value})
    with pytest.raises(ValueError, match="'ems' does not fit: smoothing needs numbers"):
        estimate("ems", colours, empty(colours))
    with pytest.raises(ValueError, match="of other channels"):
        estimate("em", other, statistic)


@pytest.mark.parametrize("name", ["em", "ems", "ule", "ivw", "ua", "uwa"])
def test_no_reports_are_answered_with_a_warning(name: str) -> None:
    attribute = dataclasses.replace(one_service("laplace", [1.0], 8), joint_services=("s",))
    found = estimate(name, attribute, empty(attribute))
    assert (found.estimator, found.reports, found.users) == (name, 0, 0)
    assert not found.converged
    assert found.warnings == ("no reports from these services",)
    assert registered_estimators()[name].name == name
