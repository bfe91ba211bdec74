"""A package outside of ldpbeam with a mechanism and an estimator.

The mechanism is randomised response of people who may say nothing. The estimator draws unbiased shares
towards each other, as if some more people had been asked, and each category were as frequent among them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.channels import Channel, DenseChannel, DiagonalChannel
from ldpbeam.estimators import AboveZero, Estimate, Estimator, Question
from ldpbeam.mechanisms import CategoricalMechanism, Uniforms, WholeReports


@dataclasses.dataclass(frozen=True)
class Shy(WholeReports, CategoricalMechanism):
    """Nothing with chance s; else the category itself, E times as likely as any other.

    Here E = exp(epsilon) and d is the number of categories. A category is reported with probability
    p = (1 - s) E / (E + d - 1) by those who have it and q = (1 - s) / (E + d - 1) by others, nothing (the
    index d) with probability s by everybody. The unbiased share of a category that C of n report is
    (C/n - q) / (p - q).

    Attributes:
        silence: s, the chance of a report that says nothing, above 0 and below 1.
    """

    name = "shy"
    summary = "randomised response of people who may say nothing"

    silence: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.silence < 1:
            raise ValueError(f"silence must be above 0 and below 1, found {self.silence}")

    @property
    def support_probabilities(self) -> tuple[float, float]:
        """(p, q): of a category, from those who have it and from others."""
        other = (1 - self.silence) / (math.exp(self.epsilon) + self.size - 1)
        return math.exp(self.epsilon) * other, other

    @property
    def name_channel(self) -> DiagonalChannel:
        """P(named category | category), given that the report says anything."""
        own, other = self.support_probabilities
        return DiagonalChannel(self.size, own / (1 - self.silence), other / (1 - self.silence))

    def named(self, histogram: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts without those of nothing."""
        return histogram[: self.size]

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """Reports of category indexes, shape (n,)."""
        index = np.asarray(values, dtype=np.int64)
        own, other = self.support_probabilities
        draw = uniforms.random(len(index))
        shift = 1 + np.floor(uniforms.random(len(index)) * (self.size - 1)).astype(np.int64)
        others = (index + shift) % self.size
        spoken = np.where(draw < own, index, others)
        silent = draw >= own + (self.size - 1) * other
        return np.where(silent, self.size, spoken).astype(np.uint32)

    def cells(self, resolution: int) -> int:
        """The categories, and nothing."""
        return self.size + 1

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """The matrix, shape (d + 1, d)."""
        own, other = self.support_probabilities
        matrix = np.full((self.size + 1, self.size), other)
        np.fill_diagonal(matrix, own)
        matrix[self.size] = self.silence
        return DenseChannel(matrix)

    def output(self) -> str:
        """The indexes."""
        return f"the index of a category, 0 to {self.size - 1}, or {self.size} for nothing"


def drawn_together(question: Question, *, people: AboveZero = 100.0) -> Estimate:
    """Unbiased shares f of n reports, drawn towards 1/d: (n f + m/d) / (n + m), m being ``people``."""
    (version,) = question.versions
    mechanism = question.attribute.versions[version].mechanism
    reports = question.reports
    shares = mechanism.unbiased_frequencies(question.statistic.histograms[version], reports)
    return question.answer_distribution(
        "drawn_together", (reports * shares + people / len(shares)) / (reports + people)
    )


def check_drawn_together(attribute: Attribute, services: Sequence[str]) -> None:
    """Refuse all but one service, without versions, whose mechanism is of categories."""
    versions = attribute.versions_of(services)
    if len(versions) != 1 or not isinstance(attribute.versions[versions[0]].mechanism, CategoricalMechanism):
        raise ValueError("drawn_together answers for one service with a mechanism of categories")


DRAWN_TOGETHER = Estimator(
    "drawn_together", "unbiased shares, drawn towards each other", drawn_together, check_drawn_together
)
