"""EM of olh to the greatest likelihood: a certificate, and few evaluations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from support.covering import covering

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.channels import Channel, StackedChannel
from ldpbeam.domains import Categories
from ldpbeam.estimators import conjugate, estimate
from ldpbeam.estimators.conjugate import Likelihood, is_nearly_orthogonal, most_likely, nearest_shares
from ldpbeam.estimators.iteration import Fit, Trace
from ldpbeam.estimators.products import ChannelProducts
from ldpbeam.mechanisms import LocalHashing, OptimisedUnaryEncoding, RandomisedResponse
from ldpbeam.statistics import Answers, tally


def shares_of(kind: str, size: int) -> np.ndarray:
    ranks = np.arange(1, size + 1)
    weights = {"flat": np.ones(size), "tail": 1.0 / ranks, "steep": ranks**-2.5, "one": 1.0 * (ranks == 1)}[
        kind
    ]
    return weights / weights.sum()


def counted(mechanism: Any, reports: int, kind: str = "tail", seed: int = 1) -> np.ndarray:
    """A histogram of so many reports."""
    rng = np.random.default_rng(seed)
    values = rng.choice(mechanism.size, reports, p=shares_of(kind, mechanism.size))
    return mechanism.histogram(mechanism.perturb(values, rng), 0).astype(np.float64)


class Evaluations:
    """The products of all likelihoods, counted; two are one evaluation, which is what EM's update takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.products, plain = 0, conjugate.products

        def counted_products(channel: Channel, seen: np.ndarray) -> ChannelProducts:
            forward, backward = plain(channel, seen)
            return ChannelProducts(self.counting(forward), backward)

        monkeypatch.setattr(conjugate, "products", counted_products)
        for name in ("ratios", "renew"):
            monkeypatch.setattr(Likelihood, name, self.counting(getattr(Likelihood, name)))

    def counting(self, product: Any) -> Any:
        def call(*given: Any) -> Any:
            self.products += 1
            return product(*given)

        return call

    @property
    def made(self) -> float:
        return self.products / 2


def solved(channel: Channel, counts: np.ndarray, tolerance: float = 1e-3, most: int = 500) -> Fit:
    return most_likely(channel, counts, tolerance=tolerance, trace=Trace(most))


def certified(channel: Channel, counts: np.ndarray, fit: Fit, tolerance: float = 1e-3) -> None:
    """Fail unless a further plain update changes no share by 1e-8 and the likelihood is at its maximum."""
    weights, n = fit.weights, counts.sum()
    assert fit.converged
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    probabilities = channel.matvec(weights)
    seen = counts > 0
    ratios = channel.rmatvec(np.where(seen, counts / np.where(seen, probabilities, 1.0), 0.0)) / n
    assert np.abs(weights * ratios - weights).max() <= 1e-8
    assert n * (ratios.max() - 1.0) <= max(tolerance, 1e-12 * n)
    assert fit.log_likelihoods[-1] == pytest.approx(counts[seen] @ np.log(probabilities[seen]), rel=1e-12)


CASES = [
    (222, 1.0, 333_000, "tail"),
    (222, 0.5, 10_000, "tail"),
    (222, 4.0, 10_000, "tail"),
    (222, 1.0, 100_000, "steep"),
    (222, 1.0, 100_000, "one"),
    (1_000, 0.5, 10_000, "flat"),
    (1_000, 4.0, 1_000_000, "flat"),
]


@pytest.mark.parametrize(("size", "epsilon", "reports", "kind"), CASES)
def test_the_end_is_certified_and_takes_few_evaluations(
    size: int, epsilon: float, reports: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = LocalHashing(epsilon, size)
    channel, counts = mechanism.channel(size, 0), counted(mechanism, reports, kind)
    evaluations = Evaluations(monkeypatch)
    fit = solved(channel, counts)
    made = evaluations.made
    certified(channel, counts, fit)
    assert made <= (80 if kind in ("steep", "one") else 30)
    # Conjugate gradients never lose likelihood, but for rounding errors.
    assert np.diff(fit.log_likelihoods).min() >= -1e-12 * abs(fit.log_likelihoods[-1])


@pytest.mark.parametrize(
    ("size", "epsilon", "reports"),
    covering(itertools.product([2, 3, 222], [0.01, 1.0, 8.0], [1, 2, 30, 1_000, 10**9])),
)
def test_hostile_counts_are_certified(size: int, epsilon: float, reports: int) -> None:
    # Few reports leave most cells empty; a thousand million are multiples of a thousand, seen as given.
    mechanism = LocalHashing(epsilon, size)
    counts = counted(mechanism, min(reports, 1_000)) * max(1, reports // 1_000)
    certified(mechanism.channel(size, 0), counts, solved(mechanism.channel(size, 0), counts))


def test_all_reports_in_one_cell_leave_its_categories_alike() -> None:
    mechanism = LocalHashing(1.0, 50)
    channel, counts = mechanism.channel(50, 0), np.zeros(mechanism.cells(0))
    counts[17] = 10_000
    fit = solved(channel, counts)
    certified(channel, counts, fit)
    supported = mechanism.table.of_seeds(np.array([17 // mechanism.hashes]))[0] == 17 % mechanism.hashes
    assert fit.weights[supported].sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(fit.weights[supported], 1.0 / supported.sum(), rtol=1e-9)


def test_services_and_versions_are_stacked_with_grr_and_with_nothing_else() -> None:
    parts: list[Any] = [LocalHashing(1.0, 40), LocalHashing(3.0, 40), RandomisedResponse(2.0, 40)]
    channel = StackedChannel([part.channel(40, 0) for part in parts])
    counts = np.concatenate([counted(part, 20_000, seed=seed) for seed, part in enumerate(parts)])
    assert is_nearly_orthogonal(channel)
    certified(channel, counts, solved(channel, counts))
    bits = OptimisedUnaryEncoding(1.0, 40).histogram_channel(40, 0)
    assert not is_nearly_orthogonal(StackedChannel([channel.channels[0], bits]))


def test_the_limit_of_iterations_ends_it_unconverged_with_progress_told() -> None:
    mechanism = LocalHashing(1.0, 222)
    told: list[int] = []
    fit = most_likely(
        mechanism.channel(222, 0), counted(mechanism, 10_000), tolerance=1e-3,
        trace=Trace(5, lambda iteration, _: told.append(iteration)),
    )  # fmt: skip
    assert told == [1, 2, 3, 4, 5]
    assert not fit.converged
    assert len(fit.log_likelihoods) == 5
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_nearest_shares_satisfy_their_conditions() -> None:
    rng = np.random.default_rng(4)
    for size in (1, 2, 9, 400):
        values, metric = rng.normal(0.0, 1.0, size), rng.uniform(0.01, 5.0, size)
        shares = nearest_shares(values, metric)
        assert shares.min() >= 0.0
        assert math.isclose(shares.sum(), 1.0, rel_tol=1e-12)
        slopes = metric * (values - shares)
        level = slopes[shares > 0.0].mean()
        np.testing.assert_allclose(slopes[shares > 0.0], level, atol=1e-10)
        assert (slopes[shares <= 0.0] <= level + 1e-10).all()


def test_em_takes_it_if_asked_and_stops_early_if_not() -> None:
    mechanism = LocalHashing(1.0, 60)
    attribute = Attribute(
        "x", Categories(tuple(map(str, range(60)))), 0, (ServiceVersion("s", "", mechanism),)
    )
    rng = np.random.default_rng(8)
    reports = mechanism.perturb(rng.choice(60, 20_000, p=shares_of("tail", 60)), rng)
    statistic = tally(attribute, 20_000, [Answers(0, np.arange(20_000), reports)])
    early = estimate("em", attribute, statistic)
    best = estimate("em", attribute, statistic, options={"accelerated": True})
    fit = solved(mechanism.channel(60, 0), statistic.histograms[0].astype(np.float64))
    assert best.distribution is not None
    assert best.distribution.tobytes() == fit.weights.tobytes()
    assert best.converged
    assert best.n_iterations is not None
    assert early.n_iterations is not None
    assert best.n_iterations < early.n_iterations
    assert best.log_likelihoods is not None
    assert early.log_likelihoods is not None
    assert best.log_likelihoods[-1] > early.log_likelihoods[-1]
