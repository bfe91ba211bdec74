"""The channel of local hashing with a family of seeds: products by gathering and scattering."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ldpbeam.channels import Channel
from ldpbeam.domains import Floats, Integers

#: Seeds are in blocks of this many hashes. A backward product sums a block by itself, so another number gives
#: other last bits.
BLOCK_HASHES = 2**16
#: A product multiplies runs of blocks, of at most about this many hashes.
RUN_HASHES = 2**20
#: A table of at most this many hashes keeps its sparse matrices, of 16 bytes per hash; a larger one keeps the
#: cells alone, of one, two or four bytes, and makes the matrices in each product.
KEPT_HASHES = 2**22


@dataclass(frozen=True)
class Blocks:
    """Blocks of equally many seeds that follow each other.

    Attributes:
        cells: for each block, category and seed: the seed's index in its block times g, plus the hash; shape
            (blocks, categories, seeds per block).
        first: the index of the first seed.
    """

    cells: NDArray[Any]
    first: int


class HashTable:
    """Each category's hash under each seed of a family.

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
        self.per_block = min(seeds, max(1, BLOCK_HASHES // size))
        values = np.arange(size, dtype=np.uint32)
        whole = seeds // self.per_block
        narrow = np.min_scalar_type(self.per_block * hashes - 1)

        def blocks(first: int, many: int, per_block: int) -> Blocks:
            cells = np.empty((many, size, per_block), dtype=narrow)
            starts = np.arange(per_block, dtype=np.uint32)[:, None] * np.uint32(hashes)
            for block in range(many):
                start = first + block * per_block
                seeds = np.arange(start, start + per_block, dtype=np.uint32)
                cells[block] = (hashed(values[None, :], seeds[:, None]) + starts).T
            return Blocks(cells, first)

        self.blocks = [blocks(0, whole, self.per_block)]
        if rest := seeds % self.per_block:
            self.blocks.append(blocks(seeds - rest, 1, rest))
        self._kept: list[tuple[slice, int, csr_array]] | None = None

    def matrices(self) -> Iterator[tuple[slice, int, csr_array]]:
        """Runs of blocks: their cells, how many blocks, and the matrix from cells to (block, category)."""
        if self.seeds * self.size > KEPT_HASHES:
            yield from self._runs()
            return
        if self._kept is None:
            self._kept = list(self._runs())
        yield from self._kept

    def _runs(self) -> Iterator[tuple[slice, int, csr_array]]:
        for blocks in self.blocks:
            many, size, per_block = blocks.cells.shape
            step = min(many, max(1, RUN_HASHES // (size * per_block)))
            ones = np.ones(step * size * per_block)
            ends = np.arange(0, len(ones) + 1, per_block, dtype=np.int32)
            starts = (np.arange(step, dtype=np.int32) * (per_block * self.hashes))[:, None, None]
            for start in range(0, many, step):
                here = blocks.cells[start : start + step]
                indexes = here.astype(np.int32)
                indexes += starts[: len(here)]
                cells = len(here) * per_block * self.hashes
                rows = len(here) * size
                first = (blocks.first + start * per_block) * self.hashes
                matrix = csr_array(
                    (ones[: indexes.size], indexes.ravel(), ends[: rows + 1]), shape=(rows, cells)
                )
                yield slice(first, first + cells), len(here), matrix

    def gathered(self, weights: Floats) -> Floats:
        """The sum of the weights of each cell's categories, in their order; shape (seeds times g,)."""
        sums = np.empty(self.seeds * self.hashes)
        for cells, many, matrix in self.matrices():
            sums[cells] = matrix.T @ np.tile(weights, many)
        return sums

    def scattered(self, counts: Floats) -> Floats:
        """The sum over seeds of the number at each category's cell, block by block; shape (categories,)."""
        total = np.zeros(self.size)
        for cells, many, matrix in self.matrices():
            for block in (matrix @ counts[cells]).reshape(many, self.size):
                total += block
        return total

    def collisions(self, weights: Floats) -> Floats:
        """The sum over seeds of the weights of all categories in each category's cell, in one pass."""
        total = np.zeros(self.size)
        for _, many, matrix in self.matrices():
            for block in (matrix @ (matrix.T @ np.tile(weights, many))).reshape(many, self.size):
                total += block
        return total

    def of_categories(self, chosen: Integers) -> HashTable:
        """The table of some categories."""
        part = copy.copy(self)
        part.size, part._kept = len(chosen), None
        part.blocks = [Blocks(blocks.cells[:, chosen], blocks.first) for blocks in self.blocks]
        return part

    def of_seeds(self, seeds: Integers) -> Integers:
        """Each category's hash under some seeds, shape (seeds, categories)."""
        cells = np.empty((len(seeds), self.size), dtype=np.int64)
        for blocks in self.blocks:
            many, _, per_block = blocks.cells.shape
            rows = np.flatnonzero((seeds >= blocks.first) & (seeds < blocks.first + many * per_block))
            block, index = np.divmod(seeds[rows] - blocks.first, per_block)
            cells[rows] = blocks.cells[block, :, index] - (index * self.hashes)[:, None]
        return cells


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
