"""EM to the greatest likelihood, of olh and of waves: certified by its slopes, and in few iterations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from support import asked
from support.covering import covering

from ldpbeam import Numeric, build_mechanism
from ldpbeam.channels import Channel, StackedChannel
from ldpbeam.domains import Floats
from ldpbeam.estimators import estimate
from ldpbeam.estimators.em import likeliest
from ldpbeam.estimators.iteration import Fit, Trace
from ldpbeam.mechanisms import LocalHashing, Mechanism, OptimisedUnaryEncoding, RandomisedResponse

UNIT = Numeric(0.0, 1.0)


def shares_of(kind: str, size: int) -> Floats:
    ranks = np.arange(1, size + 1)
    kinds = {"flat": np.ones(size), "tail": 1.0 / ranks, "steep": ranks**-2.5, "one": 1.0 * (ranks == 1)}
    return kinds[kind] / kinds[kind].sum()


def counted(mechanism: Any, reports: int, kind: str = "tail", seed: int = 1) -> Floats:
    """A histogram of so many reports."""
    rng = np.random.default_rng(seed)
    values = rng.choice(mechanism.size, reports, p=shares_of(kind, mechanism.size))
    return mechanism.histogram(mechanism.perturb(values, rng), 0).astype(np.float64)


def solved(channel: Channel, counts: Floats, most: int = 500) -> Fit:
    return likeliest(channel, counts, Trace(most), tolerance=1e-3)


def certified(channel: Channel, counts: Floats) -> Fit:
    """The fit, of which a further plain update changes no share by 1e-8, at the greatest likelihood."""
    fit, n, seen = solved(channel, counts), counts.sum(), counts > 0
    assert fit.converged
    assert fit.weights.min() >= 0.0
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    # The products of bands have rounding errors, which would show of a thousand million reports.
    matrix = channel.dense() if math.prod(channel.shape) < 2**21 else channel
    ratios = matrix.T @ np.where(seen, counts / np.where(seen, matrix @ fit.weights, 1.0), 0.0) / n
    assert np.abs(fit.weights * (ratios - 1.0)).max() <= 1.1e-8
    assert n * (ratios.max() - 1.0) <= max(1.1e-3, 1e-12 * n)
    # No step loses likelihood, but for rounding errors.
    assert np.diff(fit.log_likelihoods).min(initial=0.0) >= -1e-7 - 1e-12 * abs(fit.log_likelihoods[-1])
    return fit


@pytest.mark.parametrize(
    ("size", "epsilon", "reports", "kind"),
    [
        (222, 1.0, 333_000, "tail"),
        (222, 0.5, 10_000, "tail"),
        (222, 4.0, 10_000, "tail"),
        (222, 1.0, 100_000, "steep"),
        (222, 1.0, 100_000, "one"),
        (1_000, 4.0, 1_000_000, "flat"),
        *((size, epsilon, reports, "tail") for size, epsilon, reports in covering(
            itertools.product([2, 3, 222], [0.01, 1.0, 8.0], [1, 2, 30, 1_000, 10**9])
        )),
    ],
)  # fmt: skip
def test_the_end_of_olh_is_certified(size: int, epsilon: float, reports: int, kind: str) -> None:
    # Few reports leave most cells empty; a thousand million are multiples of a thousand, seen as given.
    mechanism, drawn = LocalHashing(epsilon, size), min(reports, 1_000_000 if reports < 10**9 else 1_000)
    fit = certified(mechanism.channel(size, 0), counted(mechanism, drawn, kind) * (reports // drawn))
    assert len(fit.log_likelihoods) <= (30 if reports < 10**9 else 100)


@pytest.mark.parametrize(
    ("name", "epsilon", "buckets", "people"),
    covering(
        itertools.product(
            ["square_wave", "piecewise"], [0.1, 1.0, 4.0], [3, 64, 256, 1_024], [100, 10_000, 100_000]
        )
    ),
)
def test_the_end_of_a_wave_is_certified(name: str, epsilon: float, buckets: int, people: int) -> None:
    certified(*asked.counts_of(name, epsilon, buckets, people))


@pytest.mark.parametrize("name", ["square_wave", "piecewise"])
@pytest.mark.parametrize("epsilon", [0.01, 10.0])
def test_hostile_counts_of_a_wave(name: str, epsilon: float) -> None:
    channel, cell = build_mechanism(name, UNIT, epsilon).channel(50, 50), np.arange(50)
    spread = channel.matvec(np.random.default_rng(2).dirichlet(np.full(50, 0.1)))
    for counts in (cell == 17, 10**9 * (cell == 25), 5 * (cell == 0) + 10**6 * (cell == 49), 10**9 * spread):
        certified(channel, np.round(counts.astype(float)))


def test_all_reports_in_one_cell_leave_its_categories_alike() -> None:
    mechanism = LocalHashing(1.0, 50)
    counts = np.zeros(mechanism.cells(0))
    counts[17] = 10_000
    fit = certified(mechanism.channel(50, 0), counts)
    supported = mechanism.table.of_seeds(np.array([17 // mechanism.hashes]))[0] == 17 % mechanism.hashes
    np.testing.assert_allclose(fit.weights, supported / supported.sum(), rtol=1e-9)


def test_services_and_versions_are_stacked_with_their_like() -> None:
    parts: list[Any] = [LocalHashing(1.0, 40), LocalHashing(3.0, 40), RandomisedResponse(2.0, 40)]
    channels = [part.channel(40, 0) for part in parts]
    counts = [counted(part, 20_000, seed=seed) for seed, part in enumerate(parts)]
    certified(StackedChannel(channels), np.concatenate(counts))
    waves = [asked.counts_of(name, 1.0, 64, 500) for name in ("square_wave", "piecewise")]
    certified(StackedChannel([wave for wave, _ in waves]), np.concatenate([own for _, own in waves]))
    bits = OptimisedUnaryEncoding(1.0, 40).histogram_channel(40, 0)
    noise, _ = asked.counts_of("laplace", 1.0, 64, 10)
    for others in ([channels[0], bits], [waves[0][0], noise]):
        stacked = StackedChannel(others)
        assert likeliest(stacked, np.ones(stacked.shape[0]), Trace(5), tolerance=1e-3) is None


def test_the_limit_of_iterations_ends_it_unconverged_with_progress_told() -> None:
    mechanism = LocalHashing(1.0, 222)
    of_olh = mechanism.channel(222, 0), counted(mechanism, 10_000)
    for channel, counts in (of_olh, asked.counts_of("square_wave", 1.0, 64, 10_000)):
        told: list[int] = []
        trace = Trace(2, lambda iteration, _, told=told: told.append(iteration))
        fit = likeliest(channel, counts, trace, tolerance=1e-3)
        assert fit is not None and not fit.converged
        assert told == [1, 2] and len(fit.log_likelihoods) == 2
        assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("mechanism", [LocalHashing(1.0, 60), build_mechanism("square_wave", UNIT, 1.0)])
def test_em_takes_it_if_asked_and_stops_early_if_not(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(8)
    if isinstance(mechanism, LocalHashing):
        attribute, values = asked.of_categories(mechanism), rng.choice(60, 20_000, p=shares_of("tail", 60))
    else:
        attribute, values = asked.attribute_of(UNIT, mechanism, buckets=64), rng.beta(2, 5, 20_000)
    statistic = asked.statistic_of(attribute, values, rng)
    early = estimate("em", attribute, statistic)
    best = estimate("em", attribute, statistic, options={"accelerated": True, "tolerance": 1e-3})
    fit = solved(attribute.channel(0), statistic.histograms[0].astype(np.float64))
    assert best.distribution is not None and best.distribution.tobytes() == fit.weights.tobytes()
    assert best.converged and best.log_likelihoods[-1] > early.log_likelihoods[-1]
