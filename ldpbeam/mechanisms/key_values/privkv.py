"""PrivKV and PrivKVM: presence and sign of one key (Ye et al., S&P 2019; PrivKV-EM paper, section 2.2)."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers, KeyValuePairs
from ldpbeam.mechanisms.key_values.mechanism import KeySums, KeyValueMechanism, shares_of
from ldpbeam.mechanisms.mechanism import Uniforms, WholeReports
from ldpbeam.mechanisms.registry import register
from ldpbeam.options import Range

#: The outcomes of a report's key; a report is three times the key plus the outcome.
ABSENT, PLUS, MINUS = 0, 1, 2


class KeyBlocksChannel(Channel):
    """A channel with one block per key and zeros elsewhere: a report names its key."""

    def __init__(self, size: int, block: Floats) -> None:
        super().__init__(size * block.shape[0], size * block.shape[1])
        self.size = size
        self.block = block

    def _matvec(self, x: Floats) -> Floats:
        return (np.ravel(x).reshape(self.size, -1) @ self.block.T).ravel()

    def _rmatvec(self, x: Floats) -> Floats:
        return (np.ravel(x).reshape(self.size, -1) @ self.block).ravel()

    def dense(self) -> Floats:
        """The matrix: the blocks on the diagonal."""
        return np.kron(np.eye(self.size), self.block).astype(np.float64)


@register
@dataclasses.dataclass(frozen=True)
class PrivKV(WholeReports, KeyValueMechanism):
    """A report of one of d keys, drawn uniformly: whether the person has it, and the sign of its value.

    The presence has the budget eps1 = key_share * epsilon, the sign eps2 = epsilon - eps1. The presence is
    kept with probability p1 = exp(eps1)/(exp(eps1) + 1), the sign with p2 = exp(eps2)/(exp(eps2) + 1). The
    value of a key that the person has is rounded to +1 with probability x, else to -1. A missing key has
    either sign with probability 1/2. The report is 3a + o for key a: o = 0 for absent, 1 for +1, 2 for -1.

    Because the sign of a missing key is a fair coin, the true privacy loss is less than epsilon: it is the
    larger of eps1 + ln(2 p2) and eps2. PrivKVM's later rounds use all of epsilon.

    Attributes:
        key_share: the share of epsilon for the presence, above 0 and below 1; 1/2 as published.
    """

    name = "privkv"
    summary = "PrivKV: one key, present or not, and its value's sign"

    key_share: Annotated[float, Range(above=0, below=1)] = 0.5

    @property
    def probabilities(self) -> tuple[float, float]:
        """(p1, p2): the probabilities of keeping the presence, and of keeping the sign."""
        key = self.key_share * self.epsilon
        return 1.0 / (1.0 + math.exp(-key)), 1.0 / (1.0 + math.exp(key - self.epsilon))

    @property
    def block(self) -> Floats:
        """P(absent, +1, -1 | a key's state), shape (3, 4): Table 1 of the PrivKV-EM paper.

        The states are (present, +1), (present, -1), (missing, +1), (missing, -1), signs before perturbation.
        """
        p1, p2 = self.probabilities
        q1, q2 = 1.0 - p1, 1.0 - p2
        return np.array(
            [
                [q1, q1, p1, p1],
                [p1 * p2, p1 * q2, q1 * p2, q1 * q2],
                [p1 * q2, p1 * p2, q1 * q2, q1 * p2],
            ]
        )

    def perturb(self, values: KeyValuePairs, uniforms: Uniforms) -> NDArray[Any]:
        """One report per person, shape (people,)."""
        return self._reports(values, np.full(self.size, 0.5), uniforms)

    def _reports(self, values: KeyValuePairs, fakes: Floats, uniforms: Uniforms) -> NDArray[Any]:
        """One report per person; a missing key's value has the mean ``fakes``, shape (size,)."""
        keys = np.floor(uniforms.random(len(values)) * self.size).astype(np.int64)
        # Pairs are sorted by person and key, so this combined number ascends.
        people = np.repeat(np.arange(len(values)), np.diff(values.starts))
        pairs = np.append(people * self.size + values.keys, len(values) * self.size)
        wanted = np.arange(len(values)) * self.size + keys
        rows = np.searchsorted(pairs, wanted)
        has = pairs[rows] == wanted
        x = np.where(has, np.append(values.values, 0.5)[rows], fakes[keys])
        p1, p2 = self.probabilities
        present = uniforms.random(len(values)) < np.where(has, p1, 1.0 - p1)
        plus = uniforms.random(len(values)) < x * p2 + (1.0 - x) * (1.0 - p2)
        said = np.where(present, np.where(plus, PLUS, MINUS), ABSENT)
        return (3 * keys + said).astype(np.uint32)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: three per key."""
        return 3 * self.size

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """The ``block`` for each key; the columns are four states per key."""
        return KeyBlocksChannel(self.size, self.block)

    def key_sums(self, histogram: Integers, reports: int) -> KeySums:
        """The counts of each key's reports; the people who were asked for it are a random part of all."""
        counts = histogram.reshape(self.size, 3).astype(np.float64)
        p1, p2 = self.probabilities
        present = counts[:, PLUS] + counts[:, MINUS]
        sums = counts[:, PLUS] - counts[:, MINUS]
        asked = counts.sum(axis=1)
        return KeySums(asked, present, sums, present, p1, 1.0 - p1, 2.0 * p2 - 1.0, sampled=True)

    def key_values(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """Unbiased f = (r - q1)/(p1 - q1) for the share r of present in a key's reports, and the mean.

        The mean is that of the signs of the N reports with present, corrected for p2, with both counts
        clipped to [0, N] as published. These include the signs of missing keys, so the mean is biased to the
        middle: it estimates f p1 m / (f p1 + (1 - f) q1) on [-1, 1]. A key without a report gets frequency 0
        and the middle as its mean.
        """
        key_sums = self.key_sums(histogram, reports)
        p1, p2 = self.probabilities
        shares = np.divide(
            key_sums.present, key_sums.asked, out=np.full(self.size, 1.0 - p1), where=key_sums.asked > 0.0
        )
        plus = ((key_sums.present + key_sums.sums) / 2.0 - (1.0 - p2) * key_sums.present) / (2.0 * p2 - 1.0)
        return (shares - (1.0 - p1)) / (2.0 * p1 - 1.0), shares_of(plus, key_sums.present)

    def precisions(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """The weights of frequency and mean: n (2 p1 - 1)^2/(p1 q1) and N ((2 p2 - 1) p1/q1)^2 for each key.

        Here n is the number of a key's reports, and N the number of those with present. For a rare key, most
        of the N reports come from people without it. The second weight keeps a service with a small budget
        from pulling the mean to the middle.
        """
        key_sums = self.key_sums(histogram, reports)
        p1, p2 = self.probabilities
        of_frequency = key_sums.asked * (2.0 * p1 - 1.0) ** 2 / (p1 * (1.0 - p1))
        return of_frequency, key_sums.present * ((2.0 * p2 - 1.0) * p1 / (1.0 - p1)) ** 2

    def key_values_of(self, weights: Floats) -> tuple[Floats, Floats]:
        """The share of the present states among a key's states, and the share of +1 in these (equation 2).

        Args:
            weights: of the four states of each key, key by key, shape (4 size,).
        """
        states = weights.reshape(self.size, 4)
        present = states[:, 0] + states[:, 1]
        totals = states.sum(axis=1)
        frequencies = np.divide(present, totals, out=np.zeros(self.size), where=totals > 0.0)
        return frequencies, shares_of(states[:, 0], present)

    def output(self) -> str:
        """The encoding of key, presence and sign, in words."""
        return f"3 times the key's index, plus 0 for absent, 1 for +1 and 2 for -1: 0 to {3 * self.size - 1}"


@register
@dataclasses.dataclass(frozen=True)
class PrivKVM(PrivKV):
    """PrivKV in rounds: from the second round on, a missing key's value is the last round's mean of the key.

    Each round reduces the bias of the means to the middle. A round is a service in the study, so the epsilons
    of the rounds that a person answers add up.

    Attributes:
        round: the number of the round, from 1.
    """

    name = "privkvm"
    summary = "PrivKVM: a round of PrivKV that knows the last round's means"

    round: Annotated[int, Range(least=1)] = 1

    def perturb(self, values: KeyValuePairs, uniforms: Uniforms) -> NDArray[Any]:
        """One report per person in the first round, shape (people,).

        Raises:
            ValueError: if ``round`` is above 1.
        """
        if self.round > 1:
            raise ValueError(
                f"round {self.round} of privkvm needs the means that round {self.round - 1} found: estimate "
                "that round first, publish its means to the clients, and use perturb_with"
            )
        return super().perturb(values, uniforms)

    def perturb_with(self, values: KeyValuePairs, means: Floats | None, uniforms: Uniforms) -> NDArray[Any]:
        """One report per person, shape (people,); a missing key's value has the last round's mean."""
        if means is None or self.round == 1:
            return self.perturb(values, uniforms)
        return self._reports(values, np.clip(means, 0.0, 1.0), uniforms)
