"""The cells of the grid, and what every method makes of the same reports of one cell and seed.

Reports are those of the mechanism itself, for OLH too: every person's category is hashed. They are drawn
once per cell and seed and counted twice for numbers: in 256 buckets for the project's estimators, and in
1,024 for the released ones.
"""

from __future__ import annotations

import functools
import hashlib
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ldpbeam
from benchmarks.grid import held_out
from benchmarks.grid.methods import (
    AUTO,
    BUCKETS,
    FIXED,
    MECHANISMS,
    OF_NUMBERS,
    RELEASED_BUCKETS,
    Mechanism,
    Method,
    Ours,
    Released,
    asked,
)
from benchmarks.grid.populations import CATEGORIES, NUMBERS, Classes, Half, Numbers, Population, is_here
from benchmarks.grid.released import RELEASED
from ldpbeam import Answers, Attribute, Statistic, metrics, tally
from ldpbeam.domains import Floats
from ldpbeam.estimators import estimate
from ldpbeam.estimators.registry import registered_estimators

EPSILONS = (0.3, 1.0, 3.0)
PEOPLE = (1_000, 30_000, 1_000_000)
#: The number of people from which on there are fewer seeds, and costly mechanisms have few populations.
MANY = 1_000_000
SEEDS, SEEDS_OF_MANY = 8, 5
COSTLY: tuple[Mechanism, ...] = ("OLH", "ULE")
#: The populations of numbers and of categories.
ALL_NUMBERS: tuple[Numbers, ...] = (*NUMBERS, *held_out.NUMBERS)
ALL_CATEGORIES: tuple[Classes, ...] = (*CATEGORIES, *held_out.CATEGORIES)
POPULATIONS: dict[str, Population] = {p.name: p for p in ALL_NUMBERS} | {p.name: p for p in ALL_CATEGORIES}
#: The buckets on which distances of numbers are measured; an estimate of fewer is even within its buckets.
MEASURED = RELEASED_BUCKETS
#: The extreme quantiles of a result.
TAILS = (0.05, 0.95)


@dataclass(frozen=True)
class Cell:
    """One mechanism, population, epsilon and number of people.

    Attributes:
        mechanism: as in :data:`~benchmarks.grid.methods.MECHANISMS`.
        population: the name of a population.
        epsilon: of each service.
        people: the number of people; each reports to every service.
    """

    mechanism: Mechanism
    population: str
    epsilon: float
    people: int

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        if self.drawn_from.half == "held out":
            return held_out.SEEDS
        return SEEDS_OF_MANY if self.people >= MANY else SEEDS

    @property
    def of_numbers(self) -> bool:
        """Whether the loss is W1 (MAE otherwise)."""
        return self.mechanism in OF_NUMBERS

    @property
    def drawn_from(self) -> Population:
        """The population."""
        return POPULATIONS[self.population]


@dataclass(frozen=True)
class Result:
    """The loss of one method on one cell and seed.

    Attributes:
        mechanism: of the cell.
        population: of the cell.
        epsilon: of the cell.
        people: of the cell.
        seed: from which the people and their reports were drawn.
        method: the method's name.
        version: of the method (:func:`version`).
        loss: W1 on a domain of width 1, or MAE of the shares, against the people who were drawn.
        seconds: of CPU.
        ks: of numbers, the largest gap between the distribution functions.
        tails: of numbers, the mean absolute error of the 5% and the 95% quantile.
        squares: the mean squared error of the shares of categories, or of 256 buckets of numbers.
    """

    mechanism: Mechanism
    population: str
    epsilon: float
    people: int
    seed: int
    method: str
    version: str
    loss: float
    seconds: float
    ks: float | None = None
    tails: float | None = None
    squares: float | None = None

    @property
    def cell(self) -> Cell:
        """The cell."""
        return Cell(self.mechanism, self.population, self.epsilon, self.people)


def cells(
    halves: Sequence[Half], mechanisms: Sequence[Mechanism] = MECHANISMS, people: Sequence[int] | None = None
) -> Iterator[Cell]:
    """The cells of some halves, smaller ones first; without those whose real file is not there."""
    if people is None:
        people = held_out.PEOPLE if list(halves) == ["held out"] else PEOPLE
    for n in people:
        for mechanism in mechanisms:
            for population in ALL_NUMBERS if mechanism in OF_NUMBERS else ALL_CATEGORIES:
                few = n >= MANY and mechanism in COSTLY
                if population.half in halves and is_here(population) and (population.largest or not few):
                    for epsilon in held_out.EPSILONS if population.half == "held out" else EPSILONS:
                        yield Cell(mechanism, population.name, epsilon, n)


def methods(mechanism: Mechanism) -> tuple[Method, ...]:
    """The fixed methods, and ``auto`` once it is registered."""
    return (*FIXED[mechanism], *((AUTO,) if AUTO.estimator in registered_estimators() else ()))


def version(method: Method) -> str:
    """What the results of one method must have in common.

    For ``auto`` it is a hash of the code of all estimators and densities, its parts. A fixed method has
    its name and options only: what it gives changes only within the tolerances of tests, so that an edit of
    ``auto`` does not compute the fixed methods anew.
    """
    told = repr(sorted(asdict(method).items())).encode()
    if method == AUTO:
        for room in ("density", "estimators"):
            told += _code(Path(ldpbeam.__file__).parent / room)
    if isinstance(method, Released):
        told += _code(Path(__file__).with_name("released.py"))
    return hashlib.sha256(told).hexdigest()[:12]


@functools.cache
def _code(path: Path) -> bytes:
    """The Python code of a file, or of all files of a folder."""
    return b"".join(file.read_bytes() for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path]))


@dataclass(frozen=True)
class Drawn:
    """The reports of one cell and seed, counted.

    Attributes:
        attribute: what the project's estimators get.
        statistic: of it.
        fine: the attribute that released programs get; the same for categories.
        fine_statistic: of it.
        truth: the people's own distribution, on :data:`MEASURED` buckets for numbers.
    """

    attribute: Attribute
    statistic: Statistic
    fine: Attribute
    fine_statistic: Statistic
    truth: Floats


def draw(cell: Cell, seed: int) -> Drawn:
    """The people of a cell and seed, and their reports."""
    population = cell.drawn_from
    told = f"{cell.mechanism} {cell.population} {cell.epsilon} {cell.people}".encode()
    rng = np.random.default_rng([seed, zlib.crc32(told)])
    values = population.draw(cell.people, rng)
    if isinstance(population, Numbers):
        index = np.minimum((values * MEASURED).astype(np.int64), MEASURED - 1)
        counts, sizes = np.bincount(index, minlength=MEASURED), [BUCKETS, RELEASED_BUCKETS]
    else:
        counts, sizes = np.bincount(values, minlength=len(population.shares())), [BUCKETS]
    attributes = [asked(cell.mechanism, cell.epsilon, len(counts), buckets) for buckets in sizes]
    rows = np.arange(cell.people)
    answers = [
        Answers(index, rows, version.mechanism.perturb(values, rng))
        for index, version in enumerate(attributes[0].versions)
    ]
    statistics = [tally(attribute, cell.people, answers) for attribute in attributes]
    return Drawn(attributes[0], statistics[0], attributes[-1], statistics[-1], counts / counts.sum())


def distribution(method: Method, drawn: Drawn) -> Floats:
    """A method's distribution, shape (value buckets,)."""
    if isinstance(method, Ours):
        found = estimate(method.estimator, drawn.attribute, drawn.statistic, options=method.options)
        assert found.distribution is not None
        return found.distribution
    return RELEASED[method.function](drawn.fine, drawn.fine_statistic)


def losses(cell: Cell, found: Floats, truth: Floats) -> dict[str, float]:
    """The losses of a :class:`Result`, by name."""
    if not cell.of_numbers:
        return {
            "loss": metrics.mean_absolute_error(found, truth),
            "squares": float(np.mean((found - truth) ** 2)),
        }
    each = len(truth) // len(found)
    fine = np.repeat(found / each, each)
    edges = np.linspace(0.0, 1.0, len(truth) + 1)
    tails = [metrics.quantiles(shares, edges, TAILS) for shares in (fine, truth)]
    coarse = [shares.reshape(BUCKETS, -1).sum(axis=1) for shares in (fine, truth)]
    return {
        "loss": metrics.wasserstein(fine, truth),
        "ks": metrics.kolmogorov_smirnov(fine, truth),
        "tails": metrics.mean_absolute_error(*tails),
        "squares": float(np.mean((coarse[0] - coarse[1]) ** 2)),
    }


def results(cell: Cell, seed: int, chosen: Sequence[Method]) -> list[Result]:
    """The results of some methods on the same reports."""
    drawn = draw(cell, seed)
    found = []
    for method in chosen:
        start = time.process_time()
        shares = distribution(method, drawn)
        took = time.process_time() - start
        measured: dict[str, Any] = asdict(cell) | losses(cell, shares, drawn.truth)
        found.append(Result(seed=seed, method=method.name, version=version(method), seconds=took, **measured))
    return found
