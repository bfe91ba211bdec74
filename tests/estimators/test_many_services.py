"""ULE over many services: the default resolution, and cells whose index takes several words."""

from __future__ import annotations

import numpy as np
from support.joint_users import ask

from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.estimators.joint_likelihood import marginal
from ldpbeam.mechanisms import Laplace, Mechanism, Piecewise, SquareWave, StochasticRounding
from ldpbeam.resolution import enough_buckets
from ldpbeam.statistics import tally

UNIT = Numeric(0.0, 1.0)


def many(services: int, buckets: int = 16, epsilon: float = 0.5) -> Attribute:
    """PM, SW, SR and Laplace in turn, each with the resolution that it needs."""
    turn: list[Mechanism] = [
        Piecewise(epsilon), SquareWave(epsilon), StochasticRounding(epsilon), Laplace(epsilon),
    ]  # fmt: skip
    versions = tuple(ServiceVersion(f"s{i}", "", turn[i % 4]) for i in range(services))
    return Attribute(
        "x", UNIT, buckets, versions, tuple(version.service for version in versions),
        tuple(enough_buckets(version.mechanism, 256) for version in versions),
    )  # fmt: skip


def test_a_row_per_user_has_what_the_user_sent() -> None:
    attribute, users = many(16), 300
    answers = ask(attribute, users, 3)
    expected = np.zeros((users, 16), dtype=np.int64)
    for answer in answers:
        mechanism = attribute.versions[answer.version].mechanism
        cells = mechanism.bucketise(answer.payloads, attribute.joint_resolution(answer.version))
        expected[answer.rows, answer.version] = 1 + cells
    digits, counts = marginal(attribute, tally(attribute, users, answers), attribute.services)
    assert digits.dtype == np.uint8
    found = np.repeat(digits.astype(np.int64), counts, axis=0)
    assert sorted(found.tolist()) == sorted(row for row in expected.tolist() if any(row))
