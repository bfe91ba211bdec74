"""GRR, generalised randomised response (Wang et al., USENIX Security 2017)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel, DiagonalChannel
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.mechanism import Uniforms, WholeReports
from ldpbeam.mechanisms.registry import register


@register
@dataclasses.dataclass(frozen=True)
class RandomisedResponse(WholeReports, CategoricalMechanism):
    """A report of the category itself with probability p = E/(E+d-1), of each other one with q = 1/(E+d-1).

    Here d is the number of categories and E = exp(epsilon). The unbiased frequency of a category with C of n
    reports is (C/n - q)/(p - q); its variance is (d-2+E)/((E-1)^2 n) for a rare category.
    """

    name = "grr"
    summary = "GRR: the category itself or any other; best for few categories"

    @property
    def support_probabilities(self) -> tuple[float, float]:
        """(p, q): the probabilities of the category itself, and of each other one."""
        growth = math.exp(self.epsilon)
        q = 1.0 / (growth + self.size - 1.0)
        return growth * q, q

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """The category that each report names."""
        return np.asarray(payloads.astype(np.int64)[:, None] == np.arange(self.size))

    @property
    def name_channel(self) -> DiagonalChannel:
        """P(report | category): p on the diagonal, q elsewhere."""
        return DiagonalChannel(self.size, *self.support_probabilities)

    @property
    def cells_of_each(self) -> int:
        """One: the reports of it."""
        return 1

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per category index, shape (n,)."""
        index = np.asarray(values, dtype=np.int64)
        keep = uniforms.random(index.size) < self.support_probabilities[0]
        draw = np.floor(uniforms.random(index.size) * (self.size - 1)).astype(np.int64)
        other_category = draw + (draw >= index)
        return np.where(keep, index, other_category).astype(np.uint32)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: one per category."""
        return self.size

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """The ``name_channel``."""
        return self.name_channel

    @property
    def frequency_variance(self) -> float:
        """(d - 2 + E) / (E - 1)^2."""
        growth = math.exp(self.epsilon)
        return (self.size - 2.0 + growth) / (growth - 1.0) ** 2

    def output(self) -> str:
        """The range of the indexes, in words."""
        return f"the index of a category, 0 to {self.size - 1}"


def epsilon_of_rate(rate: float, size: int) -> float:
    """The epsilon of clients that replace their category by one drawn from all, the true one included.

    A report has its own category with probability 1 - rate + rate/size and each other one with rate/size, so
    these are reports of GRR. Of two categories it is ln(2/rate - 1).

    Args:
        rate: the probability with which a client replaces its category, in (0, 1).
        size: the number of categories.
    """
    return math.log1p(size * (1.0 - rate) / rate)
