"""Tables of pairs: margins that hold, dependences that are found, and a test with its size."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.domains import Floats
from ldpbeam.estimators.pairs.answer import certain_shares, independence
from ldpbeam.estimators.pairs.dependence import Cells, Fit, Side, dependent, draws, fits, scaled, weights
from ldpbeam.mechanisms.categories.randomised_response import RandomisedResponse
from ldpbeam.mechanisms.numbers.square_wave import SquareWave

BUCKETS, REPORTS = 16, 32


def cells_of(table: Floats, people: int, rng: np.random.Generator, rows: tuple[Floats, Floats]) -> Cells:
    """The users in each pair of cells, drawn from a table."""
    expected = rows[0] @ table @ rows[1].T
    counts = rng.multinomial(people, expected.ravel() / expected.sum())
    return Cells.of(rows, np.indices(expected.shape).reshape(2, -1), counts)


def of_numbers(table: Floats, people: int, epsilon: float, seed: int) -> tuple[Cells, tuple[Side, Side]]:
    rows = SquareWave(epsilon).channel(BUCKETS, REPORTS).dense()
    cells = cells_of(table, people, np.random.default_rng(seed), (rows, rows))
    return cells, (Side(table.sum(axis=1), True), Side(table.sum(axis=0), True))


def normal(correlation: float) -> Floats:
    """A table of two normals."""
    x = np.linspace(-2.0, 2.0, BUCKETS)
    heights = correlation / (1.0 - correlation**2) * np.outer(x, x)
    margin = np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum()
    return scaled(heights, margin, margin)


def average(found: list[Fit]) -> Floats:
    return np.asarray(sum(chance * fit.table for chance, fit in zip(weights(found), found, strict=True)))


def test_scaled_tables_have_their_margins() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.dirichlet(np.ones(5), 3), rng.dirichlet(np.ones(7), 3)
    tables = scaled(4.0 * rng.standard_normal((3, 5, 7)), first, second)
    assert np.allclose(tables.sum(axis=2), first) and np.allclose(tables.sum(axis=1), second)


def test_the_gradient_of_a_fit_is_zero_at_its_mode() -> None:
    table = normal(0.6)
    cells, sides = of_numbers(table, 20_000, 2.0, 2)
    found = fits(cells, sides)
    best = max(found, key=lambda fit: fit.evidence)
    for near in (normal(0.5), normal(0.7)):
        assert cells.log_likelihood(best.table) > cells.log_likelihood(near) - 1.0
    assert np.allclose(best.table.sum(axis=0), sides[1].margin)


def test_normals_are_found_and_independence_is_kept() -> None:
    cells, sides = of_numbers(normal(0.6), 50_000, 1.0, 3)
    found = fits(cells, sides)
    product = np.outer(sides[0].margin, sides[1].margin)
    assert dependent(found) > 0.99 and independence(cells, sides) < 1e-6
    assert np.abs(average(found) - normal(0.6)).sum() < 0.45 * np.abs(product - normal(0.6)).sum()
    cells, sides = of_numbers(product, 50_000, 1.0, 4)
    assert dependent(fits(cells, sides)) < 0.1


def test_what_no_copula_has_is_found() -> None:
    x = np.linspace(-1.0, 1.0, BUCKETS)
    table = scaled(
        -20.0 * (np.abs(x)[:, None] - 0.5 - 0.5 * x) ** 2, np.full(BUCKETS, 1 / 16), np.full(BUCKETS, 1 / 16)
    )
    cells, sides = of_numbers(table, 50_000, 2.0, 5)
    product = np.outer(sides[0].margin, sides[1].margin)
    assert np.abs(average(fits(cells, sides)) - table).sum() < 0.3 * np.abs(product - table).sum()


def test_independent_reports_are_refused_as_often_as_the_level_says() -> None:
    margin = np.array([0.5, 0.3, 0.2])
    rows = RandomisedResponse(1.0, 3).channel(3, 0).dense()
    rng, sides = np.random.default_rng(6), (Side(margin, False), Side(margin, False))
    values = [
        independence(cells_of(np.outer(margin, margin), 3_000, rng, (rows, rows)), sides)
        for _ in range(2_000)
    ]
    assert 0.036 < np.mean(np.array(values) < 0.05) < 0.064


def test_draws_spread_as_estimates_do() -> None:
    table, rng = normal(0.6), np.random.default_rng(7)
    x = np.arange(BUCKETS)

    def covariance(tables: Floats) -> Floats:
        return np.asarray((tables @ x) @ x - (tables.sum(axis=-1) @ x) * (tables.sum(axis=-2) @ x))

    estimated, spread = [], []
    for seed in range(12):
        cells, sides = of_numbers(table, 20_000, 2.0, 100 + seed)
        found = fits(cells, sides)
        margins = np.tile(sides[0].margin, (200, 1)), np.tile(sides[1].margin, (200, 1))
        estimated.append(float(covariance(average(found))))
        spread.append(covariance(draws(found, sides, margins, weights(found), rng)).std())
    assert np.mean(spread) == pytest.approx(np.std(estimated), rel=0.6)
    assert np.mean(estimated) == pytest.approx(float(covariance(table)), rel=0.05)


def test_many_cells_give_what_all_cells_give() -> None:
    table = normal(0.6)
    cells, _ = of_numbers(table, 5_000, 2.0, 8)
    some = cells.counts > 0
    sparse = Cells(cells.rows, cells.places[:, some], cells.counts[some], False)
    assert sparse.log_likelihood(table) == pytest.approx(cells.log_likelihood(table))
    assert np.allclose(sparse.pulls(table), cells.pulls(table))


def test_certain_shares_of_categories_hold_as_often_as_they_say() -> None:
    table = np.array([[0.30, 0.02, 0.08], [0.05, 0.25, 0.00], [0.10, 0.10, 0.10]])
    rows, rng = RandomisedResponse(1.0, 3).channel(3, 0).dense(), np.random.default_rng(9)
    for given, true in enumerate((table, table.T)):
        shares, held = true / true.sum(axis=1, keepdims=True), []
        for _ in range(300):
            ends = certain_shares(cells_of(table, 4_000, rng, (rows, rows)), given, 0.95)
            assert ends is not None
            held.append((ends[0] <= shares) & (shares <= ends[1]))
        assert 0.94 < np.mean(held) < 0.975


def test_where_a_category_may_have_nobody_its_shares_are_not_known() -> None:
    table = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    rows = RandomisedResponse(1.0, 3).channel(3, 0).dense()
    cells = cells_of(table, 2_000, np.random.default_rng(4), (rows, rows))
    ends = certain_shares(cells, 0, 0.95)
    assert ends is not None and ends[0][0, 0] > 0.2 and (ends[0][1] == 0).all() and (ends[1][1] == 1).all()
    some = Cells((2 * rows, rows), cells.places, cells.counts, True)
    assert certain_shares(some, 0, 0.95) is None
