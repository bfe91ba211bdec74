"""PCKV: key and value perturbed together after padding and sampling (Gu et al., USENIX Security 2020).

This module has padding and sampling, and PCKV-GRR. ``pckv_slots`` has PCKV-UE and ``pckv_piecewise`` has
PCKV-PM, which report one slot per key.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers, KeyValuePairs
from ldpbeam.mechanisms.key_values.mechanism import KeySums, KeyValueMechanism, shares_of
from ldpbeam.mechanisms.mechanism import NumericMechanism, Uniforms, WholeReports
from ldpbeam.mechanisms.registry import register
from ldpbeam.options import Range

#: The longest padding; beyond it almost no report would be about a real pair.
MOST_PADDING = 10_000


@dataclasses.dataclass(frozen=True)
class PaddedKeyValueMechanism(KeyValueMechanism):
    """A uniform draw of one of a person's pairs, which are padded to ``padding`` pairs with dummies.

    A person with L pairs draws each of them with probability 1/max(L, padding), and otherwise one of
    ``padding`` dummy keys d .. d + padding - 1, whose sign is a fair coin. Estimates multiply by ``padding``,
    so they are unbiased if nobody has more pairs than that; the pairs of a person who has more count less.
    The default, 1, suits data with at most one pair per person, such as both papers' synthetic data. For
    other data the paper uses the 90% quantile of the number of pairs per person.

    Attributes:
        padding: the padded number of pairs, 1 to 10,000.
    """

    #: The mean square of the value that is reported with a key that was not drawn, and one over its square
    #: root.
    _by_chance: ClassVar[tuple[float, float]] = 1.0, 1.0

    padding: Annotated[int, Range(least=1, most=MOST_PADDING)] = 1

    @property
    @abstractmethod
    def constants(self) -> tuple[float, float, float]:
        """(a, b, p): the probabilities of naming the drawn key, and another one, and of keeping the sign."""

    @property
    def piecewise(self) -> NumericMechanism | None:
        """The mechanism for the value of the drawn key; None if the value is rounded to a sign.

        With it, the histogram has a row per key: the reports without the key, and those in each bucket.
        """
        return None

    def real_share(self, drawn: ArrayLike) -> Floats:
        """The share of a key's reports that are piecewise reports of real values: a g/(a g + b (1 - g)).

        The others are uniform draws.

        Args:
            drawn: the share g of the people who drew the key, in [0, 1], of any shape.
        """
        (a, b, _), share = self.constants, np.asarray(drawn, dtype=np.float64)
        return a * share / (a * share + b * (1.0 - share))

    @abstractmethod
    def _named(self, histogram: Integers) -> tuple[Integers, Floats]:
        """(the counts of each value reported with each key, the values on [-1, 1])."""

    def _sampled(self, values: KeyValuePairs, uniforms: Uniforms) -> tuple[Integers, Floats]:
        """(keys, values) of the drawn pairs, shape (people,) each; a dummy has key d and value 1/2."""
        lengths = np.diff(values.starts)
        draw = np.floor(uniforms.random(len(values)) * np.maximum(lengths, self.padding)).astype(np.int64)
        real = draw < lengths
        rows = np.where(real, values.starts[:-1] + draw, len(values.keys))
        return np.append(values.keys, self.size)[rows], np.append(values.values, 0.5)[rows]

    def key_sums(self, histogram: Integers, reports: int) -> KeySums:
        """The counts of each key and the sums of its values."""
        counts, values = self._named(histogram)
        counts = counts.astype(np.float64)
        a, b, p = self.constants
        return KeySums(
            asked=np.full(self.size, float(reports)),
            present=counts.sum(axis=1),
            sums=counts @ values,
            squares=counts @ values**2,
            own=a,
            other=b,
            gain=2.0 * p - 1.0,
            square_by_chance=self._by_chance[0],
            padding=self.padding,
        )

    def key_values(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """The paper's estimates, from the counts of +1 and -1 of each key (Gu et al., section 5.2).

        For piecewise values the paper gives no rule: these are the unbiased numbers, clipped.

        With ``constants`` (a, b, p) and ell = ``padding``, f = ell ((n1 + n2)/n - b)/(a - b), clipped to
        [1/n, 1]. The counts of both signs before perturbation are [n1*, n2*] = A^-1 [n1 - nb/2, n2 - nb/2],
        clipped to [0, nf/ell]. The mean on [-1, 1] is ell (n1* - n2*)/(nf).
        """
        if self.piecewise is not None:
            return super().key_values(histogram, reports)
        key_sums = self.key_sums(histogram, reports)
        a, b, p = self.constants
        drawn = (key_sums.present - reports * b) / (a - b)
        frequencies = np.clip(self.padding * drawn / reports, 1.0 / reports, 1.0)
        excess = key_sums.sums / (a * (2.0 * p - 1.0))
        most = frequencies * (reports / self.padding)
        up = np.clip((drawn + excess) / 2.0, 0.0, most)
        down = np.clip((drawn - excess) / 2.0, 0.0, most)
        return frequencies, np.asarray((1.0 + (up - down) / most) / 2.0)

    def precisions(self, histogram: Integers, reports: int) -> tuple[Floats, Floats]:
        """The weights n (a - b)^2/(b (1 - b)) and n (a gain)^2/b, both over ell^2, the same for every key.

        The gain is 2p - 1 over the root mean square of the value of another key.
        """
        a, b, p = self.constants
        scale = reports / self.padding**2
        drawn, meant = (a - b) ** 2 / (b * (1.0 - b)), (a * (2.0 * p - 1.0) * self._by_chance[1]) ** 2 / b
        return np.full(self.size, scale * drawn), np.full(self.size, scale * meant)

    def key_values_of(self, weights: Floats) -> tuple[Floats, Floats]:
        """The weight of each key times ``padding``, at most 1, and the mean of its values on [0, 1].

        Args:
            weights: of the columns (key, value), key by key, and last of "no key".
        """
        pairs = weights[:-1].reshape(self.size, -1)
        drawn = pairs.sum(axis=1)
        return np.minimum(self.padding * drawn, 1.0), shares_of(pairs @ self._points(pairs.shape[1]), drawn)

    @property
    def _assumed(self) -> str:
        pairs = "pair" if self.padding == 1 else "pairs"
        return f" (padding {self.padding}: pairs of people with more than {self.padding} {pairs} count less)"

    def _points(self, values: int) -> Floats:
        """The value on [0, 1] that each of a key's columns represents, shape (values,)."""
        return np.array([1.0, 0.0])


@register
@dataclasses.dataclass(frozen=True)
class PCKVGRR(WholeReports, PaddedKeyValueMechanism):
    """PCKV-GRR: a report of the drawn key with probability a, of each other of d' = d + ell keys with b.

    Here ell = ``padding``, E = exp(epsilon), a = (ell (E-1) + 2)/(ell (E-1) + 2d') and b = (1 - a)/(d' - 1).
    The value is rounded to +1 with probability x, else to -1. With the drawn key, the sign is kept with
    probability p = (ell (E-1) + 1)/(ell (E-1) + 2). With another key, the sign is a fair coin. The report of
    key k is 2k, plus one for +1.
    """

    name = "pckv_grr"
    summary = "PCKV-GRR: a drawn key and sign, or any other; few keys"

    @property
    def constants(self) -> tuple[float, float, float]:
        """(a, b, p): the probabilities of the drawn key, of each other key, and of keeping the sign."""
        growth = self.padding * math.expm1(self.epsilon)
        keys = self.size + self.padding
        # b of Gu et al. is (1 - a)/(d' - 1), which loses digits at a large epsilon; this form does not.
        scale = 1.0 / (growth + 2.0 * keys)
        return (growth + 2.0) * scale, 2.0 * scale, (growth + 1.0) / (growth + 2.0)

    def perturb(self, values: KeyValuePairs, uniforms: Uniforms) -> NDArray[Any]:
        """One report per person, shape (people,)."""
        keys, x = self._sampled(values, uniforms)
        dummies = self.size + np.floor(uniforms.random(len(values)) * self.padding).astype(np.int64)
        keys = np.where(keys < self.size, keys, dummies)
        a, _, p = self.constants
        kept = uniforms.random(len(values)) < a
        draw = np.floor(uniforms.random(len(values)) * (self.size + self.padding - 1)).astype(np.int64)
        other_key = draw + (draw >= keys)
        plus = uniforms.random(len(values)) < np.where(kept, x * p + (1.0 - x) * (1.0 - p), 0.5)
        return (2 * np.where(kept, keys, other_key) + plus).astype(np.uint32)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: two per key, including dummy keys."""
        return 2 * (self.size + self.padding)

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(report | column): columns are (key, +1) and (key, -1) for every key, and last any dummy."""
        return DrawnKeyChannel(self.size, self.padding, *self.constants)

    def _named(self, histogram: Integers) -> tuple[Integers, Floats]:
        """The counts of -1 and +1 of real keys."""
        return histogram.reshape(-1, 2)[: self.size], np.array([-1.0, 1.0])

    def output(self) -> str:
        """The encoding of key and sign, in words."""
        return (
            f"2 key + 1 for +1, 0 to {self.cells(1) - 1}; keys from {self.size} on are dummies{self._assumed}"
        )


class DrawnKeyChannel(Channel):
    """The channel of PCKV-GRR.

    Rows are (key, -1) and (key, +1) for each key, dummy keys last. Columns are (key, +1) and (key, -1) for
    each key, and last "no key".
    """

    def __init__(self, size: int, padding: int, a: float, b: float, p: float) -> None:
        super().__init__(2 * (size + padding), 2 * size + 1)
        self.size = size
        self.padding = padding
        self.other = b / 2.0
        self.own = np.array([[a * (1.0 - p), a * p], [a * p, a * (1.0 - p)]]) - self.other
        self.dummy = (a - b) / (2.0 * padding)

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        product = np.full(self.shape[0], self.other * weights.sum())
        product[: 2 * self.size] += (weights[:-1].reshape(-1, 2) @ self.own.T).ravel()
        product[2 * self.size :] += self.dummy * weights[-1]
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        weights = np.ravel(x)
        product = np.full(self.shape[1], self.other * weights.sum())
        product[:-1] += (weights[: 2 * self.size].reshape(-1, 2) @ self.own).ravel()
        product[-1] += self.dummy * weights[2 * self.size :].sum()
        return product

    def dense(self) -> Floats:
        """The matrix: a block for each key on the diagonal, and the same constant everywhere else."""
        matrix = np.full(self.shape, self.other)
        matrix[: 2 * self.size, :-1] += np.kron(np.eye(self.size), self.own)
        matrix[2 * self.size :, -1] += self.dummy
        return matrix
