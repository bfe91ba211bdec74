"""Users who told several services, and ULE by a loop over users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam import Attribute, Estimate
from ldpbeam.estimators import Question
from ldpbeam.estimators.iteration import smooth
from ldpbeam.estimators.ule import ule
from ldpbeam.statistics import Answers, Statistic

Floats = NDArray[np.float64]


def ask(
    attribute: Attribute,
    users: int,
    seed: int,
    answering: float = 0.6,
    shares: Floats | None = None,
    values: NDArray[Any] | None = None,
) -> list[Answers]:
    """Users of Beta(2, 5), of shares or of values, each answering any services, one version of each."""
    rng = np.random.default_rng(seed)
    if values is None:
        values = rng.beta(2, 5, users) if shares is None else rng.choice(len(shares), users, p=shares)
    answers = []
    for service in attribute.services:
        indexes = attribute.versions_of([service])
        answered = rng.random(users) < answering
        version = rng.choice(indexes, users)
        for index in indexes:
            rows = np.flatnonzero(answered & (version == index))
            mechanism = attribute.versions[index].mechanism
            answers.append(Answers(index, rows, mechanism.perturb(values[rows], rng)))
    return answers


def brute_force(
    attribute: Attribute,
    users: int,
    answers: Sequence[Answers],
    services: Sequence[str],
    iterations: int,
    smoothing: bool,
) -> tuple[Floats, list[float]]:
    """(weights, log-likelihood before each update), by a loop over users."""
    likelihoods = np.ones((users, attribute.value_buckets))
    answered = np.zeros(users, dtype=bool)
    for answer in answers:
        version = attribute.versions[answer.version]
        if version.service not in services:
            continue
        channel = version.mechanism.channel(
            attribute.value_buckets, attribute.joint_resolution(answer.version)
        )
        matrix = channel.dense()
        buckets = version.mechanism.bucketise(answer.payloads, attribute.joint_resolution(answer.version))
        for row, bucket in zip(answer.rows, buckets, strict=True):
            likelihoods[row] *= matrix[bucket]
            answered[row] = True
    weights = np.full(attribute.value_buckets, 1 / attribute.value_buckets)
    trace = []
    for _ in range(iterations):
        updated, total = np.zeros_like(weights), 0.0
        for user in np.flatnonzero(answered):
            posterior = likelihoods[user] * weights
            total += math.log(posterior.sum())
            updated += posterior / posterior.sum()
        trace.append(total)
        updated = smooth(updated) if smoothing else updated
        weights = updated / updated.sum()
    return weights, trace


def iterate(
    attribute: Attribute,
    statistic: Statistic,
    services: Sequence[str],
    iterations: int,
    smoothing: bool = True,
) -> Estimate:
    """ULE stopped after exactly so many iterations."""
    question = Question(attribute, statistic, tuple(services))
    return ule(question, smooth=smoothing, tolerance=-math.inf, max_iterations=iterations)
