"""Mixture reduction against loops, on planted truths, and where merging is exactly right."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.asked import attribute_of, categories, question_of

from ldpbeam import Numeric
from ldpbeam.channels import Channel, DenseChannel, ReducedChannel
from ldpbeam.domains import Integers, KeyValues
from ldpbeam.estimators import Question
from ldpbeam.estimators.em import em, ems
from ldpbeam.estimators.mixture_reduction.merging import reduce_mixture
from ldpbeam.estimators.mixture_reduction.mr import check_mr, mr
from ldpbeam.mechanisms import (
    HadamardRandomisedResponse,
    LocalHashing,
    Mechanism,
    OptimisedUnaryEncoding,
    RandomisedResponse,
    SquareWave,
    SymmetricUnaryEncoding,
)
from ldpbeam.metrics import mean_absolute_error

Floats = NDArray[np.float64]
UNIT = Numeric(0.0, 1.0)


def of_categories(truth: Floats, mechanism: Mechanism, users: int, seed: int) -> Question:
    rng = np.random.default_rng(seed)
    values = np.repeat(np.arange(len(truth)), rng.multinomial(users, truth))
    return question_of(attribute_of(categories(len(truth)), mechanism), values, rng)


def brute_force(
    matrix: Floats,
    counts: Integers,
    groups: list[list[int]],
    *,
    threshold: float,
    strategy: str,
    least: int,
    tolerance: float,
) -> tuple[list[float], list[int], list[float]]:
    """(weights of categories, components of each stage, BICs): Algorithm 1 by loops, lists of categories."""
    n = sum(counts)

    def expectation_maximisation(groups: list[list[int]], weights: list[float]) -> tuple[list[float], float]:
        columns = np.column_stack([matrix[:, group].mean(axis=1) for group in groups])
        last = -math.inf
        while True:
            joint = columns * weights
            likelihood = float(counts @ np.log(joint.sum(axis=1)))
            if likelihood - last < tolerance:
                return weights, -2 * likelihood + (len(groups) - 1) * math.log(n)
            last = likelihood
            weights = (counts @ (joint / joint.sum(axis=1, keepdims=True)) / n).tolist()

    categories = sum(len(group) for group in groups)
    weights, bic = expectation_maximisation(groups, [len(group) / categories for group in groups])
    components, bics = [len(groups)], [bic]
    while len(groups) > least:
        share = weights
        if strategy == "pool":
            share = [weight / len(group) for group, weight in zip(groups, weights, strict=True)]
        below = sorted((g for g in range(len(groups)) if share[g] < threshold), key=lambda g: share[g])
        many = 2 if strategy == "greedy" else max(2, math.ceil(len(below) / 2))
        chosen = below[: min(many, len(groups) - least + 1)]
        if len(chosen) < 2:
            break
        others = [g for g in range(len(groups)) if g not in chosen]
        new_groups = [groups[g] for g in others] + [[k for g in chosen for k in groups[g]]]
        start = [weights[g] for g in others] + [sum(weights[g] for g in chosen)]
        new_weights, new_bic = expectation_maximisation(new_groups, start)
        components.append(len(new_groups))
        bics.append(new_bic)
        if new_bic > bic:
            break
        groups, weights, bic = new_groups, new_weights, new_bic
    spread = [0.0] * categories
    for group, weight in zip(groups, weights, strict=True):
        for k in group:
            spread[k] = weight / len(group)
    return spread, components, bics


TRUTH = np.array([0.4, 0.25, 0.1, 0.05, 0.05, 0.03, 0.03, 0.03, 0.02, 0.02, 0.01, 0.01])
ORACLES = {"grr": RandomisedResponse(1.5, size=12), "hadamard": HadamardRandomisedResponse(1.5, size=12)}


@pytest.mark.parametrize(
    ("oracle", "strategy", "pre_merge"),
    [
        ("grr", "halving", False), ("grr", "greedy", True), ("grr", "pool", False),
        ("hadamard", "halving", True), ("hadamard", "greedy", False), ("hadamard", "pool", True),
    ],
)  # fmt: skip
def test_categories_equal_those_of_loops(oracle: str, strategy: str, pre_merge: bool) -> None:
    mechanism = ORACLES[oracle]
    question = of_categories(TRUTH, mechanism, 2_000, 5)
    counts = question.statistic.histograms[0]
    answer = mr(question, strategy=strategy, pre_merge=pre_merge, tolerance=0.01)
    groups = [[k] for k in range(12)]
    if pre_merge:
        shares = mechanism.unbiased_frequencies(counts, 2_000)
        negative = [k for k in range(12) if shares[k] < 0]
        assert len(negative) >= 2
        groups = [[k] for k in range(12) if k not in negative] + [negative]
    expected, components, bics = brute_force(
        mechanism.channel(12, 12).dense(), counts, groups,
        threshold=2 * math.sqrt(mechanism.frequency_variance / 2_000), strategy=strategy, least=3,
        tolerance=0.01,
    )  # fmt: skip
    assert answer.details["components"] == components
    assert len(components) > 2
    assert answer.details["undone"] == (bics[-1] > bics[-2])
    np.testing.assert_allclose(answer.distribution, expected, atol=1e-12)


def test_of_negative_shares_the_lowest_are_merged_first_and_no_more_than_may_be() -> None:
    mechanism = RandomisedResponse(0.5, size=30)
    question = of_categories(np.full(30, 1 / 30), mechanism, 3_000, 0)
    shares = mechanism.unbiased_frequencies(question.statistic.histograms[0], 3_000)
    assert (shares < 0).sum() > 4
    answer = mr(question, pre_merge=True, keep=0.9)
    assert answer.details["components"] == [27]
    weights = answer.distribution
    order = np.argsort(shares)
    assert len(np.unique(weights[order[:4]])) == 1
    assert weights[order[4]] != weights[order[0]]


def test_a_merge_that_raises_the_bic_is_undone() -> None:
    """Two categories of shares 0.3 and 0.02 are merged by force: no penalty makes up for that."""
    mechanism = RandomisedResponse(4.0, size=4)
    channel = mechanism.channel(4, 4)
    counts = np.rint(1e5 * channel.dense() @ np.array([0.3, 0.48, 0.2, 0.02]))

    def choose(weights: Floats, sizes: Integers, at_most: int) -> Integers:
        return np.array([0, 3])

    reduced = reduce_mixture(
        channel, counts, choose, reports=100_000, least=1, smoothing=False, tolerance=1e-6,
        max_iterations=1_000,
    )  # fmt: skip
    assert reduced.undone
    before, after = reduced.stages
    assert after.bic > before.bic
    assert reduced.components == (4, 3)
    np.testing.assert_array_equal(reduced.labels, np.arange(4))
    # EM's weights before the merge, and these are the truth to the rounding of the counts.
    np.testing.assert_allclose(reduced.weights, before.fit.weights, atol=1e-15)
    np.testing.assert_allclose(reduced.weights, [0.3, 0.48, 0.2, 0.02], atol=1e-4)


CHANNELS: dict[str, Channel] = {
    "grr": RandomisedResponse(1.0, size=12).channel(12, 12),
    "hadamard": HadamardRandomisedResponse(1.0, size=12).channel(12, 12),
    "square wave": SquareWave(1.0).channel(12, 20),
    "no structure": DenseChannel(np.random.default_rng(0).dirichlet(np.ones(7), 12).T),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_reduced_products_equal_those_of_averaged_columns(name: str) -> None:
    channel = CHANNELS[name]
    labels = np.array([0, 1, 1, 2, 0, 3, 3, 3, 2, 4, 0, 1])
    reduced = ReducedChannel(channel, labels)
    matrix = np.column_stack([channel.dense()[:, labels == g].mean(axis=1) for g in range(5)])
    rng = np.random.default_rng(0)
    weights, ratios = rng.random(5), rng.random(channel.shape[0])
    np.testing.assert_allclose(reduced.dense(), matrix, atol=1e-15)
    np.testing.assert_allclose(reduced.matvec(weights), matrix @ weights, atol=1e-14)
    np.testing.assert_allclose(reduced.rmatvec(ratios), matrix.T @ ratios, atol=1e-14)
    np.testing.assert_allclose(reduced.dense().sum(axis=0), 1.0, atol=1e-12)


def test_a_smaller_least_share_merges_on() -> None:
    question = of_categories(np.full(40, 1 / 40), RandomisedResponse(0.5, size=40), 3_000, 0)
    assert mr(question, strategy="halving").details["components"][-1] == 10
    assert mr(question, strategy="pool", keep=0.1).details["components"][-1] == 4
    assert mr(question, keep=1.0).details["components"] == [40]


MERGING: list[tuple[dict[str, Any], str, float]] = [
    ({}, "pool", 0.01),
    ({"tolerance": 1e-3, "max_iterations": 5_000, "accelerated": False}, "pool", 0.01),
    ({"strategy": "pool"}, "pool", 0.25),
    ({"strategy": "greedy"}, "greedy", 0.25),
    ({"keep": 0.1}, "halving", 0.1),
    ({"deviations": 2.0}, "halving", 0.25),
    ({"pre_merge": True}, "halving", 0.25),
]


@pytest.mark.parametrize(("given", "strategy", "keep"), MERGING)
def test_an_option_of_merging_makes_the_others_as_published(
    given: dict[str, Any], strategy: str, keep: float
) -> None:
    question = of_categories(TRUTH, RandomisedResponse(1.0, size=12), 3_000, 4)
    answer = mr(question, **given)
    assert (answer.details["strategy"], answer.details["keep"]) == (strategy, keep)
    explicit = mr(question, **{**given, "strategy": strategy, "keep": keep})
    np.testing.assert_array_equal(answer.distribution, explicit.distribution)
    assert answer.details == explicit.details


def test_without_merges_it_is_em_and_ems() -> None:
    question = of_categories(TRUTH, RandomisedResponse(2.0, size=12), 5_000, 0)
    np.testing.assert_allclose(mr(question, keep=1.0).distribution, em(question).distribution, atol=1e-12)
    rng = np.random.default_rng(0)
    numbers = question_of(attribute_of(UNIT, SquareWave(1.0), buckets=32), rng.beta(2, 5, 2_000), rng)
    np.testing.assert_allclose(mr(numbers, keep=1.0).distribution, ems(numbers).distribution, atol=1e-12)


def test_services_are_stacked_and_called_a_composite_likelihood() -> None:
    rng = np.random.default_rng(0)
    truth = np.r_[0.5, np.full(10, 0.05)]
    values = rng.choice(11, 5_000, p=truth)
    attribute = attribute_of(
        categories(11), RandomisedResponse(1.0, size=11), HadamardRandomisedResponse(2.0, size=11)
    )
    question = question_of(attribute, values, rng)
    answer = mr(question)
    assert "composite" in answer.details["likelihood"]
    precision = sum(5_000 / v.mechanism.frequency_variance for v in attribute.versions)  # type: ignore[attr-defined]
    assert answer.details["threshold"] == pytest.approx(2 * precision**-0.5)
    alone = mr(dataclasses.replace(question, services=("s0",)))
    assert "likelihood" not in alone.details
    errors = [mean_absolute_error(estimate.distribution, truth) for estimate in (answer, alone)]
    # The second service has over three times the first one's precision: about half of its error.
    assert errors[0] < 0.75 * errors[1]


@pytest.mark.parametrize(
    ("mechanism", "composite"),
    [
        (OptimisedUnaryEncoding(2.0, size=12), True),
        (SymmetricUnaryEncoding(2.0, size=12), True),
        (LocalHashing(2.0, size=12, seeds="any"), True),
        (LocalHashing(2.0, size=12, seeds=64), False),
        (RandomisedResponse(2.0, size=12), False),
        (HadamardRandomisedResponse(2.0, size=12), False),
    ],
)
def test_merging_unary_encodings_as_published_says_to_use_em(mechanism: Mechanism, composite: bool) -> None:
    question = of_categories(TRUTH, mechanism, 5_000, 0)
    sentence = "for unary encodings em is more accurate than this merging: use em, or strategy: pool"
    assert mr(question, strategy="halving").warnings == ((sentence,) if composite else ())
    answer = mr(question)
    assert answer.warnings == ()
    assert ("composite" in answer.details) == composite
    assert "likelihood" not in answer.details
    # Categories are stopped as em stops them; accelerated unasked where the counts of a report are many.
    assert answer.details["tolerance"] == em(question).details["tolerance"] == 1e-3
    explicit = mr(question, accelerated=composite, tolerance=1e-3)
    np.testing.assert_array_equal(explicit.distribution, answer.distribution)
    assert mr(question, accelerated=not composite).n_iterations != answer.n_iterations


def test_running_out_of_iterations_is_said() -> None:
    question = of_categories(TRUTH, RandomisedResponse(1.0, size=12), 5_000, 0)
    seen: list[int] = []
    answer = mr(
        dataclasses.replace(question, progress=lambda iteration, _: seen.append(iteration)), max_iterations=3
    )
    assert seen == list(range(1, answer.n_iterations + 1))
    assert sum(answer.details["stage_iterations"]) == answer.n_iterations == len(answer.log_likelihoods)
    assert not answer.converged
    assert "not converged after 3 iterations" in answer.warnings[0]
    assert max(answer.details["stage_iterations"]) == 3


def test_what_it_cannot_answer_is_refused() -> None:
    attribute = attribute_of(UNIT, SquareWave(1.0), buckets=8)
    check_mr(attribute, attribute.services)
    pairs = dataclasses.replace(attribute, domain=KeyValues(("a", "b"), UNIT))
    with pytest.raises(ValueError, match="of categories or of a numeric range"):
        check_mr(pairs, pairs.services)
