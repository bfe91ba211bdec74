"""The maximum-likelihood distribution of numbers: certified by its slopes, and against plain EM."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.asked import counts_of
from support.covering import covering

from ldpbeam import Attribute, Numeric, ServiceVersion, build_mechanism, tally
from ldpbeam.channels import Channel, StackedChannel
from ldpbeam.domains import Floats
from ldpbeam.estimators import estimate
from ldpbeam.estimators.iteration import Fit, Trace
from ldpbeam.estimators.products import ChannelProducts, products
from ldpbeam.estimators.sparse_likelihood import is_of_bands, sparsest
from ldpbeam.statistics import Answers

UNIT = Numeric(0.0, 1.0)


def solved(channel: Channel, counts: Floats, tolerance: float = 1e-3, most: int = 200) -> tuple[Fit, int]:
    """The fit, and how often the channel was multiplied."""
    seen = np.flatnonzero(counts)
    forward, backward = products(channel, seen)
    calls = 0

    def counted(weights: Floats) -> Floats:
        nonlocal calls
        calls += 1
        return forward(weights)

    given = ChannelProducts(counted, backward)
    fit = sparsest(given, counts[seen], channel.shape[1], Trace(most), tolerance=tolerance)
    return fit, calls + len(fit.log_likelihoods)


def certified(channel: Channel, counts: Floats, weights: Floats) -> tuple[float, float, float]:
    """The likelihood; how far below its maximum it is at most; the largest change by a plain update."""
    seen = counts > 0
    matrix = channel.dense()[seen]
    probabilities = matrix @ weights
    slopes = (counts[seen] / probabilities) @ matrix / counts.sum()
    change = np.abs(weights * (slopes - 1.0)).max()
    return float(counts[seen] @ np.log(probabilities)), counts.sum() * (slopes.max() - 1.0), float(change)


@pytest.mark.parametrize(
    ("name", "epsilon", "buckets", "people"),
    covering(
        itertools.product(
            ["square_wave", "piecewise"], [0.1, 1.0, 4.0], [3, 64, 256, 1_024], [100, 10_000, 100_000]
        )
    ),
)
def test_nothing_is_more_likely_and_an_update_changes_nothing(
    name: str, epsilon: float, buckets: int, people: int
) -> None:
    channel, counts = counts_of(name, epsilon, buckets, people)
    fit, evaluations = solved(channel, counts)
    _, below, change = certified(channel, counts, fit.weights)
    assert fit.converged
    assert below < 1.1e-3
    assert change <= 1.1e-8
    assert fit.weights.min() >= 0.0
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(fit.log_likelihoods) > -1e-7).all()
    assert evaluations < 1_000


@pytest.mark.parametrize("name", ["square_wave", "piecewise"])
@pytest.mark.parametrize("epsilon", [0.01, 10.0])
@pytest.mark.parametrize("kind", ["one report", "one bucket", "ends", "thousand million"])
def test_hostile_counts(name: str, epsilon: float, kind: str) -> None:
    channel = build_mechanism(name, UNIT, epsilon).channel(50, 50)
    counts = np.zeros(50)
    if kind == "one report":
        counts[17] = 1
    elif kind == "one bucket":
        counts[25] = 10**9
    elif kind == "ends":
        counts[[0, -1]] = 5, 10**6
    else:
        counts = np.round(10**9 * channel.matvec(np.random.default_rng(2).dirichlet(np.full(50, 0.1))))
    fit, _ = solved(channel, counts)
    _, below, change = certified(channel, counts, fit.weights)
    assert fit.converged
    assert below <= max(1.1e-3, 1e-12 * counts.sum())
    assert change <= 1.1e-8


def test_too_few_iterations_are_not_converged() -> None:
    channel, counts = counts_of("square_wave", 1.0, 64, 10_000)
    fit, _ = solved(channel, counts, most=2)
    assert not fit.converged
    assert len(fit.log_likelihoods) == 2


def test_em_takes_it_for_bands_alone() -> None:
    band = counts_of("square_wave", 1.0, 64, 10)[0]
    other = counts_of("laplace", 1.0, 64, 10)[0]
    assert is_of_bands(StackedChannel([band, band]))
    assert not is_of_bands(StackedChannel([band, other]))
    rng = np.random.default_rng(5)
    mechanism = build_mechanism("square_wave", UNIT, 1.0)
    attribute = Attribute("x", UNIT, 64, (ServiceVersion("maps", "", mechanism),))
    statistic = tally(attribute, 500, [Answers(0, np.arange(500), mechanism.perturb(rng.random(500), rng))])
    found = estimate("em", attribute, statistic, options={"accelerated": True, "tolerance": 1e-6})
    counts = statistic.histograms[0].astype(float)
    np.testing.assert_array_equal(
        found.distribution, solved(attribute.stacked_channel((0,)), counts, 1e-6)[0].weights
    )
    assert found.converged
