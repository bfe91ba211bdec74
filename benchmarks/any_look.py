"""Intervals that are looked at again and again: how often any look of a series excludes the truth.

    python -m benchmarks.any_look [--series 2000] [--write docs/measured]

A series has 200 looks, each after as many more reports. Reports are not drawn, but their sums: of numbers as
normal, with the exact moments of the mechanism given each of 16 values; of categories as binomial counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from benchmarks.pages import Table, show_series
from ldpbeam.domains import Categories, Floats, Numeric
from ldpbeam.estimators.scores import scores
from ldpbeam.intervals.any_look import widening
from ldpbeam.mechanisms import CategoricalMechanism, NumericMechanism, build_mechanism

LOOKS, LEVEL, Z, EPSILON = 200, 0.95, 1.959964, 1.0
PACES = (50, 500, 5_000)
X = (np.arange(16) + 0.5) / 16
PEOPLE = X * (1.0 - X) ** 4 / (X * (1.0 - X) ** 4).sum()
SHARES = 1.0 / np.arange(1, 9) / (1.0 / np.arange(1, 9)).sum()
#: Report buckets of numbers; scores of a tail are of the cells of a study with 64 buckets.
FINE, BUCKETS = 4_096, 64
#: Joined windows: reports of a user, and the share of users who send one answer in all windows.
TIMES, LASTING = 4, 0.5


class Series(NamedTuple):
    """Series of one number: its error, its standard error and the reports that count; shape (..., looks)."""

    error: Floats
    deviation: Floats
    reports: Floats


def means(name: str, pace: int, series: int, rng: Generator) -> Series:
    """The mean of unbiased reports of numbers, as ``mean_interval`` computes it."""
    mechanism = build_mechanism(name, Numeric(0.0, 1.0), EPSILON)
    assert isinstance(mechanism, NumericMechanism)
    tail = scores(mechanism, BUCKETS)
    channel = mechanism.at(X, BUCKETS if tail else FINE)
    assert channel is not None
    first = tail.first.cells if tail else mechanism.unbiased(mechanism.representatives(FINE))
    columns = np.column_stack((first, first**2, *([tail.second.cells] if tail else [])))
    moments = channel.T @ columns
    products = np.einsum("cx,ci,cj->xij", channel, columns, columns) - np.einsum(
        "xi,xj->xij", moments, moments
    )
    people = rng.multinomial(pace, PEOPLE, (series, LOOKS)).astype(np.float64)
    roots = np.linalg.cholesky(np.einsum("slx,xij->slij", people, products))
    noise = np.einsum("slij,slj->sli", roots, rng.standard_normal((*people.shape[:2], columns.shape[1])))
    reports = pace * np.arange(1.0, LOOKS + 1.0)
    sums = (people @ moments + noise).cumsum(axis=1) / reports[:, None]
    truth = (people @ X).cumsum(axis=1) / reports
    mean, second = sums[..., 0], sums[..., 1]
    if tail:
        variance = np.clip(second - sums[..., 2], tail.first.noise.min(), tail.first.noise.max())
    else:
        c0, c1, c2 = mechanism.variance_polynomial
        inside = np.clip(mean, 0.0, 1.0)
        square = np.clip((second - c0 - c1 * mean) / (1.0 + c2), inside**2, inside)
        variance = c0 + c1 * inside + c2 * square
    return Series(mean - truth, np.sqrt(variance / reports), reports)


def shares(name: str, pace: int, series: int, rng: Generator) -> Series:
    """The unbiased shares of eight categories; shape (categories, series, looks)."""
    p, q = _supports(name)
    people = np.moveaxis(rng.multinomial(pace, SHARES, (series, LOOKS)), -1, 0)
    supports = (rng.binomial(people, p) + rng.binomial(pace - people, q)).cumsum(axis=-1)
    reports = pace * np.arange(1.0, LOOKS + 1.0)
    share = (supports / reports - q) / (p - q)
    likely = np.clip(share, 0.0, 1.0)
    variance = (likely * p * (1.0 - p) + (1.0 - likely) * q * (1.0 - q)) / (p - q) ** 2
    return Series(share - people.cumsum(axis=-1) / reports, np.sqrt(variance / reports), reports)


def joined(name: str, pace: int, series: int, rng: Generator) -> Series:
    """A share of 20% where each look brings users with several reports, of whom half send one answer."""
    p, q = _supports(name)
    times, truth = np.arange(TIMES + 1), 0.2
    chances = np.zeros(TIMES + 1)
    for share, support in ((truth, p), (1.0 - truth, q)):
        chances += share * (
            (1.0 - LASTING) * _binomial(support) + LASTING * np.where(times == 0, 1.0 - support, 0.0)
        )
        chances[TIMES] += share * LASTING * support
    users = rng.multinomial(pace // TIMES, chances, (series, LOOKS)).cumsum(axis=1)
    return _by_user(users @ times, users @ times**2, TIMES * users.sum(axis=-1), TIMES, (p, q), truth)


def same_users(name: str, pace: int, series: int, rng: Generator) -> Series:
    """The same, where all looks are at the same users, each of whom sends one more report before a look."""
    p, q = _supports(name)
    truth, paths = 0.2, []
    for _ in range(series):
        chance = np.where(rng.random(pace) < truth, p, q)
        steps = rng.random((LOOKS, pace)) < chance
        lasting = rng.random(pace) < LASTING
        counts = np.where(lasting, steps[0], steps).cumsum(axis=0, dtype=np.float64)
        paths.append((counts.sum(axis=1), (counts**2).sum(axis=1)))
    sums, squares = np.moveaxis(np.array(paths), 1, 0)
    times = np.arange(1.0, LOOKS + 1.0)
    return _by_user(sums, squares, np.broadcast_to(pace * times, sums.shape), times, (p, q), truth)


def _binomial(chance: float) -> Floats:
    """The chance of each number of supports among the reports of a user."""
    polynomial = np.ones(1)
    for _ in range(TIMES):
        polynomial = np.convolve(polynomial, [1.0 - chance, chance])
    return polynomial


def _by_user(
    supports: Floats,
    squares: Floats,
    reports: Floats,
    times: Floats | int,
    pq: tuple[float, float],
    truth: float,
) -> Series:
    """The unbiased share, with the variance by user: of users who have sent ``times`` reports each."""
    p, q = pq
    rate = supports / reports
    by_user = squares - 2.0 * rate * times * supports + (times * rate) ** 2 * (reports / times)
    share = (rate - q) / (p - q)
    likely = np.clip(share, 0.0, 1.0)
    noise = (likely * p * (1.0 - p) + (1.0 - likely) * q * (1.0 - q)) * reports
    deviation = np.sqrt(np.maximum(by_user, noise)) / (reports * (p - q))
    return Series(share - truth, deviation, reports)


def _supports(name: str) -> tuple[float, float]:
    mechanism = build_mechanism(name, Categories(tuple("abcdefgh")), EPSILON)
    assert isinstance(mechanism, CategoricalMechanism)
    assert mechanism.support_probabilities is not None
    return mechanism.support_probabilities


#: What is estimated, the function, the mechanism, and how many times as fast the second arm grows.
CELLS = (
    *(("mean", means, name, None) for name in ("square_wave", "piecewise", "laplace")),
    *(("shares", shares, name, None) for name in ("grr", "olh")),
    *(("joined windows, new users", joined, name, None) for name in ("grr", "oue")),
    ("joined windows, the same users", same_users, "grr", None),
    *(("difference of means", means, "square_wave", times) for times in (1, 4)),
    *(("difference of shares", shares, "grr", times) for times in (1, 4)),
)


def tables(series: int) -> Iterator[Table]:
    """The table."""
    lines = [
        "| what | mechanism | reports a look | any_look | excluded | excluded by one look's | width |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for seed, (what, function, name, times) in enumerate(CELLS):
        for pace in PACES[:1] if function is same_users else PACES:
            rng = np.random.default_rng((seed, pace))
            sides = [function(name, pace * arm, series, rng) for arm in (1, *([times] if times else []))]
            error = sides[0].error - sides[1].error if times else sides[0].error
            once = np.sqrt(sum(side.deviation**2 for side in sides))
            fixed = _excluded(error, Z * once)
            for narrowest in (30 * pace, 10_000):
                widths = [side.deviation * widening(LEVEL, side.reports, narrowest) for side in sides]
                width = np.sqrt(sum(of_side**2 for of_side in widths))
                ratio = (width / (Z * once)).reshape(-1, LOOKS).mean(axis=0)[9:100].max()
                arms = f"{pace:,}" + (f" and {times * pace:,}" if times else "")
                lines.append(
                    f"| {what} | {name} | {arms} | {narrowest:,} | {_excluded(error, width):.1%} | "
                    f"{fixed:.1%} | {ratio:.2f} |"
                )
    yield Table("any_look", tuple(lines))


def _excluded(error: Floats, width: Floats) -> float:
    """The share of series that are ever excluded; of several numbers the largest."""
    return float((np.abs(error) > width).any(axis=-1).mean(axis=-1).max())


if __name__ == "__main__":
    show_series(tables, __doc__)
