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

#: The hashes under a few seeds are one cell. There are at most this many cells together, and no more than
#: categories.
MOST_CELLS = 2**10
#: A run has about this many hashes. A backward product sums a run by itself, so another number gives other
#: last bits.
RUN_HASHES = 2**20
#: A table of at most this many cells keeps its sparse matrices, of 16 bytes per cell; a larger one keeps the
#: cells alone, of one, two or four bytes, and makes the matrices in each product.
KEPT_CELLS = 2**22


class HashTable:
    """Each category's hash under each seed of a family.

    Seeds that follow each other are a group. The hashes of a category under the seeds of a group are the
    digits of one number, its cell: a product visits one cell instead of a hash for each seed.

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
        groups, step = -(-seeds // self.together), max(1, RUN_HASHES // max(size, self.per_group))
        #: The cell of each category in each group of a run, shape (categories, groups).
        self.runs: list[NDArray[Any]] = []
        values, narrow = np.arange(size, dtype=np.uint32), np.min_scalar_type(self.per_group - 1)
        for first in range(0, groups, step):
            cells = np.zeros((min(step, groups - first), size), dtype=narrow)
            for place in range(self.together):
                some = (
                    np.arange(first, first + len(cells), dtype=np.uint32) * np.uint32(self.together) + place
                )
                # The last group may lack seeds; categories have the hash 0 there, which counts nowhere.
                some = some[some < seeds]
                hashes_of = hashed(values[None, :], some[:, None].astype(np.uint32))
                cells[: len(some)] += (hashes_of * np.uint32(hashes**place)).astype(narrow)
            self.runs.append(np.ascontiguousarray(cells.T))
        self._kept: list[csr_array] | None = None

    def matrices(self) -> Iterator[csr_array]:
        """The matrix from a run's cells to categories, for each run."""
        ones = np.ones(max(cells.size for cells in self.runs))
        if sum(cells.size for cells in self.runs) > KEPT_CELLS:
            # Each matrix takes the place of the one before: new pages would take longer than its numbers.
            indexes = np.empty(len(ones), dtype=np.int32)
            yield from (self._matrix(cells, ones, indexes) for cells in self.runs)
            return
        if self._kept is None:
            self._kept = [self._matrix(cells, ones, np.empty(cells.size, np.int32)) for cells in self.runs]
        yield from self._kept

    def _matrix(self, cells: NDArray[Any], ones: Floats, indexes: NDArray[np.int32]) -> csr_array:
        groups = cells.shape[1]
        first = np.arange(groups, dtype=np.int32) * self.per_group
        np.add(cells, first, out=indexes[: cells.size].reshape(cells.shape))
        ends = np.arange(0, cells.size + 1, groups, dtype=np.int32)
        shape = (self.size, groups * self.per_group)
        return csr_array((ones[: cells.size], indexes[: cells.size], ends), shape=shape)

    def _gathered(self, matrix: csr_array, weights: Floats) -> Floats:
        """The sum of the weights of the categories with each hash, shape (seeds of the run, g)."""
        left: Floats = np.asarray(matrix.T @ weights).reshape(-1, self.per_group)
        sums = np.empty((len(left), self.together, self.hashes))
        for place in range(self.together):
            digits = left.reshape(len(left), -1, self.hashes)
            sums[:, place] = digits.sum(axis=1)
            left = digits.sum(axis=2)
        return sums.reshape(-1, self.hashes)

    def _scattered(self, matrix: csr_array, counts: Floats) -> Floats:
        """The sum over a run's seeds of the number at each category's hash, shape (categories,)."""
        of_groups = counts.reshape(-1, self.together, self.hashes)
        cells = np.zeros((len(of_groups), 1))
        for place in reversed(range(self.together)):
            cells = (cells[:, :, None] + of_groups[:, place, None, :]).reshape(len(of_groups), -1)
        return np.asarray(matrix @ cells.ravel())

    def gathered(self, weights: Floats) -> Floats:
        """The sum of the weights of the categories with each seed and hash; shape (seeds times g,)."""
        sums = [self._gathered(matrix, weights) for matrix in self.matrices()]
        return np.concatenate(sums)[: self.seeds].ravel()

    def scattered(self, counts: Floats) -> Floats:
        """The sum over seeds of the number at each category's hash, run by run; shape (categories,)."""
        total, first = np.zeros(self.size), 0
        for cells, matrix in zip(self.runs, self.matrices(), strict=True):
            of_run = np.zeros((cells.shape[1] * self.together, self.hashes))
            here = counts.reshape(self.seeds, self.hashes)[first : first + len(of_run)]
            of_run[: len(here)] = here
            total += self._scattered(matrix, of_run)
            first += len(of_run)
        return total

    def collisions(self, weights: Floats) -> Floats:
        """The sum over seeds of the weights of all categories with each category's hash, in one pass."""
        total, left = np.zeros(self.size), self.seeds
        for matrix in self.matrices():
            sums = self._gathered(matrix, weights)
            sums[max(left, 0) :] = 0.0
            total += self._scattered(matrix, sums)
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
        groups, places = np.divmod(seeds, self.together)
        first = 0
        for cells in self.runs:
            rows = np.flatnonzero((groups >= first) & (groups < first + cells.shape[1]))
            of_rows = cells[:, groups[rows] - first].astype(np.int64) // self.hashes ** places[rows]
            hashes[rows] = (of_rows % self.hashes).T
            first += cells.shape[1]
        return hashes


class HashingChannel(Channel):
    """P(seed and hash | category) for a family of equally likely seeds.

    A product gathers or scatters the weights by the table of hashes. Its time is proportional to seeds times
    categories, and it needs no matrix of floats.
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
        product: Floats = self.other * counts.sum() + (self.keep - self.other) * total
        return product

    def squares_rmatvec(self, x: Floats) -> Floats:
        """The product of the transpose with squared entries and a vector, shape (categories,)."""
        total = self.table.scattered(x)
        product: Floats = self.other**2 * x.sum() + (self.keep**2 - self.other**2) * total
        return product

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
