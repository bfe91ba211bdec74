"""One coordinate of a vector, sampled evenly and reported with the whole budget (Wang et al., ICDE 2019)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Domain, Integers, Vector
from ldpbeam.mechanisms.mechanism import Mechanism, Uniforms


@dataclasses.dataclass(frozen=True)
class SampledCoordinate(Mechanism):
    """A coordinate drawn evenly from all, and the report of its value by a mechanism for numbers.

    Which coordinate it is says nothing of the values, so the report spends the inner mechanism's epsilon; its
    reports are those of the inner mechanism from a random share 1/size of the people. Each coordinate is
    estimated on its own, as a numeric attribute with the inner mechanism's channel.

    Attributes:
        size: the number of coordinates.
        inner: the mechanism of the sampled value.
    """

    name = "sampled_coordinate"
    summary = "a mechanism for numbers, on one sampled coordinate of a vector"
    domain_type = Vector

    size: int
    inner: Mechanism

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, **options: Any) -> Mechanism:
        """The mechanism over the vector's coordinates."""
        assert isinstance(domain, Vector)
        return cls(epsilon=epsilon, size=domain.size, **options)

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the inner mechanism, and the number of coordinates."""
        return {"mechanism": self.name, "size": self.size, "inner": self.inner.parameters}

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """Four bytes of the coordinate's index, then the inner report."""
        return np.dtype([("coordinate", "<u4"), ("report", self.inner.payload_dtype.newbyteorder("<"))])

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """Reports of rows of a matrix (people, coordinates) in [0, 1]."""
        matrix = np.asarray(values, dtype=np.float64)
        reports = np.zeros(len(matrix), dtype=self.payload_dtype)
        reports["coordinate"] = np.floor(uniforms.random(len(matrix)) * self.size)
        own = matrix[np.arange(len(matrix)), reports["coordinate"].astype(np.int64)]
        reports["report"] = self.inner.perturb(own, uniforms)
        return reports

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads name a coordinate, and a report of the inner mechanism."""
        within: NDArray[np.bool_] = payloads["coordinate"] < self.size
        return within & self.inner.is_report(payloads["report"])

    def cells(self, resolution: int) -> int:
        """The inner mechanism's, for each coordinate."""
        return self.size * self.inner.cells(resolution)

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """Coordinate by coordinate."""
        first = payloads["coordinate"].astype(np.int64) * self.inner.cells(resolution)
        return first + self.inner.bucketise(payloads["report"], resolution)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """There is none of the whole vector.

        Raises:
            ValueError: always.
        """
        raise ValueError("a vector is estimated one coordinate at a time")

    def output(self) -> str:
        """The coordinate and the inner report."""
        return f"a coordinate's index below {self.size} (four bytes), then {self.inner.output()}"
