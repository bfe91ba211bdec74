"""The linear equation of one Newton step towards the fixed point of EMS, solved in time O(buckets).

Let u be weights before they are smoothed, w = S u / s with s = sum(S u), and g = A' (c / A w) / n. At the
fixed point u = w g. Newton's method in log u solves J d = log(w g) - log u, with

    J = (I - diag(1/w) S U / s) + 1 m' + diag(1/g) H (S U / s - w m'),

where U = diag(u), m has the column sums of S U / s, and H = A' diag(c / (n (A w)^2)) A. The first bracket is
tridiagonal. H has one row per bucket, but it is smooth, because a noisy channel blurs. Its entries are
replaced by their means over blocks of neighbouring buckets. With few kinds of observations, H has a low rank.
With K blocks or rank K, J is a tridiagonal matrix plus one of rank K + 1, and its inverse takes one dense
system of that size (Woodbury's formula).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, lu_factor, lu_solve
from scipy.linalg.lapack import dgtsv

from ldpbeam.domains import Floats, Integers

#: Added to the diagonal of the tridiagonal matrix, which would otherwise be singular.
SHIFT = 3e-6
#: Slower growth per update is ignored.
SLOWEST_GROWTH = 1e-6


class Smoothing:
    """The smoothing matrix S of EMS: its three diagonals.

    Attributes:
        below: S[i + 1, i], shape (buckets - 1,).
        middle: S[i, i], shape (buckets,).
        above: S[i, i + 1], shape (buckets - 1,).
        columns: the sum of each column, shape (buckets,).
    """

    def __init__(self, buckets: int) -> None:
        self.below, self.above = np.full(buckets - 1, 0.25), np.full(buckets - 1, 0.25)
        self.middle = np.full(buckets, 0.5)
        self.middle[[0, -1]] = 2.0 / 3.0
        self.above[0] = self.below[-1] = 1.0 / 3.0
        self.columns = self.middle.copy()
        self.columns[1:] += self.above
        self.columns[:-1] += self.below

    def growing(self, weights: Floats, slopes: Floats) -> Floats | None:
        """The shares with which faint weights would grow under updates of a fixed point; None if none would.

        Updates of faint weights are linear: w <- S diag(g) w. At the fixed point, the weights are a positive
        eigenvector of this matrix, so their eigenvalue is the largest (Perron and Frobenius). If there is a
        larger eigenvalue, its eigenvector grows, however faint it is.
        """
        beside = np.sqrt(self.above * slopes[1:] * self.below * slopes[:-1])
        top = len(slopes) - 1
        values, vectors = eigh_tridiagonal(self.middle * slopes, beside, select="i", select_range=(top, top))
        if values[0] <= (self.columns @ (weights * slopes)) * (1.0 + SLOWEST_GROWTH):
            return None
        shares = np.abs(vectors[:, 0]) / np.sqrt(slopes)
        return np.asarray(shares / shares.sum())


def block_starts(buckets: int, blocks: int) -> Integers:
    """The first bucket of each block, shape (blocks,); a bucket belongs to the block with its midpoint."""
    return np.ceil(np.arange(blocks) * buckets / blocks - 0.5).astype(np.int64).clip(0)


def blocks_of(buckets: int, blocks: int) -> tuple[Integers, Integers]:
    """The first bucket of each block and the number of its buckets, shape (blocks,) each."""
    starts = block_starts(buckets, blocks)
    return starts, np.diff(starts, append=buckets)


class Linearised:
    """J at given weights, where H = B' M B.

    Args:
        before: u, shape (buckets,), all above zero.
        weights: w = S u / sum(S u), shape (buckets,).
        slopes: g, shape (buckets,), all above zero.
        means: M, shape (rows, rows).
        held: the buckets whose u stays, bool, shape (buckets,): their rows of J are those of the identity.
        basis: B, shape (rows, buckets). By default a row is one in a block of buckets and zero elsewhere, and
            M has the means of H over pairs of blocks, which are at most half as many as the buckets.
    """

    def __init__(
        self,
        before: Floats,
        weights: Floats,
        slopes: Floats,
        means: Floats,
        held: NDArray[np.bool_],
        basis: Floats | None = None,
    ) -> None:
        buckets = len(before)
        smoothing = Smoothing(buckets)
        # S U / s, and the tridiagonal matrix I - diag(1/w) S U / s.
        scaled = before / float(smoothing.columns @ before)
        self._below, self._above = smoothing.below * scaled[:-1], smoothing.above * scaled[1:]
        self._middle, self._columns = smoothing.middle * scaled, smoothing.columns * scaled
        self.free = np.where(held, 0.0, 1.0)
        self.lower = -self._below / weights[1:] * self.free[1:]
        self.upper = -self._above / weights[:-1] * self.free[:-1]
        self.diagonal = 1.0 + self.free * (SHIFT - self._middle / weights)
        self.per_slope = self.free / slopes
        self.means, self.basis = means, basis
        self.starts, self.sizes = blocks_of(buckets, len(means))
        self.shares = self._projected(weights)[1:]
        response = self._responses()
        onto = response[:, 1:] @ means
        system = np.column_stack((response[:, 0] - onto @ self.shares, onto))
        system[np.diag_indices(len(system))] += 1.0
        self.factors = lu_factor(system, overwrite_a=True, check_finite=False)

    def solve(self, right: Floats) -> Floats:
        """The solution d of J d = ``right``, shape (buckets,).

        Raises:
            np.linalg.LinAlgError: if no solution is finite.
        """
        moved = self._moved(_tridiagonal(self.lower, self.diagonal, self.upper, right))
        projected = lu_solve(self.factors, self._projected(moved), check_finite=False)
        curved = self.means @ (projected[1:] - self.shares * projected[0])
        spread = np.repeat(curved, self.sizes) if self.basis is None else curved @ self.basis
        right = right - self.free * projected[0] - self.per_slope * spread
        solution = _tridiagonal(self.lower, self.diagonal, self.upper, right)
        if not np.isfinite(solution).all():
            raise np.linalg.LinAlgError("the solution is not finite")
        return solution

    def _projected(self, x: Floats) -> Floats:
        """The sum of x, and then B x, shape (1 + rows,)."""
        rows = np.add.reduceat(x, self.starts) if self.basis is None else self.basis @ x
        return np.append(x.sum(), rows)

    def _moved(self, d: Floats) -> Floats:
        """S U d / s for each row of d, shape (..., buckets)."""
        moved: Floats = self._middle * d
        moved[..., :-1] += self._above * d[..., 1:]
        moved[..., 1:] += self._below * d[..., :-1]
        return moved

    def _responses(self) -> Floats:
        """:meth:`_projected` of S U T^-1 R / s for the tridiagonal T, shape (1 + rows, 1 + rows).

        The columns of R are ``free``, and ``per_slope`` times each row of B. The last bucket of a block
        separates it from the next block. Given x at the separating buckets, x inside a block is a combination
        of four solutions, which are found for all blocks at once. What remains is tridiagonal in the
        separating buckets.
        """
        if self.basis is not None:
            right = np.vstack((self.free, self.per_slope * self.basis)).T
            moved = self._moved(_tridiagonal(self.lower, self.diagonal, self.upper, right).T)
            return np.vstack((moved.sum(axis=1), self.basis @ moved.T))
        buckets, blocks, starts = len(self.free), len(self.means), self.starts
        ends = np.append(starts[1:], buckets) - 1
        lower, diagonal, upper = self.lower.copy(), self.diagonal.copy(), self.upper.copy()
        right_sides = np.zeros((buckets, 4), order="F")
        # The response to x at the last bucket of the block before, to x at the last of this one, and to R.
        right_sides[starts[1:], 0] = -lower[ends[:-1]]
        inside = ends > starts
        right_sides[ends[inside] - 1, 1] = -upper[ends[inside] - 1]
        right_sides[:, 2], right_sides[:, 3] = self.per_slope, self.free
        diagonal[ends] = 1.0
        upper[ends[:-1]] = lower[ends[:-1]] = 0.0
        lower[ends[ends > 0] - 1] = upper[ends[ends > 0] - 1] = 0.0
        right_sides[ends] = [0.0, 1.0, 0.0, 0.0]
        left, right, slope, one = _tridiagonal(lower, diagonal, upper, right_sides).T
        before = np.where(ends > 0, np.append(0.0, self.lower)[ends], 0.0)
        after = np.append(self.upper, 0.0)[ends]
        previous, following = np.maximum(ends - 1, 0), np.minimum(ends + 1, buckets - 1)
        block = np.arange(blocks)
        at_ends = np.zeros((blocks, blocks + 1), order="F")
        at_ends[:, 0] = self.free[ends] - before * one[previous] - after * one[following]
        at_ends[block, block + 1] = self.per_slope[ends] - before * slope[previous]
        at_ends[block[:-1], block[1:] + 1] = -after[:-1] * slope[following[:-1]]
        middle = before * right[previous] + self.diagonal[ends] + after * left[following]
        ends_x = _tridiagonal((before * left[previous])[1:], middle, (after * right[following])[:-1], at_ends)
        # Block sums of S U x / s: what stays inside, and what comes over both borders.
        stays = self._columns.copy()
        stays[starts[1:]] -= self._above[starts[1:] - 1]
        stays[ends[:-1]] -= self._below[ends[:-1]]
        from_left, from_right, from_slope, from_one = (
            np.add.reduceat(stays * part, starts) for part in (left, right, slope, one)
        )
        over = np.append(self._above[ends[:-1]], 0.0)
        sums: Floats = (from_right + over * left[following])[:, None] * ends_x
        sums[1:] += (from_left[1:] + self._below[ends[:-1]])[:, None] * ends_x[:-1]
        sums[:-1] += (over * right[following])[:-1, None] * ends_x[1:]
        sums[:, 0] += from_one + over * one[following]
        sums[block, block + 1] += from_slope
        sums[block[:-1], block[1:] + 1] += (over * slope[following])[:-1]
        return np.vstack((sums.sum(axis=0), sums))


def _tridiagonal(lower: Floats, diagonal: Floats, upper: Floats, right: Floats) -> Floats:
    """The solution of a tridiagonal system, by LAPACK.

    Raises:
        np.linalg.LinAlgError: if it is singular.
    """
    if len(diagonal) == 1:
        return right / diagonal
    *_, solution, info = dgtsv(lower, diagonal, upper, right)
    if info:
        raise np.linalg.LinAlgError("the tridiagonal matrix is singular")
    return np.asarray(solution)
