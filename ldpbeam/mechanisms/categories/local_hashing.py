"""OLH, optimised local hashing (Wang et al., USENIX Security 2017, section 4.4)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, cg

from ldpbeam.channels import Channel, bits_channel
from ldpbeam.domains import Floats, Integers
from ldpbeam.mechanisms.categories.hashing_channel import HashingChannel, HashTable
from ldpbeam.mechanisms.categories.mechanism import CategoricalMechanism
from ldpbeam.mechanisms.categories.xxh32 import reduced, xxh32, xxh32_of_text
from ldpbeam.mechanisms.mechanism import Uniforms
from ldpbeam.mechanisms.registry import register

#: The most seeds of a family, which is the fixed set 0 .. seeds - 1, and its most cells (seeds times hash
#: values).
MOST_SEEDS, MOST_CELLS = 2**16, 2**22
#: Within the limits, the default family has at least DEFAULT_SEEDS seeds, and at least ENOUGH times
#: size / (g - 1). Its collisions then add at most 1/31 to the variance (``frequency_variance``).
DEFAULT_SEEDS = 1024
ENOUGH = 32
#: The most entries of a family's table of hashes (of one, two or four bytes each).
MOST_HASHES = 2**27
#: With any seed, reports are counted in blocks of this many hashes, to bound memory.
BLOCK_HASHES = 2**16


@register
@dataclasses.dataclass(frozen=True)
class LocalHashing(CategoricalMechanism):
    """A report is a random seed, and a hash in 0 .. g - 1 under that seed.

    The client sends the hash of its own category with probability p = E/(E+g-1), and each other hash with
    probability 1/(E+g-1), where E = exp(epsilon) and g = round(E) + 1. The hash is XXH32 of the category's
    index (four little-endian bytes by default) under the report's seed, mod g. A report supports every
    category that has its hash.

    With a family of seeds (``seeds: 1024``: clients draw one of 0 .. 1023) the statistic counts reports by
    seed and hash. It is sufficient, so EM on it is exact. Frequencies are corrected for the family's actual
    collisions; correcting by 1/g would bias a frequency by up to a few percent. With ``seeds: any`` clients
    draw any 32-bit seed. The statistic then counts, for each category, the reports that do not support it and
    those that do, and EM on it maximises a composite likelihood.

    Attributes:
        seeds: the size of the family, or "any". 0 means the default: 1024, or 32 size / (g - 1) if that is
            more, or "any" if the limits do not allow enough seeds.
        hashed: what is hashed: "index", the category's index as four little-endian bytes, or "text", its
            index in decimal digits, as in the clients of pure-LDP, multi-freq-ldpy and LDP-EM-MR.
        hashes: the number of hash values g, from 2 to 2^22. 0 means round(E) + 1, which has the least
            variance.

    Raises:
        ValueError: if the family exceeds 2^16 seeds, 2^22 cells or 2^27 hashes, if it is too small to tell
            the categories apart, or if there are too few or too many hash values.
    """

    name = "olh"
    summary = "OLH: a random hash of the category; best for many categories"

    seeds: int | Literal["any"] = 0
    hashed: Literal["index", "text"] = "index"
    hashes: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.hashes, int) or isinstance(self.hashes, bool):
            raise ValueError(f"hashes must be a whole number, found {self.hashes!r}")
        if self.hashes == 0:
            object.__setattr__(self, "hashes", self._best_hashes)
        elif not 2 <= self.hashes <= MOST_CELLS:
            raise ValueError(f"hashes must be from 2 to {MOST_CELLS}, found {self.hashes}")
        most = min(MOST_SEEDS, MOST_CELLS // self.hashes, MOST_HASHES // self.size)
        if self.seeds == 0 and not isinstance(self.seeds, bool):
            # The family is part of the channel, so its size must be known before reports are counted.
            wanted = max(DEFAULT_SEEDS, -(-ENOUGH * self.size // (self.hashes - 1)))
            distinguishable = 4 * self.size <= min(wanted, most) * (self.hashes - 1)
            object.__setattr__(self, "seeds", min(wanted, most) if distinguishable else "any")
        number = isinstance(self.seeds, int) and not isinstance(self.seeds, bool)
        least = 2 * self.size // (self.hashes - 1) + 1
        if self.seeds != "any" and not (number and least <= int(self.seeds) <= most):
            family = f", or from {least} to {most}" if least <= most else ""
            raise ValueError(
                f"seeds must be 'any'{family} with {self.hashes} hash values and {self.size} categories, "
                f"found {self.seeds!r}"
            )

    def __getstate__(self) -> dict[str, Any]:
        """The fields without the table, which another process computes faster than it would receive it."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def parameters(self) -> dict[str, Any]:
        """The name and every parameter, except ``hashed`` and ``hashes`` at their defaults."""
        parameters = super().parameters
        # Statistics that are older than these options keep their fingerprints.
        if self.hashed == "index":
            del parameters["hashed"]
        if self.hashes == self._best_hashes:
            del parameters["hashes"]
        return parameters

    @property
    def composite(self) -> bool:  # type: ignore[override]
        """Whether clients draw any 32-bit seed, so that a histogram counts a report once per category."""
        return self.seeds == "any"

    @property
    def cells_of_each(self) -> int:
        """Two with any seed; a family's seeds do not treat categories alike."""
        return 2 if self.composite else 0

    @property
    def payload_dtype(self) -> np.dtype[Any]:
        """Eight bytes: the seed and the hash."""
        return np.dtype([("seed", "<u4"), ("hash", "<u4")])

    @property
    def _best_hashes(self) -> int:
        """The number of hash values with the least variance."""
        return round(math.exp(self.epsilon)) + 1

    @property
    def probabilities(self) -> tuple[float, float]:
        """(p, q): the probabilities of the category's own hash, and of each other hash."""
        growth = math.exp(self.epsilon)
        q = 1.0 / (growth + self.hashes - 1.0)
        return growth * q, q

    @property
    def support_probabilities(self) -> tuple[float, float]:
        """A report supports the categories with its hash: another category with probability 1/g."""
        return self.probabilities[0], 1.0 / self.hashes

    @property
    def seed_family(self) -> int:
        """The size of the family, whose seeds are drawn uniformly; 0 if clients draw any 32-bit seed."""
        return 0 if self.seeds == "any" else int(self.seeds)

    def hash(self, values: NDArray[Any], seeds: NDArray[Any]) -> NDArray[np.uint32]:
        """The hashes of category indexes under seeds; the arguments are broadcast."""
        function = xxh32 if self.hashed == "index" else xxh32_of_text
        return reduced(function(values.astype(np.uint32), seeds.astype(np.uint32)), self.hashes)

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """The categories that have the report's hash under its seed."""
        values = np.arange(self.size, dtype=np.uint32)[None, :]
        return np.asarray(self.hash(values, payloads["seed"][:, None]) == payloads["hash"][:, None])

    @functools.cached_property
    def table(self) -> HashTable:
        """Each category's hash under each seed of the family."""
        return HashTable(int(self.seeds), self.size, self.hashes, self.hash)

    def perturb(self, values: ArrayLike, uniforms: Uniforms) -> NDArray[Any]:
        """One report per category index, shape (n,)."""
        index = np.asarray(values, dtype=np.int64)
        family = 2**32 if self.seeds == "any" else int(self.seeds)
        reports = np.zeros(index.size, dtype=self.payload_dtype)
        reports["seed"] = np.floor(uniforms.random(index.size) * family)
        true_hash = self.hash(index, reports["seed"])
        keep = uniforms.random(index.size) < self.probabilities[0]
        draw = np.floor(uniforms.random(index.size) * (self.hashes - 1)).astype(np.uint32)
        reports["hash"] = np.where(keep, true_hash, draw + (draw >= true_hash))
        return reports

    def is_report(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        """Which payloads have a seed of the family and a hash below g."""
        within: NDArray[np.bool_] = payloads["hash"] < self.hashes
        return within if self.seeds == "any" else within & (payloads["seed"] < self.seeds)

    def cells(self, resolution: int) -> int:
        """The number of report buckets: one per pair of a seed and a hash.

        Raises:
            ValueError: if clients draw any 32-bit seed, because there are too many pairs.
        """
        if self.seeds == "any":
            raise ValueError("olh with any seed cannot be joined by user; give a family such as seeds: 1024")
        return int(self.seeds) * self.hashes

    def bucketise(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """The seed times g, plus the hash."""
        return np.asarray(payloads["seed"].astype(np.int64) * self.hashes + payloads["hash"])

    def channel(self, value_buckets: int, resolution: int) -> Channel:
        """P(seed and hash | category) of the family.

        Raises:
            ValueError: if clients draw any 32-bit seed.
        """
        self.cells(resolution)
        return HashingChannel(self.table, *self.probabilities)

    def histogram_cells(self, resolution: int) -> int:
        """The length of a histogram: the family's cells, or two per category if clients draw any seed."""
        return 2 * self.size if self.seeds == "any" else self.cells(resolution)

    def histogram(self, payloads: NDArray[Any], resolution: int) -> Integers:
        """Counts by seed and hash; with any seed, of reports that do not and do support each category."""
        if self.seeds != "any":
            return super().histogram(payloads, resolution)
        supports = np.zeros(self.size, dtype=np.int64)
        step = max(1, BLOCK_HASHES // self.size)
        for start in range(0, len(payloads), step):
            supports += self.supported(payloads[start : start + step]).sum(axis=0)
        return np.column_stack((len(payloads) - supports, supports)).ravel()

    def histogram_channel(self, value_buckets: int, resolution: int) -> Channel:
        """The channel of a histogram's counts.

        With any seed, its rows are (category, not supported) and (category, supported) of a uniformly drawn
        category.
        """
        if self.seeds != "any":
            return self.channel(value_buckets, resolution)
        return bits_channel(self.size, *self.support_probabilities)

    def unbiased_frequencies(self, histogram: Integers, reports: int) -> Floats:
        """The frequencies whose expected supports are the observed ones, shape (size,).

        With any seed they are (C/n - 1/g) / (p - 1/g). With a family they solve the normal equations of
        supports, whose matrix has the family's collisions, by conjugate gradients to a relative residual of
        1e-10.
        """
        p, q = self.support_probabilities
        if self.seeds == "any":
            return (histogram[1::2] / reports - q) / (p - q)
        question = reports, histogram.tobytes()
        solved = self._solved.get(question)
        if solved is None:
            supports = self.table.scattered(histogram / reports)
            keep, other = np.array(self.probabilities) / int(self.seeds)
            expected = LinearOperator(
                (self.size, self.size),
                matvec=lambda f: (
                    (keep - other) * self.table.collisions(np.ravel(f)) + self.seeds * other * f.sum()
                ),
                dtype=float,
            )
            start = (supports - q) / (p - q)
            solved, _ = cg(expected, supports, x0=start, rtol=1e-10, maxiter=20 * self.size)
            self._solved.clear()
            self._solved[question] = solved
        return solved.copy()

    @functools.cached_property
    def _solved(self) -> dict[tuple[int, bytes], Floats]:
        """The unbiased frequencies of the last histogram: an estimate and its intervals both ask for them."""
        return {}

    def shares_of_reports(self) -> Floats:
        """The unbiased shares that a report of each seed and hash gives, from one set of normal equations."""
        supports = HashingChannel(self.table, float(self.seeds), 0.0).dense()
        expected = supports.T @ self.channel(self.size, 0).dense()
        return np.linalg.solve(expected, supports.T).T.astype(np.float64)

    @property
    def frequency_variance(self) -> float:
        """(1/g)(1 - 1/g) / (p - 1/g)^2, which is 4E/(E-1)^2 if g is exactly E + 1.

        A family of S seeds has S (g - 1) independent counts for ``size`` unknowns, which adds the factor
        1 / (1 - size / (S (g - 1))).
        """
        if self.seeds == "any":
            return self.rare_supports
        return self.rare_supports / (1.0 - self.size / (int(self.seeds) * (self.hashes - 1.0)))

    @property
    def hashes_per_report(self) -> int:
        """With any seed, one per category."""
        return self.size if self.seeds == "any" else 0

    @property
    def lookups_per_product(self) -> int:
        """With a family, one per seed and category."""
        return 0 if self.seeds == "any" else int(self.seeds) * self.size

    def output(self) -> str:
        """The ranges and the layout of seed and hash, in words."""
        seeds = "any 32-bit seed" if self.seeds == "any" else f"a seed below {self.seeds}"
        text = " of the index in decimal digits" if self.hashed == "text" else ""
        return f"{seeds} and a hash{text} below {self.hashes}, as eight bytes"
