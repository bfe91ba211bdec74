"""The parts of a Newton step to the fixed point of EMS: smoothing, the linearised equation, the curvature."""

from __future__ import annotations

import numpy as np
import pytest
from support.asked import counts_of

from ldpbeam import Numeric
from ldpbeam.domains import Floats
from ldpbeam.estimators.curvature import curvature_of
from ldpbeam.estimators.iteration import smooth
from ldpbeam.estimators.linearised import SHIFT, Linearised, Smoothing, block_starts

UNIT = Numeric(0.0, 1.0)


def matrix_of(smoothing: Smoothing) -> Floats:
    return np.diag(smoothing.middle) + np.diag(smoothing.above, 1) + np.diag(smoothing.below, -1)


@pytest.mark.parametrize("buckets", [3, 4, 7])
def test_smoothing_is_that_of_the_updates(buckets: int) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(buckets))
    smoothing = Smoothing(buckets)
    unscaled = matrix_of(smoothing) @ weights
    np.testing.assert_allclose(unscaled / unscaled.sum(), smooth(weights), rtol=1e-14)
    assert smoothing.columns @ weights == pytest.approx(unscaled.sum(), rel=1e-14)


def block_basis(buckets: int, blocks: int) -> Floats:
    """Which block each bucket lies in, shape (blocks, buckets)."""
    block = np.repeat(np.arange(blocks), np.diff(block_starts(buckets, blocks), append=buckets))
    return np.asarray(np.arange(blocks)[:, None] == block, dtype=float)


BLOCKS = [(3, 1), (4, 2), (10, 3), (37, 18), (64, 32), (101, 7)]


@pytest.mark.parametrize(
    ("buckets", "blocks", "in_blocks"),
    [*((*sizes, True) for sizes in BLOCKS), *((20, rows, False) for rows in (1, 4, 20))],
)
def test_the_linearised_equation_is_solved(buckets: int, blocks: int, in_blocks: bool) -> None:
    rng = np.random.default_rng(buckets)
    smoothing, before = matrix_of(Smoothing(buckets)), rng.dirichlet(np.ones(buckets))
    total = (smoothing @ before).sum()
    weights, slopes = smoothing @ before / total, 1.0 + 0.3 * rng.random(buckets)
    basis = block_basis(buckets, blocks) if in_blocks else rng.random((blocks, buckets))
    root = rng.random((blocks, 2 * blocks if in_blocks else blocks))
    means, held = root @ root.T, rng.random(buckets) < 0.2
    right = rng.normal(size=buckets)
    given = () if in_blocks else (basis,)
    solution = Linearised(before, weights, slopes, means, held, *given).solve(right)
    matrix = smoothing * before / total
    columns = matrix.sum(axis=0)
    jacobian = (1.0 + SHIFT) * np.eye(buckets) - matrix / weights[:, None] + columns
    jacobian += basis.T @ means @ basis @ (matrix - np.outer(weights, columns)) / slopes[:, None]
    jacobian[held] = np.eye(buckets)[held]
    np.testing.assert_allclose(jacobian @ solution, right, atol=1e-9)


@pytest.mark.parametrize("name", ["square_wave", "piecewise", "laplace", "stochastic_rounding"])
@pytest.mark.parametrize("buckets", [256, 50])
def test_the_curvature_is_the_block_means_of_the_matrix(name: str, buckets: int) -> None:
    channel, counts = counts_of(name, 1.0, buckets, 100_000)
    seen = np.flatnonzero(counts)
    weights = np.random.default_rng(4).dirichlet(np.ones(buckets))
    of_kinds = counts[seen] / channel.matvec(weights)[seen] ** 2 / counts.sum()
    matrix = channel.dense()[seen]
    curved = matrix.T @ (of_kinds[:, None] * matrix)
    curvature = curvature_of(channel, seen)
    means = curvature.means(of_kinds)
    if curvature.basis is not None:
        np.testing.assert_allclose(curvature.basis.T @ means @ curvature.basis, curved, rtol=1e-9)
        return
    starts = block_starts(buckets, len(means))
    sizes = np.diff(starts, append=buckets)
    sums = np.add.reduceat(np.add.reduceat(curved, starts, axis=0), starts, axis=1)
    # Bands put neighbouring report buckets together too.
    np.testing.assert_allclose(means, sums / np.outer(sizes, sizes), rtol=0.1)
