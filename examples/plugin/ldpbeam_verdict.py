"""A mechanism for keys with values, outside of ldpbeam: a verdict on one key, by randomised response."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels import Channel, DenseChannel
from ldpbeam.domains import KeyValuePairs
from ldpbeam.mechanisms import KeySums, KeyValueMechanism, Uniforms

#: What is reported of a key.
GOOD, BAD, NOTHING = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class Verdict(KeyValueMechanism):
    """A verdict on one of d keys, drawn uniformly: good, bad, or nothing.

    A person with the key says good with probability x, its value on [0, 1], else bad; a person without it has
    nothing to say. This verdict is reported with probability p = E / (E + 2), and each of the two others with
    q = 1 / (E + 2), where E = exp(epsilon). The report is 3 key + verdict.
    """

    name = "verdict"
    summary = "randomised response of a verdict on one drawn key"

    @property
    def probabilities(self) -> tuple[float, float]:
        """(p, q): of the person's verdict, and of each other one."""
        other = 1 / (math.exp(self.epsilon) + 2)
        return math.exp(self.epsilon) * other, other

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """A whole number."""
        return np.dtype(np.uint32)

    def perturb(self, values: KeyValuePairs, uniforms: Uniforms) -> NDArray[Any]:
        """One report per person, shape (people,)."""
        keys = np.floor(uniforms.random(len(values)) * self.size).astype(np.int64)
        owner = np.repeat(np.arange(len(values)), np.diff(values.starts))
        good = uniforms.random(len(owner)) < values.values
        drawn = keys[owner] == values.keys
        verdict = np.full(len(values), NOTHING)
        verdict[owner[drawn]] = np.where(good, GOOD, BAD)[drawn]
        kept = uniforms.random(len(values)) < self.probabilities[0]
        shift = 1 + np.floor(uniforms.random(len(values)) * 2).astype(np.int64)
        return (3 * keys + np.where(kept, verdict, (verdict + shift) % 3)).astype(np.uint32)

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads are whole numbers from 0 to 3d - 1."""
        return np.asarray((payloads >= 0) & (payloads < 3 * self.size) & (payloads == np.floor(payloads)))

    def cells(self, resolution: int) -> int:
        """Three verdicts on each key."""
        return 3 * self.size

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> NDArray[np.int64]:
        """The report itself."""
        return payloads.astype(np.int64)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(report | key and verdict), shape (3d, 3d)."""
        own, other = self.probabilities
        block = np.full((3, 3), other) + (own - other) * np.eye(3)
        return DenseChannel(np.kron(np.eye(self.size), block))

    def key_sums(self, histogram: NDArray[np.int64], reports: int) -> KeySums:
        """The verdicts on each key, of the people who drew it."""
        counts = histogram.reshape(self.size, 3).astype(np.float64)
        own, other = self.probabilities
        present = counts[:, GOOD] + counts[:, BAD]
        return KeySums(
            asked=counts.sum(axis=1),
            present=present,
            sums=counts[:, GOOD] - counts[:, BAD],
            squares=present,
            own=own + other,
            other=2 * other,
            gain=(own - other) / (own + other),
            sampled=True,
        )

    def precisions(
        self, histogram: NDArray[np.int64], reports: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """N (p - q)^2 / (2q (1 - 2q)) and n (p - q)^2 / 2q for the n reports of each key."""
        asked = histogram.reshape(self.size, 3).sum(axis=1)
        own, other = self.probabilities
        told = asked * (own - other) ** 2 / (2 * other)
        return told / (1 - 2 * other), told

    def output(self) -> str:
        """The encoding."""
        return f"3 times the key's index, plus 0 for good, 1 for bad, 2 for nothing: 0 to {3 * self.size - 1}"
