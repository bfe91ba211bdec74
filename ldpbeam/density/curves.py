"""Distributions from smooth curves: a curve is the ratio to a reference distribution, or its logarithm.

In some populations the log density is smooth: those with humps and tails. In others the density is, because a
part of the range has nobody or the distribution ends sharply: there the log density falls without bound, but
the density only to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ldpbeam.domains import Floats

Scale = Literal["log", "plain"]

#: On the plain scale the ratio is 1 plus the curve, softened where it is below this part of the reference.
SOFTNESS = 0.1


@dataclass(frozen=True)
class Curves:
    """Curves that are linear in their coefficients, as distributions over blocks of value buckets.

    Attributes:
        matrix: each block's height of the curve per unit of each coefficient, shape (blocks, coefficients).
        reference: the distribution of a curve of height zero, up to a factor, above zero, shape (blocks,).
        scale: ``log`` if the curve is the log of the ratio to the reference, up to a constant. ``plain`` if
            the ratio is in proportion to softplus(1 + curve), which is nearly 1 + curve above zero and nearly
            zero below.
    """

    matrix: Floats
    reference: Floats
    scale: Scale = "log"

    def shares(self, coefficients: Floats) -> Floats:
        """Distributions from coefficients, shape (coefficients, n) to (blocks, n)."""
        heights = self.matrix @ coefficients
        logs = heights if self.scale == "log" else log_softplus(heights)
        return normalised(logs + self._base)

    @cached_property
    def norms(self) -> Floats:
        """The length of each coefficient's column, above zero, shape (coefficients,)."""
        lengths: Floats = np.linalg.norm(self.matrix, axis=0)
        return np.maximum(lengths, np.finfo(np.float64).tiny)

    @cached_property
    def _base(self) -> Floats:
        return np.log(self.reference)[:, None]

    def derivatives(self, coefficients: Floats) -> tuple[Floats, Floats | float]:
        """(the log density's slopes by coefficient; its second derivatives by height plus slopes squared).

        The shapes are (blocks, coefficients) and (blocks,). The log density is without its constant.

        Args:
            coefficients: the coefficients, shape (coefficients,).
        """
        if self.scale == "log":
            return self.matrix, 1.0
        heights = self.matrix @ coefficients
        # softplus'/softplus, which tends to 1/SOFTNESS as both tend to zero.
        slope_of_softplus = -np.logaddexp(0.0, -(1.0 + heights) / SOFTNESS)
        first: Floats = np.exp(slope_of_softplus - log_softplus(heights))
        second: Floats = first * (-np.expm1(slope_of_softplus) / SOFTNESS - first)
        return first[:, None] * self.matrix, first**2 + second


def normalised(logs: Floats) -> Floats:
    """Distributions from logarithms up to a constant, shape (blocks, n) to (blocks, n)."""
    powers: Floats = np.exp(logs - logs.max(axis=0))
    powers /= powers.sum(axis=0)
    return powers


def log_softplus(heights: Floats) -> Floats:
    """The logarithm of softplus(1 + height), which is SOFTNESS log(1 + exp((1 + height) / SOFTNESS))."""
    raised = (1.0 + heights) / SOFTNESS
    # Far below zero softplus is the exponential function; computed directly, it would round to zero.
    inner = np.where(raised < -30.0, raised, np.log(np.logaddexp(0.0, np.maximum(raised, -30.0))))
    return inner + math.log(SOFTNESS)
