"""ULE with ``accelerated: true`` against many plain updates, and the conditions of a maximum."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from support.joint_forms import FORMS, take_form
from support.joint_users import ask

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.estimators import Question, curvature, estimate
from ldpbeam.estimators.iteration import smooth
from ldpbeam.estimators.joint_likelihood import JointLikelihood
from ldpbeam.mechanisms import Laplace, Mechanism, Piecewise, SquareWave, StochasticRounding
from ldpbeam.statistics import Statistic, tally

Floats = NDArray[np.float64]


def asked_of(mechanisms: list[Mechanism], buckets: int, users: int, seed: int) -> tuple[Attribute, Statistic]:
    versions = tuple(ServiceVersion(f"s{i}", "", mechanism) for i, mechanism in enumerate(mechanisms))
    names = tuple(version.service for version in versions)
    attribute = Attribute("x", Numeric(0.0, 1.0), buckets, versions, names, 16)
    return attribute, tally(attribute, users, ask(attribute, users, seed, answering=0.8))


CASES: dict[str, tuple[list[Mechanism], int, int]] = {
    "low epsilon": ([StochasticRounding(0.3), Piecewise(0.3), SquareWave(0.3)], 32, 2000),
    "high epsilon": ([Laplace(8.0), SquareWave(6.0), Piecewise(4.0)], 64, 3000),
    "two users": ([SquareWave(1.0), Laplace(1.0)], 16, 2),
    "two buckets": ([SquareWave(1.0), StochasticRounding(1.0)], 2, 500),
    "more buckets than blocks": ([SquareWave(2.0), Piecewise(2.0)], 300, 4000),
}


def plainly_updated(attribute: Attribute, statistic: Statistic, weights: Floats, smoothing: bool) -> Floats:
    likelihood = JointLikelihood(Question(attribute, statistic, attribute.services))
    counts, products = likelihood.counts.astype(np.float64), likelihood.products
    updated = weights * products.backward(counts / products.forward(weights)) / counts.sum()
    return smooth(updated) if smoothing else updated


@pytest.mark.parametrize("smoothing", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_further_plain_update_changes_nothing(case: str, smoothing: bool) -> None:
    mechanisms, buckets, users = CASES[case]
    attribute, statistic = asked_of(mechanisms, buckets, users, 1)
    found = estimate("ule", attribute, statistic, options={"accelerated": True, "smooth": smoothing})
    assert found.converged
    assert found.n_iterations <= 30
    weights = found.distribution
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        plainly_updated(attribute, statistic, weights, smoothing), weights, rtol=0.0, atol=1e-8
    )
    if not smoothing:
        plain = estimate(
            "ule", attribute, statistic, options={"smooth": False, "tolerance": 1e-6, "max_iterations": 3000}
        )
        assert found.log_likelihoods[-1] >= plain.log_likelihoods[-1] - 1e-6


@pytest.mark.parametrize("form", FORMS)
def test_plain_updates_end_where_the_accelerated_ones_do(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, statistic = asked_of(CASES["high epsilon"][0], 16, 400, 2)
    take_form(form, 16, monkeypatch)
    options = {"tolerance": 1e-13, "max_iterations": 20_000}
    plain = estimate("ule", attribute, statistic, options=options).distribution
    found = estimate("ule", attribute, statistic, options={"accelerated": True})
    assert found.n_iterations <= 12
    np.testing.assert_allclose(found.distribution, plain, atol=1e-6)


@pytest.mark.parametrize("smoothing", [True, False])
def test_a_small_sample_for_the_curvature_leads_to_the_same_point(
    smoothing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attribute, statistic = asked_of(CASES["low epsilon"][0], 32, 5000, 3)
    options = {"accelerated": True, "smooth": smoothing}
    whole = estimate("ule", attribute, statistic, options=options)
    monkeypatch.setattr(curvature, "SAMPLE", 400)
    monkeypatch.setattr(curvature, "BLOCKS_OF_USERS", 20)
    sampled = estimate("ule", attribute, statistic, options=options)
    assert sampled.converged
    assert whole.n_iterations <= sampled.n_iterations <= 40
    if smoothing:
        np.testing.assert_allclose(sampled.distribution, whole.distribution, atol=1e-5)
    assert sampled.log_likelihoods[-1] == pytest.approx(whole.log_likelihoods[-1], abs=0.01)


def test_too_few_iterations_are_a_warning_and_too_many_buckets_an_error() -> None:
    attribute, statistic = asked_of(CASES["low epsilon"][0], 32, 2000, 1)
    short = estimate("ule", attribute, statistic, options={"accelerated": True, "max_iterations": 2})
    assert not short.converged
    assert any("raise max_iterations" in warning for warning in short.warnings)
    attribute, statistic = asked_of([SquareWave(1.0)], 4097, 10, 1)
    with pytest.raises(ValueError, match="at most 4,096 value buckets, found 4,097"):
        estimate("ule", attribute, statistic, options={"accelerated": True})
