"""Products with the likelihoods of many kinds of users, block by block, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldpbeam.domains import Floats, Integers

#: A block of likelihoods has about this many entries, so that it stays in a core's cache (256 KB).
BLOCK_ENTRIES = 2**16
#: A table of several services has at most this many entries, to stay in the cache as well (512 KB).
TABLE_ENTRIES = 2**17
#: This many entries are computed once and kept (256 MB); the rest is computed in every product.
KEPT_ENTRIES = 2**26
#: Products whose logarithms have a wider range than this could underflow in single precision.
SINGLE_RANGE = 80.0

Block = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]
_T = TypeVar("_T")


class UserRows:
    """The likelihoods of kinds of users: a matrix of shape (kinds, value buckets), held in blocks.

    The likelihood of a kind is the product of one row per service. Services with few report buckets are
    multiplied beforehand into one table, so that a kind takes few multiplications. Likelihoods are in single
    precision, with an error of about 1e-7 that is the same in every product; sums are in double precision.

    Services whose epsilons sum to 80 could contradict each other so much that a product underflows. Then
    logarithms are added instead, in double precision, and nothing is kept.

    Attributes:
        log_scales: the logarithm of the divisor of each kind's likelihoods, shape (kinds,).
    """

    def __init__(self, log_axes: Sequence[Floats], places: Sequence[Places]) -> None:
        """Multiply services into tables, and compute the blocks that are kept.

        Args:
            log_axes: for each service, log P(axis cell | value bucket), shape (cells, value buckets).
            places: for each service, the axis cell of each kind, shape (kinds,).
        """
        kinds, self._value_buckets = len(places[0]), log_axes[0].shape[1]
        size = max(1, BLOCK_ENTRIES // self._value_buckets)
        self._blocks = [slice(start, min(start + size, kinds)) for start in range(0, kinds, size)]
        scales = [axis.max(axis=1) for axis in log_axes]
        axes = [axis - scale[:, None] for axis, scale in zip(log_axes, scales, strict=True)]
        self.log_scales: Floats = np.zeros(kinds)
        for scale, digits in zip(scales, places, strict=True):
            self.log_scales += scale[digits]
        self._in_logs = -sum(float(axis.min()) for axis in axes) > SINGLE_RANGE
        self._kept: list[Block] = []
        self._factors: list[tuple[Block, Places]]
        if self._in_logs:
            self._factors = list(zip(axes, places, strict=True))
            self.log_scales += np.concatenate(_on_all_cores(self._largest_logs, self._blocks))
        else:
            chosen = _together([len(axis) for axis in axes], max(1, TABLE_ENTRIES // self._value_buckets))
            self._factors = [
                _table([axes[a] for a in members], [places[a] for a in members]) for members in chosen
            ]
            kept = KEPT_ENTRIES // (size * self._value_buckets)
            self._kept = _on_all_cores(self._computed, self._blocks[:kept])

    def _logs(self, chosen: slice | Integers) -> Floats:
        (axis, digits), *others = self._factors
        total = np.array(axis[digits[chosen]], dtype=np.float64)
        for axis, digits in others:
            total += axis[digits[chosen]]
        return total

    def _largest_logs(self, chosen: slice) -> Floats:
        return np.asarray(self._logs(chosen).max(axis=1))

    def _computed(self, chosen: slice | Integers) -> Block:
        if self._in_logs:
            logs = self._logs(chosen)
            return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))
        (table, digits), *others = self._factors
        rows = table[digits[chosen]]
        factor = np.empty_like(rows)
        for table, digits in others:
            np.take(table, digits[chosen], axis=0, out=factor, mode="clip")
            np.multiply(rows, factor, out=rows)
        return rows

    def _block(self, number: int) -> Floats:
        """The likelihoods of a block of kinds, shape (block, value buckets)."""
        rows = self._kept[number] if number < len(self._kept) else self._computed(self._blocks[number])
        return rows.astype(np.float64, copy=False)

    def forward(self, weights: Floats) -> Floats:
        """The (scaled) probability of each kind under a distribution, shape (kinds,)."""
        parts = _on_all_cores(lambda n: _forward(self._block(n), weights), range(len(self._blocks)))
        return np.concatenate(parts)

    def backward(self, ratios: Floats) -> Floats:
        """The transpose of :meth:`forward`, shape (value buckets,)."""
        return _added(
            _on_all_cores(
                lambda n: _backward(self._block(n), ratios[self._blocks[n]]), range(len(self._blocks))
            )
        )

    def rows(self, chosen: Integers) -> Floats:
        """The (scaled) likelihoods of some kinds, shape (chosen, value buckets)."""
        return self._computed(chosen).astype(np.float64, copy=False)

    def evaluate(self, weights: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """(``forward(weights)``, ``backward(counts / forward(weights))``), in one pass over the kinds."""

        def both(number: int) -> tuple[Floats, Floats]:
            rows = self._block(number)
            probabilities = _forward(rows, weights)
            return probabilities, _backward(rows, counts[self._blocks[number]] / probabilities)

        parts = _on_all_cores(both, range(len(self._blocks)))
        return np.concatenate([part for part, _ in parts]), _added([part for _, part in parts])


def _forward(rows: Floats, weights: Floats) -> Floats:
    # einsum computes on one core; BLAS would use all cores for each block.
    return np.asarray(np.einsum("uv,v->u", rows, weights))


def _backward(rows: Floats, ratios: Floats) -> Floats:
    return np.asarray(np.einsum("u,uv->v", ratios, rows))


def _added(parts: Sequence[Floats]) -> Floats:
    """The sum, always in the same order."""
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


def _together(lengths: Sequence[int], most_rows: int) -> list[list[int]]:
    """Divide services among tables: each service into the first table with room, the longest first.

    Args:
        lengths: the number of cells of each service.
        most_rows: a table of several services has at most this many rows.

    Returns:
        The indexes of the services of each table.
    """
    tables: list[list[int]] = []
    rows: list[int] = []
    for axis in sorted(range(len(lengths)), key=lambda a: (-lengths[a], a)):
        fitting = [t for t, size in enumerate(rows) if size * lengths[axis] <= most_rows]
        if fitting:
            tables[fitting[0]].append(axis)
            rows[fitting[0]] *= lengths[axis]
        else:
            tables.append([axis])
            rows.append(lengths[axis])
    return tables


def _table(log_axes: Sequence[Floats], places: Sequence[Places]) -> tuple[Block, Places]:
    """The likelihoods of all combinations of some services' cells, and the combination of each kind."""
    logs, rows = log_axes[0], np.asarray(places[0], dtype=np.int32)
    for axis, digits in zip(log_axes[1:], places[1:], strict=True):
        logs = (logs[:, None, :] + axis[None, :, :]).reshape(-1, logs.shape[1])
        rows = rows * np.int32(len(axis)) + digits.astype(np.int32)
    return np.exp(logs).astype(np.float32), rows


def _on_all_cores(function: Callable[[Any], _T], items: Sequence[Any]) -> list[_T]:
    """The results in the order of the items; NumPy lets other threads run while it computes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1 or len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(function, items))
