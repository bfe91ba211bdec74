"""The channel of local hashing with a family of seeds: products by gathering and scattering."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers

#: A group of seeds has at most this many cells, and no more cells than there are categories.
MOST_CELLS = 2**10
#: A run has about this many hashes, so that a product with its matrix stays in a core's cache. Backward
#: products are summed run by run, so a different number changes their last bits.
RUN_HASHES = 2**17
#: A table of at most this many cells keeps its sparse matrices, at 12 bytes per cell. A larger one keeps only
#: the cells, at one, two or four bytes each, and refills one matrix for every run of a product.
KEPT_CELLS = 2**22


class HashTable:
    """Each category's hash under each seed of a family.

    Consecutive seeds form a group. The hashes of a category under the seeds of a group are the digits of one
    number, its cell, so that a product visits one cell per group instead of one hash per seed.

    Args:
        seeds: the number of seeds.
        size: the number of categories.
        hashes: the number of hash values, g.
        hashed: the hashes of categories under seeds; the arguments are broadcast.
    """

    def __init__(
        self,
        seeds: int,
        size: int,
        hashes: int,
        hashed: Callable[[NDArray[np.uint32], NDArray[np.uint32]], NDArray[np.uint32]],
    ) -> None:
        self.seeds, self.size, self.hashes = seeds, size, hashes
        self.together = 1
        while hashes ** (self.together + 1) <= min(MOST_CELLS, size):
            self.together += 1
        self.per_group = hashes**self.together
        groups = -(-seeds // self.together)
        step = min(groups, max(1, RUN_HASHES // max(size, self.per_group)))
        #: The cell of each category in each group of a run, numbered through it, shape (categories, groups).
        self.runs: list[NDArray[Any]] = []
        values, narrow = np.arange(size, dtype=np.uint32), np.min_scalar_type(step * self.per_group - 1)
        for first in range(0, groups, step):
            cells = np.zeros((min(step, groups - first), size), dtype=narrow)
            for digit in range(self.together):
                some = (
                    np.arange(first, first + len(cells), dtype=np.uint32) * np.uint32(self.together) + digit
                )
                # The last group may lack seeds; categories have the hash 0 there, which counts nowhere.
                some = some[some < seeds]
                hashes_of = hashed(values[None, :], some[:, None].astype(np.uint32))
                cells[: len(some)] += (hashes_of * np.uint32(hashes**digit)).astype(narrow)
            cells += (np.arange(len(cells))[:, None] * self.per_group).astype(narrow)
            self.runs.append(np.ascontiguousarray(cells.T))
        #: One where a cell has a hash under a seed, shape (cells, seeds times g); None if a cell is a hash.
        self._digits: Floats | None = None
        if self.together > 1:
            digits = np.arange(self.per_group)[:, None] // hashes ** np.arange(self.together) % hashes
            self._digits = (digits[:, :, None] == np.arange(hashes)).reshape(self.per_group, -1).astype(float)
        self._kept: list[tuple[Any, csr_array]] | None = None

    def matrices(self) -> Iterator[tuple[Any, csr_array]]:
        """The matrices from categories to a run's cells and back, run by run; valid until the next run."""
        if self._kept is None and sum(cells.size for cells in self.runs) <= KEPT_CELLS:
            self._kept = [self._matrices(cells) for cells in self.runs]
        if self._kept is not None:
            yield from self._kept
            return
        both = self._matrices(self.runs[0])
        for cells in self.runs:
            if cells.size == both[1].nnz:
                both[1].indices[:] = cells.ravel()
            else:  # The last run is shorter.
                both = self._matrices(cells)
            yield both

    def _matrices(self, cells: NDArray[Any]) -> tuple[Any, csr_array]:
        ends = np.arange(0, cells.size + 1, cells.shape[1], dtype=np.int32)
        entries = np.ones(cells.size), cells.ravel().astype(np.int32), ends
        back = csr_array(entries, shape=(self.size, cells.shape[1] * self.per_group))
        return back.T, back

    def _gathered(self, matrix: Any, weights: Floats) -> Floats:
        """The sum of the weights of the categories with each hash, shape (seeds of the run, g)."""
        sums: Floats = np.asarray(matrix @ weights).reshape(-1, self.per_group)
        return (sums if self._digits is None else sums @ self._digits).reshape(-1, self.hashes)

    def _scattered(self, matrix: csr_array, counts: Floats) -> Floats:
        """The sum over a run's seeds of the number at each category's hash, shape (categories,)."""
        cells = counts if self._digits is None else counts.reshape(-1, self._digits.shape[1]) @ self._digits.T
        return np.asarray(matrix @ cells.ravel())

    def gathered(self, weights: Floats) -> Floats:
        """The sum of the weights of the categories with each seed and hash; shape (seeds times g,)."""
        sums = [self._gathered(matrix, weights) for matrix, _ in self.matrices()]
        return np.concatenate(sums)[: self.seeds].ravel()

    def scattered(self, counts: Floats) -> Floats:
        """The sum over seeds of the number at each category's hash, run by run; shape (categories,)."""
        total, first = np.zeros(self.size), 0
        for cells, (_, matrix) in zip(self.runs, self.matrices(), strict=True):
            of_run = np.zeros((cells.shape[1] * self.together, self.hashes))
            here = counts.reshape(self.seeds, self.hashes)[first : first + len(of_run)]
            of_run[: len(here)] = here
            total += self._scattered(matrix, of_run)
            first += len(of_run)
        return total

    def collisions(self, weights: Floats) -> Floats:
        """The sum over seeds of the weights of all categories with each category's hash, in one pass."""
        total, left = np.zeros(self.size), self.seeds
        for forward, back in self.matrices():
            sums = self._gathered(forward, weights)
            sums[max(left, 0) :] = 0.0
            total += self._scattered(back, sums)
            left -= len(sums)
        return total

    def of_categories(self, chosen: Integers) -> HashTable:
        """The table of some categories."""
        part = copy.copy(self)
        part.size, part._kept = len(chosen), None
        part.runs = [cells[chosen] for cells in self.runs]
        return part

    def of_seeds(self, seeds: Integers) -> Integers:
        """Each category's hash under some seeds, shape (seeds, categories)."""
        hashes = np.empty((len(seeds), self.size), dtype=np.int64)
        groups, digits = np.divmod(seeds, self.together)
        first = 0
        for cells in self.runs:
            rows = np.flatnonzero((groups >= first) & (groups < first + cells.shape[1]))
            of_rows = cells[:, groups[rows] - first].astype(np.int64) // self.hashes ** digits[rows]
            hashes[rows] = (of_rows % self.hashes).T
            first += cells.shape[1]
        return hashes


class HashingChannel(Channel):
    """P(seed and hash | category) for a family of equally likely seeds.

    A product gathers or scatters weights by the table of hashes. It takes time proportional to seeds times
    categories, and no matrix of floats.
    """

    def __init__(self, table: HashTable, keep: float, other: float) -> None:
        super().__init__(table.seeds * table.hashes, table.size)
        self.table = table
        self.keep, self.other = keep / table.seeds, other / table.seeds

    def _matvec(self, x: Floats) -> Floats:
        weights = np.ravel(x).astype(np.float64, copy=False)
        product: Floats = self.table.gathered(weights)
        product *= self.keep - self.other
        product += self.other * weights.sum()
        return product

    def _rmatvec(self, x: Floats) -> Floats:
        counts = np.ravel(x).astype(np.float64, copy=False)
        total = self.table.scattered(counts)
        return np.asarray(self.other * counts.sum() + (self.keep - self.other) * total)

    def gram(self, x: Floats) -> Floats:
        """The product with the transpose and the channel, in one pass over the table."""
        kept, total = self.keep - self.other, x.sum()
        product: Floats = self.table.collisions(x)
        product *= kept**2
        product += self.other * total * (1.0 + kept * self.table.seeds)
        return product

    def squares_rmatvec(self, x: Floats) -> Floats:
        """The product of the transpose with squared entries and a vector, shape (categories,)."""
        total = self.table.scattered(x)
        return np.asarray(self.other**2 * x.sum() + (self.keep**2 - self.other**2) * total)

    def of_categories(self, chosen: Integers) -> HashingChannel:
        """The channel of some categories: the chosen columns."""
        table = self.table.of_categories(chosen)
        return type(self)(table, self.keep * table.seeds, self.other * table.seeds)

    def dense(self) -> Floats:
        """The matrix: ``keep`` if the category's hash under the seed is the row's hash, else ``other``."""
        return self.rows(np.arange(self.shape[0]))

    def rows(self, chosen: Integers) -> Floats:
        """The chosen rows, computed without the whole matrix, which may be large."""
        seeds, hashes = np.divmod(chosen, self.table.hashes)
        return np.where(self.table.of_seeds(seeds) == hashes[:, None], self.keep, self.other)
