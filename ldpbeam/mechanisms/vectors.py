"""One coordinate of a vector, sampled uniformly, with the whole budget (Wang et al., ICDE 2019)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Integers, Vector
from ldpbeam.mechanisms.mechanism import Mechanism, Uniforms


@dataclasses.dataclass(frozen=True)
class SampledCoordinate(Mechanism):
    """A report of one coordinate, drawn uniformly, whose value a mechanism for numbers perturbs.

    Which coordinate is drawn does not depend on the values, so a report spends the inner mechanism's epsilon.
    A coordinate gets reports of the inner mechanism from a random share 1/size of the people. Coordinates are
    estimated separately, each as a numeric attribute with the inner mechanism's channel.

    Attributes:
        size: the number of coordinates.
        inner: the mechanism that perturbs the sampled value.
    """

    name = "sampled_coordinate"
    summary = "a mechanism for numbers, on one sampled coordinate of a vector"
    domain_type = Vector

    size: int
    inner: Mechanism

    @property
    def in_study(self) -> Mechanism:
        """The mechanism that perturbs the sampled value."""
        return self.inner

    @property
    def parameters(self) -> dict[str, Any]:
        """The number of coordinates, and the inner mechanism's parameters."""
        return {"mechanism": self.name, "size": self.size, "inner": self.inner.parameters}

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """The coordinate's index in four bytes, then the inner mechanism's report."""
        return np.dtype([("coordinate", "<u4"), ("report", self.inner.payload_dtype.newbyteorder("<"))])

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per row of a matrix of values in [0, 1], shape (people, size)."""
        matrix = np.asarray(values, dtype=np.float64)
        reports = np.zeros(len(matrix), dtype=self.payload_dtype)
        reports["coordinate"] = np.floor(uniforms.random(len(matrix)) * self.size)
        sampled = matrix[np.arange(len(matrix)), reports["coordinate"].astype(np.int64)]
        reports["report"] = self.inner.perturb(sampled, uniforms)
        return reports

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads have a coordinate's index and a possible report of the inner mechanism."""
        within: NDArray[np.bool_] = payloads["coordinate"] < self.size
        return within & self.inner.is_report(payloads["report"])

    def cells(self, resolution: int) -> int:
        """The inner mechanism's number of report buckets, times the number of coordinates."""
        return self.size * self.inner.cells(resolution)

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The inner mechanism's bucket, after the buckets of all coordinates with a lower index."""
        first = payloads["coordinate"].astype(np.int64) * self.inner.cells(resolution)
        return first + self.inner.bucketise(payloads["report"], resolution)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """Not available: a vector is estimated one coordinate at a time, with the inner mechanism's channel.

        Raises:
            ValueError: always.
        """
        raise ValueError("a vector is estimated one coordinate at a time")

    @property
    def title(self) -> str:
        """The inner mechanism's name for explanations, with "on a sampled coordinate"."""
        return f"{self.inner.name}, on a sampled coordinate,"

    def output(self) -> str:
        """The layout of the coordinate's index and the inner report, in words."""
        return f"a coordinate's index below {self.size} (four bytes), then {self.inner.output()}"
