"""ULE of categories: GRR, OLH, OUE and Hadamard response joined by user, against a loop over users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import xxhash
from numpy.typing import NDArray
from support.joint_users import ask, iterate

from ldpbeam import Attribute, Categories, ServiceVersion
from ldpbeam.estimators import estimate
from ldpbeam.mechanisms import (
    HadamardRandomisedResponse,
    LocalHashing,
    Mechanism,
    OptimisedUnaryEncoding,
    RandomisedResponse,
)
from ldpbeam.statistics import Answers, tally

Floats = NDArray[np.float64]

SIZE = 6
NAMES = ("grr", "olh", "oue", "hadamard")
FOUR = Attribute(
    "colour",
    Categories(tuple("abcdef")),
    buckets=256,
    versions=(
        ServiceVersion("grr", "", RandomisedResponse(1.0, size=SIZE)),
        ServiceVersion("olh", "old", LocalHashing(0.5, size=SIZE, seeds=16)),
        ServiceVersion("olh", "new", LocalHashing(1.5, size=SIZE, seeds=32)),
        ServiceVersion("oue", "", OptimisedUnaryEncoding(1.0, size=SIZE)),
        ServiceVersion("hadamard", "", HadamardRandomisedResponse(1.0, size=SIZE)),
    ),
    joint_services=NAMES,
    joint_buckets=2,
)
TRUTH = np.array([0.4, 0.25, 0.2, 0.1, 0.05, 0.0])


def likelihood_of(mechanism: Mechanism, report: Any) -> list[float]:
    """P(report | category) of each category, from what each mechanism is said to do."""
    E = math.exp(mechanism.epsilon)
    if isinstance(mechanism, RandomisedResponse):
        return [(E if int(report) == k else 1.0) / (E + SIZE - 1) for k in range(SIZE)]
    if isinstance(mechanism, LocalHashing):
        g, (seed, sent) = round(E) + 1, report.tolist()
        own = [xxhash.xxh32_intdigest(k.to_bytes(4, "little"), seed) % g == sent for k in range(SIZE)]
        return [(E if hit else 1.0) / (E + g - 1) / int(mechanism.seeds) for hit in own]
    if isinstance(mechanism, OptimisedUnaryEncoding):
        bits, q = bytes(report)[0], 1 / (E + 1)
        others = [q if bits >> k & 1 else 1 - q for k in range(SIZE)]
        return [0.5 * math.prod(others) / others[k] for k in range(SIZE)]
    assert isinstance(mechanism, HadamardRandomisedResponse)
    row, plus = divmod(int(report), 2)
    agree = [((row & k).bit_count() % 2 == 0) == bool(plus) for k in range(SIZE)]
    return [(E if one else 1.0) / (E + 1) / 8 for one in agree]


def by_loop(
    attribute: Attribute, users: int, answers: Sequence[Answers], services: Sequence[str], iterations: int
) -> tuple[Floats, list[float]]:
    """(weights, log-likelihood before each update) of EM over users."""
    likelihoods, answered = np.ones((users, SIZE)), np.zeros(users, dtype=bool)
    for answer in answers:
        version = attribute.versions[answer.version]
        if version.service in services:
            for row, report in zip(answer.rows, answer.payloads, strict=True):
                likelihoods[row] *= likelihood_of(version.mechanism, report)
                answered[row] = True
    weights, trace = np.full(SIZE, 1 / SIZE), []
    for _ in range(iterations):
        posteriors = likelihoods[answered] * weights
        trace.append(float(np.log(posteriors.sum(axis=1)).sum()))
        weights = (posteriors / posteriors.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights, trace


@pytest.mark.parametrize(
    ("services", "answering"),
    [
        *(((name,), 0.5) for name in NAMES),
        (("grr", "olh"), 1.0), (("hadamard", "oue"), 0.5), (("oue", "olh", "grr"), 0.5), (NAMES, 1.0),
    ],
)  # fmt: skip
def test_ule_equals_a_loop_over_users(services: tuple[str, ...], answering: float) -> None:
    users, iterations = 120, 25
    answers = ask(FOUR, users, 1, answering, TRUTH)
    found = iterate(FOUR, tally(FOUR, users, answers), services, iterations, smoothing=False)
    weights, trace = by_loop(FOUR, users, answers, services, iterations)
    # No smoothing: categories have no neighbours.
    np.testing.assert_allclose(found.distribution, weights, atol=1e-12)
    np.testing.assert_allclose(found.log_likelihoods, trace, rtol=1e-12)
    asked = [FOUR.versions[answer.version].service in services for answer in answers]
    rows = [answer.rows for answer, one in zip(answers, asked, strict=True) if one]
    assert found.users == len(np.unique(np.concatenate(rows)))
    assert found.reports == sum(map(len, rows))
    if answering < 1 and len(services) < 3:
        assert found.users < users


def test_at_any_resolution_categories_keep_all_of_their_information() -> None:
    statistic = tally(FOUR, 300, ask(FOUR, 300, 4, 1.0, TRUTH))
    found = estimate("ule", FOUR, statistic)
    kept = found.details["information_kept"]
    assert set(kept) == {"grr", "olh@old", "olh@new", "oue", "hadamard"}
    assert list(kept.values()) == pytest.approx([1.0] * 5, abs=1e-12)


def test_the_joint_histogram_has_a_cell_for_every_report_and_none() -> None:
    # 6 categories; 16 seeds of 3 hashes and 32 of 5; 64 bit vectors; 8 rows of two signs; each one more.
    assert FOUR.joint_shape == (7, 1 + 16 * 3 + 32 * 5, 65, 17)
    for service in NAMES:
        axis = FOUR.joint_shape[FOUR.joint_services.index(service)]
        rows = FOUR.joint_likelihood(service, np.arange(axis))
        assert rows[0].tolist() == [1.0] * SIZE
        channels = len(FOUR.versions_of([service]))
        np.testing.assert_allclose(rows[1:].sum(axis=0), channels, rtol=1e-12)
