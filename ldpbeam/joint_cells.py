"""Indexes of a joint histogram's cells: one 64-bit integer per cell, or several if one is too small.

A cell has one digit per axis. A *word* is a 64-bit integer that holds the digits of some axes, the first axis
changing fastest. Up to 2^62 cells need one word; more axes need more words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ldpbeam.domains import Integers

#: A word holds axes with fewer cells than this.
MOST_IN_WORD = 2**62
#: No cells, and no counts.
NONE: Integers = np.zeros(0, dtype=np.int64)


def words(shape: Sequence[int]) -> list[list[int]]:
    """The axes that each word holds: as many as fit, in order.

    Args:
        shape: the length of each axis, below 2^62.
    """
    held: list[list[int]] = [[]]
    size = 1
    for axis, length in enumerate(shape):
        if size * length >= MOST_IN_WORD:
            held.append([])
            size = 1
        held[-1].append(axis)
        size *= length
    return held


def indexes(shape: Sequence[int], digits: Sequence[Integers]) -> Integers:
    """The indexes of cells, shape (n,) if one word holds all axes, else (n, words).

    Args:
        shape: the length of each axis.
        digits: each cell's place on each axis, as many arrays of shape (n,) as there are axes.
    """
    columns = []
    for axes in words(shape):
        column, stride = np.zeros(len(digits[0]), dtype=np.int64), 1
        for axis in axes:
            column += stride * digits[axis]
            stride *= shape[axis]
        columns.append(column)
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def columns(cells: Integers) -> Integers:
    """Cells with one column per word, shape (n, words), even if there is one word."""
    return cells[:, None] if cells.ndim == 1 else cells


def digits_of(shape: Sequence[int], cells: Integers) -> Iterator[Integers]:
    """Each cell's place on each axis, in the order of the axes; the inverse of :func:`indexes`."""
    by_word = columns(cells)
    for word, axes in enumerate(words(shape)):
        # If there are no cells, there is one word, whatever the shape.
        rest = by_word[:, word] if len(cells) else np.zeros(0, dtype=np.int64)
        for axis in axes:
            yield rest % shape[axis]
            rest = rest // shape[axis]


def histogram(shape: Sequence[int], digits: Sequence[Integers]) -> tuple[Integers, Integers]:
    """(the distinct cells of users, in the order of :func:`added_up`; the number of users in each).

    Users who answered none of the joined services, cell 0, give no information, and are left out.

    Args:
        shape: the length of each axis.
        digits: each user's place on each axis, as many arrays of shape (users,) as there are axes.
    """
    cells = indexes(shape, digits)
    if math.prod(shape) <= 4 * len(cells):
        counts = np.bincount(cells, minlength=1)
        counts[0] = 0
        some = np.flatnonzero(counts)
        return some.astype(np.int64), counts[some].astype(np.int64)
    chosen = cells[cells > 0 if cells.ndim == 1 else cells.any(axis=1)]
    return added_up(chosen, np.ones(len(chosen), dtype=np.int64))


def added_up(cells: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """(the distinct cells, ascending by their first word, then by the next; their summed counts).

    Cells whose counts sum to zero are left out. If none is left, the cells have the shape (0,).
    """
    if not len(cells):
        return NONE, NONE
    order = np.argsort(cells, kind="stable") if cells.ndim == 1 else np.lexsort(cells.T[::-1])
    ordered = cells[order]
    changes = (columns(ordered)[1:] != columns(ordered)[:-1]).any(axis=1)
    starts = np.flatnonzero(np.concatenate(([True], changes)))
    sums = np.add.reduceat(counts[order], starts).astype(np.int64)
    some = sums != 0
    return (ordered[starts[some]], sums[some]) if some.any() else (NONE, NONE)
