"""Functions of reports whose means bound shares of people, whatever people's values are.

For every function v of a report, the mean of v over reports estimates the sum of x g, where x are the
shares of people at points and g = K'v. If h - g is at most some slack at every point, the sum of x h is at
most that mean plus the slack. Any v gives such a bound; this module finds those that make it narrow, given
approximate shares. They come from the dual problem: the largest sum of x h among shares x that differ from
the given ones by no more than noise. It is solved by Mehrotra's predictor-corrector method (SIAM J. Optim.
2 (4), 1992), for many h at once. An inexact solution gives a wider bound, but never a false one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from ldpbeam.domains import Floats

#: The solver stops when no bound could become narrower by more than this, as a share of all people.
NARROW_ENOUGH = 2e-3
#: Or by this part of its distance from the given shares.
NARROW_PART = 0.03
#: It also stops after this many steps; usually it takes ten.
MOST_STEPS = 20
#: A step goes this part of the way to the point where a share would become negative.
TO_THE_EDGE = 0.95
#: The start of the solver: the mean product of a share and its multiplier, and the multiplier of the noise.
FIRST_PRODUCT, FIRST_MULTIPLIER = 0.02, 0.005
#: A direction is left out if the reports of people who all move from one point to another change by fewer
#: than LEAST_SEEN standard deviations of the noise in it, and by less than a tenth of the most in any.
LEAST_SEEN = 2.0


@dataclass(frozen=True)
class Noise:
    """How far shares can be from given ones before the reports would show it.

    Attributes:
        shares: the given shares of the points, positive, with sum one, shape (points,).
        root: a matrix F; other shares differ by the length of F'(other - shares), in standard deviations of
            the noise, shape (points, directions).
        functions: the functions of reports that measure these directions, shape (report cells, directions):
            the channel's transpose maps them to ``root``.
        products: the lower triangle of each row of ``root`` times itself, shape (points, entries).
    """

    shares: Floats
    root: Floats
    functions: Floats
    products: Floats


def noise(channel: Floats, shares: Floats, reports: Floats) -> Noise:
    """How far shares can be from given ones.

    Args:
        channel: P(report cell | point), with the cells of all services stacked, shape (cells, points).
        shares: the given shares, positive, with sum one, shape (points,).
        reports: the number of reports to each cell's service, shape (cells,).
    """
    scale = np.sqrt(reports / (channel @ shares))
    left, lengths, right = np.linalg.svd(scale[:, None] * channel, full_matrices=False)
    reach = np.ptp(right, axis=1) * lengths
    seen = reach >= min(LEAST_SEEN, 0.1 * reach.max())
    root = right[seen].T * lengths[seen]
    rows, columns = np.tril_indices(root.shape[1])
    return Noise(shares, root, scale[:, None] * left[:, seen], root[:, rows] * root[:, columns])


def functions(wanted: Floats, noise: Noise, deviations: float) -> Floats:
    """Functions v of a report that bound weighted sums of shares, shape (sums, report cells).

    The mean over a service's reports is that of the service's cells alone.

    Args:
        wanted: the weight h of each point in each sum, shape (sums, points).
        noise: how far shares can be from approximate ones.
        deviations: the standard deviations of noise that a bound allows for, above 0.
    """
    x0, root, z2 = noise.shares, noise.root, deviations**2
    many, points = wanted.shape
    # Shares and their multipliers, and the slack of the noise and its multiplier; the sum's multiplier.
    x, s = np.tile(x0, (many, 1)), np.tile(FIRST_PRODUCT / x0, (many, 1))
    w, factor, level = np.full(many, 0.5 * z2), np.full(many, FIRST_MULTIPLIER), wanted @ x0
    going = np.arange(many)
    for _ in range(MOST_STEPS):
        apart = x[going] - x0
        y = apart @ root
        g = y @ root.T
        short = wanted[going] - factor[going, None] * g - level[going, None]
        excess = apart.sum(axis=1)
        beyond = 0.5 * (y * y).sum(axis=1) + w[going] - 0.5 * z2
        product = ((x[going] * s[going]).sum(axis=1) + factor[going] * w[going]) / (points + 1)
        enough = np.maximum(NARROW_ENOUGH, NARROW_PART * (wanted[going] * apart).sum(axis=1))
        rough = (product * (points + 1) > enough) | (np.abs(beyond) > 0.05 * z2)
        rough |= np.abs(short + s[going]).max(axis=1) > 5.0 * NARROW_ENOUGH
        if not rough.any():
            break
        going, product = going[rough], product[rough]
        step = _Step(
            x[going], s[going], w[going], factor[going], g[rough],
            short[rough], excess[rough], beyond[rough], noise,
        )  # fmt: skip
        first = step.towards(np.zeros_like(step.x), np.zeros(len(going)))
        reached = step.product_after(first, step.reach(first)) / (points + 1)
        centre = product * np.clip((reached / product) ** 3, 1e-6, 1.0)
        dx, ds, dw, df, _ = first
        bend = 0.5 * ((dx @ root) ** 2).sum(axis=1)
        dx, ds, dw, df, dl = second = step.towards(centre[:, None] - dx * ds, centre - df * dw, bend)
        reach = np.minimum(1.0, TO_THE_EDGE * step.reach(second))
        x[going] += reach[:, None] * dx
        s[going] += reach[:, None] * ds
        w[going], factor[going], level[going] = (
            now + reach * move for now, move in ((w[going], dw), (factor[going], df), (level[going], dl))
        )
    v = (factor[:, None] * ((x - x0) @ root)) @ noise.functions.T
    # If a solution is not finite, the function zero still bounds the sum, by the largest weight.
    return np.where(np.isfinite(v).all(axis=1, keepdims=True), v, 0.0)


_Direction = tuple[Floats, Floats, Floats, Floats, Floats]


class _Step:
    """The linear equations of one step, for all sums at once; the names are those of :func:`functions`."""

    def __init__(
        self, x: Floats, s: Floats, w: Floats, factor: Floats, g: Floats,
        short: Floats, excess: Floats, beyond: Floats, noise: Noise,
    ) -> None:  # fmt: skip
        self.x, self.s, self.w, self.factor, self.g = x, s, w, factor, g
        self.short, self.excess, self.beyond, self.root = short, excess, beyond, noise.root
        self.weights = x / s
        directions = self.root.shape[1]
        # In Fortran's order LAPACK factors a matrix in place, and it reads only one triangle.
        columns, rows = np.tril_indices(directions)
        entries = np.zeros((directions, directions), dtype=np.intp)
        entries[rows, columns] = np.arange(len(rows))
        # At the start all sums have the same matrix.
        alike = np.ptp(factor) == 0.0 and (self.weights == self.weights[0]).all()
        distinct = slice(1 if alike else None)
        inner = np.take(self.weights[distinct] @ noise.products, entries, axis=1)
        diagonal = np.arange(directions)
        inner[:, diagonal, diagonal] += 1.0 / factor[distinct, None]
        self.roots = [lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)[0] for matrix in inner]
        right = np.stack((g, np.ones_like(x), short), axis=1)
        self.of_noise, self.of_sum, self.of_short = np.moveaxis(self._solved(right), 1, 0)
        self.a = (g * self.of_noise).sum(axis=1) + w / factor
        self.b = (g * self.of_sum).sum(axis=1)
        self.c = self.of_sum.sum(axis=1)

    def _solved(self, right: Floats) -> Floats:
        """(factor root root' + diag(s / x))^-1 times some rows, shape (sums, rows, points)."""
        scaled = self.weights[:, None] * right
        inner = scaled @ self.root
        of_roots = inner.reshape(len(self.roots), -1, inner.shape[2])
        solved = [
            lapack.dpotrs(of_one, rows.T, lower=1)[0].T
            for of_one, rows in zip(self.roots, of_roots, strict=True)
        ]
        return np.asarray(scaled - self.weights[:, None] * (np.reshape(solved, inner.shape) @ self.root.T))

    def towards(self, products: Floats, last: Floats, bend: Floats | float = 0.0) -> _Direction:
        """The move that gives all products of a share and its multiplier some values."""
        x, s, w, factor = self.x, self.s, self.w, self.factor
        free = self._solved((self.short + products / x)[:, None])[:, 0] if products.any() else self.of_short
        first = (self.g * free).sum(axis=1) + self.beyond + bend + last / factor - w
        second = free.sum(axis=1) + self.excess
        determinant = self.a * self.c - self.b**2
        df = (first * self.c - second * self.b) / determinant
        dl = (self.a * second - first * self.b) / determinant
        dx = free - self.of_noise * df[:, None] - self.of_sum * dl[:, None]
        return dx, (products - s * dx) / x - s, (last - w * df) / factor - w, df, dl

    def reach(self, direction: _Direction) -> Floats:
        """How far each move can go, at most 1, before a share, a multiplier or a slack is zero."""
        dx, ds, dw, df, _ = direction
        fastest = np.maximum((-dx / self.x).max(axis=1), (-ds / self.s).max(axis=1))
        fastest = np.maximum(fastest, np.maximum(-dw / self.w, -df / self.factor))
        return np.asarray(1.0 / np.maximum(1.0, fastest))

    def product_after(self, direction: _Direction, reach: Floats) -> Floats:
        """The sum of the products of shares and multipliers after a move."""
        dx, ds, dw, df, _ = direction
        x, s = self.x + reach[:, None] * dx, self.s + reach[:, None] * ds
        return np.asarray((x * s).sum(axis=1) + (self.w + reach * dw) * (self.factor + reach * df))
