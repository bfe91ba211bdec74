"""The Laplace mechanism (Dwork et al., TCC 2006; multi-service paper, section 2.2)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel, LaplaceChannel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.mechanism import NumericMechanism, Uniforms
from ldpbeam.mechanisms.registry import register

#: A sound client's report lies further out than this many scales once in 10^19 times.
FARTHEST = 44.0


@register
@dataclasses.dataclass(frozen=True)
class Laplace(NumericMechanism):
    """A report v + noise of v = 2x - 1, the noise of scale 2/epsilon.

    Unbiased for v, with variance 8/epsilon^2. The likelihood of v depends on a report only through
    the report clamped to [-1, 1], so the clamped report is sufficient: its buckets are equal cells of
    [-1, 1] and two end cells. The multi-service paper truncates instead (section 4.2), or leaves
    Laplace out of ULE; neither is needed.
    """

    name = "laplace"
    summary = "Laplace noise on the value: unbiased; the classical baseline"

    @property
    def scale(self) -> float:
        """The noise's scale on [-1, 1]."""
        return 2.0 / self.epsilon

    @property
    def report_range(self) -> tuple[float, float]:
        """The real line, cut where no sound client's report lies."""
        farthest = 1.0 + FARTHEST * self.scale
        return -farthest, farthest

    @property
    def variance_polynomial(self) -> tuple[float, float, float]:
        """A quarter of 8/epsilon^2."""
        return 2.0 / self.epsilon**2, 0.0, 0.0

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """Reports of values in [0, 1]."""
        v = 2.0 * np.asarray(values, dtype=np.float64) - 1.0
        sign = np.where(uniforms.random(v.size) < 0.5, -1.0, 1.0)
        # 1 - u lies in (0, 1], so the logarithm is finite: at most 53 ln 2 = 36.7 scales.
        size = -np.log(1.0 - uniforms.random(v.size))
        return v + self.scale * sign * size

    def cells(self, resolution: int) -> int:
        """The equal cells of [-1, 1] and two end cells."""
        return resolution + 2

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """0 below -1, ``resolution + 1`` above 1."""
        position = np.floor((payloads + 1.0) * (0.5 * resolution)) + 1.0
        index = np.clip(position, 0, resolution + 1).astype(np.int64)
        index[payloads == 1.0] = resolution
        return index

    def representatives(self, resolution: int) -> Floats:
        """Midpoints; beyond an end the excess is exponential whatever the value, so 1 + scale."""
        inner = (np.arange(resolution) + 0.5) * (2.0 / resolution) - 1.0
        end = 1.0 + self.scale
        return np.concatenate(([-end], inner, [end]))

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """Exponential recursions on the unit interval, where the scale is 1/epsilon."""
        return LaplaceChannel(value_buckets, resolution, 0.5 * self.scale)

    def output(self) -> str:
        """Any number."""
        return f"a number, within {self.report_range[1]:.6g} of 0"
