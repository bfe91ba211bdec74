"""How two attributes depend on each other: tables with given margins, averaged by evidence.

The shares of a table with margins r and c are p_ij = r_i c_j exp(a_i + b_j + t_ij) (Goodman, J. Amer.
Statist. Assoc. 74 (1979) 537-552): any t is a dependence, and a and b follow from the margins. Here t is
U Z V', where the columns of U and V are functions of a value. For numbers these are the normal score and
cosines of the rank, made orthonormal, so that the first coefficient alone is the Gaussian copula; for
categories they are contrasts. The coefficients have normal priors of several widths. For each width we find
the mode of Z and the evidence (Laplace's method); independence is Z = 0.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.sparse import csr_array
from scipy.special import ndtri

from ldpbeam.domains import Floats, Integers

#: The number of functions of a numeric attribute; and the number of largest categories that have contrasts.
FUNCTIONS, LARGEST = 6, 31
#: The widths of priors; the widths for the Gaussian copula; the ratio of each function's width to the last.
WIDTHS, WIDTHS_OF_COPULA, DECAY = (0.1, 0.4, 1.5, 6.0, 25.0), (0.3, 1.5, 8.0, 40.0), 0.8
#: How many times likelier a dependence must make the reports to have half of the weight.
ODDS = 20.0
#: Up to MOST_PAIRS pairs of cells are all used; if there are more, SOME_PAIRS of those that have users.
MOST_PAIRS, SOME_PAIRS = 2**14, 2**11
#: An iteration ends when the log posterior would gain less than this.
LEAST_GAIN, MOST_STEPS, MOST_HALVINGS = 1e-3, 60, 20
#: Scaling ends when the relative change of every factor is below this.
SCALED, MOST_SCALINGS, SCALINGS_OF_DRAWS = 1e-9, 3_000, 200
#: The least exp(t) relative to the largest of its row: below it, scaling would lose the entry.
_LEAST = 1e-150


@dataclass(frozen=True, eq=False)
class Cells:
    """The users in each pair of report cells, and the likelihood of each cell.

    Attributes:
        rows: for each attribute P(cell | value bucket), up to a factor per cell; shape (cells, buckets).
        places: the cells of both attributes in each pair, shape (2, pairs).
        counts: the users in each pair, shape (pairs,).
        complete: whether the pairs are all pairs of cells, in order.
    """

    rows: tuple[Floats, Floats]
    places: Integers
    counts: Floats
    complete: bool

    @classmethod
    def of(cls, rows: tuple[Floats, Floats], places: Integers, counts: Integers) -> Cells:
        """The cells of users; all pairs of cells if these are few."""
        shape = len(rows[0]), len(rows[1])
        if shape[0] * shape[1] > MOST_PAIRS:
            return cls(rows, places, counts.astype(np.float64), False)
        flat = np.bincount(places[0] * shape[1] + places[1], counts, minlength=shape[0] * shape[1])
        return cls(rows, np.indices(shape).reshape(2, -1), flat.astype(np.float64), True)

    @functools.cached_property
    def users(self) -> float:
        """The number of users."""
        return float(self.counts.sum())

    def probabilities(self, table: Floats) -> Floats:
        """The probability of each pair of cells, up to factors of the cells, shape (pairs,)."""
        by_first = self.rows[0] @ table
        if self.complete:
            return np.asarray((by_first @ self.rows[1].T).ravel())
        return np.asarray(np.einsum("pj,pj->p", by_first[self.places[0]], self.rows[1][self.places[1]]))

    def log_likelihood(self, table: Floats) -> float:
        """The log-likelihood of a table, up to a constant."""
        probabilities = self.probabilities(table)
        return float(self.counts @ np.log(np.maximum(probabilities, 1e-300)))

    def pulls(self, table: Floats) -> Floats:
        """The derivative of the log-likelihood by each share, shape (first buckets, second buckets)."""
        ratios = self.counts / np.maximum(self.probabilities(table), 1e-300)
        shape = len(self.rows[0]), len(self.rows[1])
        return np.asarray(self.rows[0].T @ (csr_array((ratios, tuple(self.places)), shape) @ self.rows[1]))

    def information(self, table: Floats, tangents: Floats) -> Floats:
        """Fisher's information of directions of tables, shape (directions, directions).

        It is that of all pairs of cells, or of a sample of those that have users.
        """
        probabilities = np.maximum(self.probabilities(table), 1e-300)
        if self.complete:
            slopes = np.matmul(np.matmul(self.rows[0], tangents), self.rows[1].T).reshape(len(tangents), -1)
            return np.asarray(self.users * (slopes / probabilities) @ slopes.T)
        step = -(-len(self.counts) // SOME_PAIRS)
        first, second = self.places[:, ::step]
        counts = self.counts[::step] * (self.users / self.counts[::step].sum())
        slopes = np.stack(
            [np.einsum("pj,pj->p", self.rows[0][first] @ move, self.rows[1][second]) for move in tangents]
        )
        return np.asarray((slopes * (counts / probabilities[::step] ** 2)) @ slopes.T)


@dataclass(frozen=True, eq=False)
class Side:
    """One attribute of a pair.

    Attributes:
        margin: the share of each value bucket, above zero, shape (buckets,).
        ordered: whether the buckets are of numbers.
    """

    margin: Floats
    ordered: bool

    @functools.cached_property
    def functions(self) -> Floats:
        """The functions of a value that dependences consist of, shape (buckets, functions)."""
        size = len(self.margin)
        if not self.ordered:
            largest = np.sort(np.argsort(-self.margin, kind="stable")[: min(LARGEST, size - 1)])
            return np.linalg.qr(np.column_stack((np.ones(size), np.eye(size)[:, largest])))[0][:, 1:]
        below = np.cumsum(self.margin) - 0.5 * self.margin
        waves = np.cos(np.pi * np.outer(below, np.arange(min(FUNCTIONS, size - 1))))
        root = np.sqrt(self.margin)[:, None]
        orthonormal, triangle = np.linalg.qr(
            np.column_stack((waves[:, :1], ndtri(below), waves[:, 1:])) * root
        )
        return np.asarray((orthonormal * np.sign(np.diag(triangle)) / root)[:, 1:])

    @property
    def widths(self) -> Floats:
        """The width of each function's prior, relative to the first."""
        several = self.functions.shape[1]
        return np.asarray(DECAY ** np.arange(several)) if self.ordered else np.ones(several)


@dataclass(frozen=True, eq=False)
class Fit:
    """The likeliest dependence under one prior.

    Attributes:
        copula: whether only the coefficient of the Gaussian copula is free.
        table: its shares, shape (first buckets, second buckets).
        coefficients: the coefficients Z, shape (first functions, second functions).
        free: the coefficients that are not fixed at zero, shape (first functions, second functions).
        root: the lower Cholesky factor of the precision of the free coefficients.
        evidence: the log of the marginal likelihood, relative to that of independence.
    """

    copula: bool
    table: Floats
    coefficients: Floats
    free: NDArray[np.bool_]
    root: Floats
    evidence: float


def scaled(heights: Floats, first: Floats, second: Floats, most: int = MOST_SCALINGS) -> Floats:
    """Tables with given margins, whose logarithms are heights plus a number per row and per column.

    Args:
        heights: the heights t, shape (..., first buckets, second buckets).
        first: the margins of the first attribute, shape (..., first buckets).
        second: the margins of the second attribute, shape (..., second buckets).
        most: the most iterations of proportional fitting (Deming and Stephan, 1940).
    """
    raised = np.maximum(np.exp(heights - heights.max(axis=-1, keepdims=True)), _LEAST)
    turned, columns = np.swapaxes(raised, -1, -2), np.ones_like(second)
    for _ in range(most):
        rows = first / (raised @ columns[..., None])[..., 0]
        before, columns = columns, second / (turned @ rows[..., None])[..., 0]
        if np.abs(columns / before - 1.0).max() < SCALED:
            break
    rows = first / (raised @ columns[..., None])[..., 0]
    return np.asarray(rows[..., None] * raised * columns[..., None, :])


def fits(cells: Cells, sides: tuple[Side, Side]) -> list[Fit]:
    """The likeliest dependence under each prior."""
    independent = np.outer(sides[0].margin, sides[1].margin)
    none = cells.log_likelihood(independent)
    shape = sides[0].functions.shape[1], sides[1].functions.shape[1]
    start, fitted = np.zeros(shape), []
    for widths, copula in _priors(sides, shape):
        fit = _fit(cells, sides, widths, start, none, copula=copula)
        start = fit.coefficients
        fitted.append(fit)
    return fitted


def _priors(sides: tuple[Side, Side], shape: tuple[int, int]) -> Iterator[tuple[Floats, bool]]:
    """(the widths of coefficients, whether only that of the copula is above zero)."""
    of_copula = WIDTHS_OF_COPULA if all(side.ordered for side in sides) else (0.0,)
    for first in of_copula:
        if first:
            yield np.pad([[first]], ((0, shape[0] - 1), (0, shape[1] - 1))), True
        for width in (width for width in WIDTHS if not first or width <= first):
            widths = width * np.outer(sides[0].widths, sides[1].widths)
            widths[0, 0] = max(widths[0, 0], first)
            yield widths, False


def _fit(
    cells: Cells,
    sides: tuple[Side, Side],
    widths: Floats,
    start: Floats,
    none: float,
    *,
    copula: bool,
) -> Fit:
    """Newton's method with Fisher's information; a step is halved until the posterior grows."""
    (first, second), (u, v) = (side.margin for side in sides), (side.functions for side in sides)
    free = widths > 0.0
    prior = widths[free] ** -2

    def at(z: Floats) -> tuple[Floats, float]:
        table = scaled(u @ z @ v.T, first, second)
        return table, cells.log_likelihood(table) - none - 0.5 * float(prior @ z[free] ** 2)

    z = np.where(free, start, 0.0)
    table, value = at(z)
    for _ in range(MOST_STEPS):
        tangents = _tangents(table, u, v, first, second)[free.ravel()]
        precision = cells.information(table, tangents) + np.diag(prior)
        slope = np.tensordot(tangents, cells.pulls(table), 2) - prior * z[free]
        factor = cho_factor(precision, lower=True)
        step = cho_solve(factor, slope)
        gain = float(slope @ step)
        if gain < LEAST_GAIN:
            break
        for halving in range(MOST_HALVINGS):
            moved = z.copy()
            moved[free] += 0.5**halving * step
            reached = at(moved)
            if reached[1] > value + 1e-4 * 0.5**halving * gain:
                break
        else:
            break
        z, (table, value) = moved, reached
    root = np.tril(factor[0])
    evidence = value + 0.5 * float(np.log(prior).sum()) - float(np.log(np.diag(root)).sum())
    return Fit(copula, table, z, free, root, evidence)


def _tangents(table: Floats, u: Floats, v: Floats, first: Floats, second: Floats) -> Floats:
    """The derivatives of a table with fixed margins by its coefficients, shape (coefficients, *table)."""
    rows = (u[:, :, None] * (table @ v)[:, None, :]).reshape(len(u), -1)
    columns = (v[:, None, :] * (table.T @ u)[:, :, None]).reshape(len(v), -1)
    # A constant could move from rows to columns; the outer product fixes it.
    system = np.diag(second) - table.T @ (table / first[:, None]) + np.outer(second, second)
    of_columns = np.linalg.solve(system, columns - table.T @ (rows / first[:, None]))
    of_rows = (rows - table @ of_columns) / first[:, None]
    products = np.einsum("ik,jl->klij", u, v).reshape(-1, *table.shape)
    return np.asarray(table * (products - of_rows.T[:, :, None] - of_columns.T[:, None, :]))


def weights(fitted: Sequence[Fit], *, tempered: float = 1.0) -> Floats:
    """The weight of each fit by its evidence, shape (fits,), without independence."""
    evidence = tempered * np.array([fit.evidence for fit in fitted])
    relative = np.exp(evidence - evidence.max())
    return np.asarray(relative / relative.sum())


def dependent(fitted: Sequence[Fit]) -> float:
    """The weight of all dependences together, against independence."""
    evidence = np.array([fit.evidence for fit in fitted])
    log = float(np.logaddexp.reduce(evidence)) - np.log(len(fitted) * ODDS)
    return float(1.0 / (1.0 + np.exp(-np.clip(log, -500.0, 500.0))))


def draws(
    fitted: Sequence[Fit],
    sides: tuple[Side, Side],
    margins: tuple[Floats, Floats],
    chances: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Tables drawn from the posterior, shape (draws, first buckets, second buckets).

    They are linear in the coefficients around each mode. So single shares may be negative, but the draws have
    the mean of the modes, which draws of exponentials would not have.

    Args:
        fitted: the fits.
        sides: the two attributes.
        margins: draws of both margins, each of shape (draws, buckets), above zero.
        chances: the weight of each fit.
        rng: the source of the draws.
    """
    many = len(margins[0])
    first, second, u, v = *(side.margin for side in sides), *(side.functions for side in sides)
    chosen = np.searchsorted(np.cumsum(chances), (np.arange(many) + 0.5) / many).clip(0, len(fitted) - 1)
    tables = np.empty((many, len(first), len(second)))
    for index in np.unique(chosen).tolist():
        fit, rows = fitted[index], np.flatnonzero(chosen == index)
        heights = np.broadcast_to(u @ fit.coefficients @ v.T, (len(rows), len(first), len(second)))
        moved = solve_triangular(fit.root.T, rng.standard_normal((len(fit.root), len(rows))))
        tangents = _tangents(fit.table, u, v, first, second)[fit.free.ravel()]
        tables[rows] = scaled(heights, margins[0][rows], margins[1][rows], SCALINGS_OF_DRAWS)
        # Rows and columns with fewer people in a draw have proportionally less noise.
        fewer = [
            np.minimum(drawn[rows] / at, 1.0) for drawn, at in zip(margins, (first, second), strict=True)
        ]
        noise = np.tensordot(moved.T, tangents, 1)
        tables[rows] += noise * fewer[0][:, :, None] * fewer[1][:, None, :]
    return tables
