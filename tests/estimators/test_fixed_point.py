"""The fixed point of EMS by Newton's method: what it is, how soon it is found, and hostile counts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.asked import counts_of
from support.covering import covering

from ldpbeam import Attribute, Numeric, ServiceVersion, build_mechanism, tally
from ldpbeam.channels import Channel, StackedChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators import estimate
from ldpbeam.estimators.curvature import curvature_of
from ldpbeam.estimators.em import fit_fixed_point
from ldpbeam.estimators.fixed_point import LARGEST_CHANGE, Curvature, fixed_point
from ldpbeam.estimators.iteration import Fit, Trace, smooth
from ldpbeam.estimators.products import products
from ldpbeam.statistics import Answers

UNIT = Numeric(0.0, 1.0)


def update(channel: Channel, counts: Floats, weights: Floats) -> Floats:
    """A plain update, from the whole matrix's products."""
    seen = counts > 0
    ratios = np.zeros(len(counts))
    ratios[seen] = counts[seen] / channel.matvec(weights)[seen]
    return smooth(weights * channel.rmatvec(ratios) / counts.sum())


def change(channel: Channel, counts: Floats, weights: Floats) -> float:
    return float(np.abs(update(channel, counts, weights) - weights).max())


def plain_updates(channel: Channel, counts: Floats, most: int, until: float) -> tuple[Floats, int]:
    """Plain updates until one changes no share by more than that: the weights, and how many there were."""
    weights = np.full(channel.shape[1], 1.0 / channel.shape[1])
    for spent in range(1, most + 1):
        updated = update(channel, counts, weights)
        if np.abs(updated - weights).max() <= until:
            return updated, spent
        weights = updated
    return weights, most


def solved(channel: Channel, counts: Floats) -> Fit:
    return fit_fixed_point(channel, counts, Trace(1_000))


@pytest.mark.parametrize(
    ("name", "epsilon", "buckets", "people"),
    [
        ("square_wave", 0.5, 256, 10_000),
        ("square_wave", 3.0, 1_024, 10_000),
        ("piecewise", 1.0, 256, 10_000),
        ("laplace", 1.0, 256, 100_000),
        ("hybrid", 1.0, 128, 100_000),
        ("square_wave", 1.0, 97, 10_000),
    ],
)
def test_the_fixed_point_takes_a_tenth_of_the_evaluations_of_plain_updates(
    name: str, epsilon: float, buckets: int, people: int
) -> None:
    channel, counts = counts_of(name, epsilon, buckets, people)
    fit = solved(channel, counts)
    assert fit.converged
    assert change(channel, counts, fit.weights) <= LARGEST_CHANGE
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert fit.weights.min() > 0.0
    _, plain = plain_updates(channel, counts, 20_000, LARGEST_CHANGE)
    assert len(fit.log_likelihoods) <= plain / 10


@pytest.mark.parametrize(
    ("name", "epsilon", "buckets"),
    [("square_wave", 1.0, 32), ("piecewise", 2.0, 37), ("stochastic_rounding", 1.0, 16), ("laplace", 1.0, 3)],
)
def test_it_is_where_very_many_plain_updates_end(name: str, epsilon: float, buckets: int) -> None:
    channel, counts = counts_of(name, epsilon, buckets, 5_000)
    fit = solved(channel, counts)
    weights, _ = plain_updates(channel, counts, 200_000, 1e-14)
    assert fit.converged
    np.testing.assert_allclose(fit.weights, weights, atol=1e-7)


#: Counts that were hard for Newton's method, from the numbers of the cells.
HOSTILE: dict[str, Callable[[Integers], Any]] = {
    "two ends, one of them faint": lambda cell: 5 * (cell == 0) + 1_000_000 * (cell == cell[-1]),
    "last cell": lambda cell: 10_000 * (cell == cell[-1]),
    "middle cell": lambda cell: 1_000_000_000 * (cell == len(cell) // 2),
    "one report": lambda cell: cell == len(cell) // 3,
    "one report in each cell": lambda cell: cell >= 0,
    "alternating in halves": lambda cell: (cell % 2 == 0) * np.where(cell < len(cell) // 2, 1_000, 10),
    "islands": lambda cell: 200 * (16 * cell // len(cell) % 4 == 1),
    "ramp": lambda cell: 10 * cell,
    "cliff": lambda cell: np.where(cell < len(cell) // 2, 1_000, 1),
    "powers of two": lambda cell: 2 ** (30 * cell // len(cell)),
}


@pytest.mark.parametrize(
    ("pattern", "name", "buckets", "epsilon"),
    covering(
        itertools.product(HOSTILE, ["square_wave", "piecewise"], [3, 5, 64, 1_024], [0.01, 0.5, 3.0, 10.0])
    ),
)
def test_hostile_counts_end_at_the_fixed_point(pattern: str, name: str, buckets: int, epsilon: float) -> None:
    channel = build_mechanism(name, UNIT, epsilon).channel(buckets, buckets)
    counts = HOSTILE[pattern](np.arange(buckets)).astype(float)
    fit = solved(channel, counts)
    assert fit.converged
    assert np.isfinite(fit.log_likelihoods).all()
    assert change(channel, counts, fit.weights) <= LARGEST_CHANGE


def test_two_services_are_stacked() -> None:
    parts = [counts_of("square_wave", 0.5, 128, 20_000), counts_of("laplace", 1.0, 128, 30_000)]
    channel = StackedChannel([channel for channel, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    fit = solved(channel, counts)
    assert fit.converged
    assert change(channel, counts, fit.weights) <= LARGEST_CHANGE
    assert len(fit.log_likelihoods) < 30


def test_faint_weights_that_would_grow_are_no_fixed_point() -> None:
    # One report in each of two distant buckets: weights near the second one are faint and would grow.
    channel = build_mechanism("square_wave", UNIT, 4.0).channel(100, 100)
    counts = np.zeros(100)
    counts[[20, 80]] = 3, 1
    cold = fit_fixed_point(channel, counts, trace=Trace(200))
    start = np.where(np.arange(100) < 50, 0.02, 1e-30)
    seen = np.flatnonzero(counts)
    warm = fixed_point(
        products(channel, seen), counts[seen], start, curvature=curvature_of(channel, seen), trace=Trace(200)
    )
    assert cold.converged
    assert warm.converged
    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-7)


def test_a_curvature_that_is_wrong_changes_the_way_and_not_the_end() -> None:
    channel, counts = counts_of("square_wave", 1.0, 64, 20_000)
    right = solved(channel, counts)
    seen = np.flatnonzero(counts)
    given = curvature_of(channel, seen)
    wrongly = dataclasses.replace(given, means=lambda h: 1.5 * given.means(h))
    start = np.full(64, 1 / 64)
    wrong = fixed_point(products(channel, seen), counts[seen], start, curvature=wrongly, trace=Trace(2_000))
    assert wrong.converged
    assert len(wrong.log_likelihoods) > len(right.log_likelihoods)
    np.testing.assert_allclose(wrong.weights, right.weights, atol=1e-6)


def test_where_newton_fails_larger_updates_go_on_to_the_fixed_point() -> None:
    channel, counts = counts_of("square_wave", 1.0, 32, 20_000)
    seen = np.flatnonzero(counts)
    progress: list[tuple[int, float]] = []
    fit = fixed_point(
        products(channel, seen),
        counts[seen],
        np.full(32, 1 / 32),
        curvature=Curvature(lambda h: np.full((16, 16), np.nan)),
        trace=Trace(5_000, lambda i, value: progress.append((i, value))),
    )
    assert fit.converged
    assert change(channel, counts, fit.weights) <= LARGEST_CHANGE
    assert progress == list(enumerate(fit.log_likelihoods, start=1))
    np.testing.assert_allclose(fit.weights, solved(channel, counts).weights, atol=1e-6)


@pytest.mark.parametrize("most", [1, 3])
def test_too_few_iterations_are_not_converged(most: int) -> None:
    channel, counts = counts_of("square_wave", 1.0, 64, 20_000)
    fit = fit_fixed_point(channel, counts, trace=Trace(most))
    assert not fit.converged
    assert len(fit.log_likelihoods) == most
    assert change(channel, counts, fit.weights) > LARGEST_CHANGE


def test_ems_says_that_it_is_the_fixed_point() -> None:
    rng = np.random.default_rng(5)
    mechanism = build_mechanism("square_wave", UNIT, 1.0)
    attribute = Attribute("x", UNIT, 64, (ServiceVersion("maps", "", mechanism),))
    statistic = tally(attribute, 500, [Answers(0, np.arange(500), mechanism.perturb(rng.random(500), rng))])
    answer = estimate("ems", attribute, statistic, options={"accelerated": True})
    assert answer.converged
    assert answer.details["largest_change"] == LARGEST_CHANGE
    assert "tolerance" not in answer.details
    channel = attribute.stacked_channel((0,))
    assert change(channel, statistic.histograms[0].astype(float), answer.distribution) <= LARGEST_CHANGE
    short = estimate("ems", attribute, statistic, options={"accelerated": True, "max_iterations": 2})
    assert short.warnings == (
        "not converged after 2 iterations: a further update changes a share by more than 1e-09; "
        "raise max_iterations",
    )
