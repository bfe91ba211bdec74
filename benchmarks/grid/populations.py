"""The populations of the grid, each by name in the tuning or in the reporting half, or held out.

Every shape is there twice, with other parameters in each half, for numbers on [0, 1] and for categories.
`auto` is tuned on the tuning half only; its figures are those of the reporting half. No column of a real file
is in both halves. What is held out (:mod:`benchmarks.grid.held_out`) is read once, before a release.

The labels of categories have an order in "smooth" and "two humps" (as classes of age have one); in the other
shapes they are shuffled, with a fixed seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from scipy import special

from ldpbeam.domains import Floats, Integers

Half = Literal["tuning", "reporting", "held out"]
HALVES: tuple[Half, ...] = get_args(Half)

#: The folder of the real files, beside the project; the grid leaves out what is not there.
DATA = Path(__file__).parents[3] / "shared" / "data"
INCOMES, DIAMONDS = "irs-income-2013-by-zip.csv", "diamonds.csv"
#: Incomes above this, in thousand dollars, and prices above this, in dollars, are clipped, as a study does.
LARGEST_INCOME, LARGEST_PRICE = 200.0, 20_000.0


@dataclass(frozen=True)
class Numbers:
    """A population of numbers on [0, 1].

    Attributes:
        name: the name in tables.
        half: the half that it is in.
        quantile: the value at each of some probabilities in [0, 1), shape (n,) to (n,).
        file: the real file that it needs, or the package of what is held out; empty if none.
        largest: whether the costly mechanisms get 1,000,000 people of it too.
        apart: whether its losses are told as they are, not relative to another method's.
    """

    name: str
    half: Half
    quantile: Callable[[Floats], Floats]
    file: str = ""
    largest: bool = False
    apart: bool = False

    def draw(self, people: int, rng: np.random.Generator) -> Floats:
        """Values of people, shape (people,)."""
        return np.clip(self.quantile(rng.random(people)), 0.0, 1.0)


@dataclass(frozen=True)
class Classes:
    """A population of categories.

    Attributes:
        name: the name in tables.
        half: the half that it is in.
        shares: a function that gives the share of each category, shape (categories,), with sum 1.
        file: the real file that it needs, or the package of what is held out; empty if none.
        largest: whether the costly mechanisms get 1,000,000 people of it too.
        apart: whether its losses are told as they are, not relative to another method's.
    """

    name: str
    half: Half
    shares: Callable[[], Floats]
    file: str = ""
    largest: bool = False
    apart: bool = False

    def draw(self, people: int, rng: np.random.Generator) -> Integers:
        """Categories of people, shape (people,)."""
        counts = rng.multinomial(people, self.shares())
        return np.repeat(np.arange(len(counts)), counts).astype(np.int64)


Population = Numbers | Classes


def is_here(population: Population) -> bool:
    """Whether the file, or the package, of a population is there; true if it needs none."""
    if population.half == "held out":
        return find_spec(population.file) is not None
    return not population.file or (DATA / population.file).exists()


# --- quantiles of numbers ---------------------------------------------------------------------------------


def beta(a: float, b: float) -> Callable[[Floats], Floats]:
    return lambda u: np.asarray(special.betaincinv(a, b, u))


def log_normal(median: float, deviation: float) -> Callable[[Floats], Floats]:
    """Log-normal values, cut off at 1: nobody is beyond."""
    within = special.ndtr(-np.log(median) / deviation)
    return lambda u: median * np.exp(deviation * special.ndtri(u * within))


def mixed(
    share: float, one: Callable[[Floats], Floats], other: Callable[[Floats], Floats]
) -> Callable[[Floats], Floats]:
    """Values of ``one`` for a share of the people and of ``other`` for the rest."""

    def quantile(u: Floats) -> Floats:
        return np.where(u < share, one(u / share), other(np.maximum(u - share, 0.0) / (1.0 - share)))

    return quantile


def normal(mean: float, deviation: float) -> Callable[[Floats], Floats]:
    return lambda u: mean + deviation * special.ndtri(u)


def uniform(low: float, high: float) -> Callable[[Floats], Floats]:
    return lambda u: low + (high - low) * u


def exponential(start: float, scale: float) -> Callable[[Floats], Floats]:
    """Values from ``start`` on, where the density jumps; nobody is beyond 1."""
    within = -np.expm1((start - 1.0) / scale)
    return lambda u: start - scale * np.log1p(-u * within)


def one_over(low: float, high: float) -> Callable[[Floats], Floats]:
    """A density in proportion to 1/x between two values."""
    return lambda u: low * (high / low) ** u


def peaked(centre: float, left: float, right: float) -> Callable[[Floats], Floats]:
    """An exponential density of its own scale on each side of a peak."""
    share = left / (left + right)

    def quantile(u: Floats) -> Floats:
        below = left * np.log(np.maximum(u, 1e-300) / share)
        above = -right * np.log((1.0 - u) / (1.0 - share))
        return centre + np.where(u < share, below, above)

    return quantile


def rounded(
    share: float, steps: tuple[float, float, float], base: Callable[[Floats], Floats]
) -> Callable[[Floats], Floats]:
    """Values of ``base``; a share of the people tells multiples of one of the three steps."""

    def quantile(u: Floats) -> Floats:
        # The digits of u after the sixth decide who tells a round number, and of which step.
        kind = np.modf(1e6 * u)[0]
        step = np.asarray(steps)[np.minimum((3.0 * kind / share).astype(int), 2)]
        values = base(u)
        return np.where(kind < share, np.rint(values / step) * step, values)

    return quantile


def point(value: float) -> Callable[[Floats], Floats]:
    return lambda u: np.full(len(u), value)


def weighted(table: Callable[[], tuple[Floats, Floats]]) -> Callable[[Floats], Floats]:
    """Values of a file, each with its weight."""

    @functools.cache
    def sorted_table() -> tuple[Floats, Floats]:
        values, weights = table()
        order = np.argsort(values, kind="stable")
        reached = np.cumsum(weights[order])
        return values[order], reached / reached[-1]

    def quantile(u: Floats) -> Floats:
        values, reached = sorted_table()
        return values[np.minimum(np.searchsorted(reached, u, side="right"), len(values) - 1)]

    return quantile


# --- real files -------------------------------------------------------------------------------------------


def _incomes() -> pa.Table:
    table = pyarrow.csv.read_csv(DATA / INCOMES)
    # The rows of zip code 0 are the sums of a state.
    return table.filter(pc.not_equal(table.column("zipcode"), 0))


def income_per_return() -> tuple[Floats, Floats]:
    """The mean income of each zip code and size class on [0, 1], and the number of its returns."""
    table = _incomes()
    returns, amounts = (
        np.asarray(table.column(name).to_numpy(), dtype=np.float64) for name in ("N02650", "A02650")
    )
    some = returns > 0.0
    return np.clip(amounts[some] / returns[some] / LARGEST_INCOME, 0.0, 1.0), returns[some]


def prices() -> tuple[Floats, Floats]:
    """The prices of diamonds on [0, 1], each with the same weight."""
    found = pyarrow.csv.read_csv(DATA / DIAMONDS).column("price").to_numpy() / LARGEST_PRICE
    return np.clip(found, 0.0, 1.0), np.ones(len(found))


def column(name: str, low: float, high: float) -> Callable[[], tuple[Floats, Floats]]:
    """A column of diamonds as it is, from ``low`` to ``high``, each with the same weight."""

    def table() -> tuple[Floats, Floats]:
        found = pyarrow.csv.read_csv(DATA / DIAMONDS).column(name).to_numpy()
        return np.clip((found - low) / (high - low), 0.0, 1.0), np.ones(len(found))

    return table


def whole_incomes() -> tuple[Floats, Floats]:
    """Incomes in whole thousands of dollars."""
    incomes, returns = income_per_return()
    return np.rint(incomes * LARGEST_INCOME) / LARGEST_INCOME, returns


def _shares_of(labels: pa.ChunkedArray, weights: Floats) -> Floats:
    coded = pa.chunked_array(labels).combine_chunks().dictionary_encode()
    names = np.asarray(coded.dictionary.to_pylist())
    counts = np.bincount(coded.indices.to_numpy(), weights, len(names))[np.argsort(names)]
    return np.asarray(counts / counts.sum())


@functools.cache
def income_classes() -> Floats:
    """The shares of state by size class of income: 306 categories, by name."""
    table = _incomes()
    size = pc.cast(table.column("agi_stub"), pa.string())
    labels = pc.binary_join_element_wise(table.column("STATE"), size, "-")
    return _shares_of(labels, np.asarray(table.column("N02650").to_numpy(), dtype=np.float64))


@functools.cache
def diamond_classes() -> Floats:
    """The shares of cut by color by clarity of diamonds: 276 categories, by name."""
    table = pyarrow.csv.read_csv(DATA / DIAMONDS)
    labels = pc.binary_join_element_wise(*(table.column(name) for name in ("cut", "color", "clarity")), "-")
    return _shares_of(labels, np.ones(table.num_rows))


# --- shares of categories ---------------------------------------------------------------------------------


def _cut(quantile: Callable[[Floats], Floats], categories: int) -> Floats:
    """The shares of equal parts of [0, 1]."""
    values = np.clip(quantile((np.arange(200_000) + 0.5) / 200_000), 0.0, 1.0)
    counts = np.bincount(np.minimum((values * categories).astype(int), categories - 1), minlength=categories)
    return np.asarray(counts / counts.sum())


def in_order(quantile: Callable[[Floats], Floats], categories: int) -> Callable[[], Floats]:
    return functools.cache(lambda: _cut(quantile, categories))


def shuffled(shares: Callable[[], Floats], seed: int) -> Callable[[], Floats]:
    return functools.cache(lambda: np.random.default_rng(seed).permutation(shares()))


def zipf(exponent: float, categories: int) -> Callable[[], Floats]:
    """Shares in proportion to 1 / rank^exponent."""

    def shares() -> Floats:
        found = np.arange(1, categories + 1) ** -exponent
        return np.asarray(found / found.sum())

    return shares


def spikes(many: int, held: float, categories: int) -> Callable[[], Floats]:
    """A few categories that hold a part in shares 1 : 2 : 3 ..; the others have equal shares of the rest."""

    def shares() -> Floats:
        found = np.full(categories, (1.0 - held) / (categories - many))
        found[:many] = held * np.arange(1, many + 1) / (many * (many + 1) / 2)
        return found

    return shares


def with_empty(shares: Callable[[], Floats], empty: int) -> Callable[[], Floats]:
    """Shares followed by categories that nobody has."""
    return lambda: np.concatenate([shares(), np.zeros(empty)])


def alone(place: int, categories: int) -> Callable[[], Floats]:
    """Everybody has one category."""
    return lambda: np.eye(categories)[place]


# --- the list ---------------------------------------------------------------------------------------------

NUMBERS = (
    Numbers("smooth: Beta(4, 3)", "tuning", beta(4.0, 3.0), largest=True),
    Numbers("smooth: Beta(3, 5)", "reporting", beta(3.0, 5.0), largest=True),
    Numbers("skewed: Beta(1, 5)", "tuning", beta(1.0, 5.0)),
    Numbers("skewed: Beta(7, 1.2)", "reporting", beta(7.0, 1.2)),
    Numbers("two humps: .3 and .7", "tuning", mixed(0.6, normal(0.3, 0.06), normal(0.7, 0.1))),
    Numbers("two humps: .22 and .62", "reporting", mixed(0.35, normal(0.22, 0.08), normal(0.62, 0.05))),
    Numbers("long tail: log-normal .06, .8", "tuning", log_normal(0.06, 0.8)),
    Numbers("long tail: log-normal .04, 1.1", "reporting", log_normal(0.04, 1.1)),
    Numbers(
        "spiky: 60% round, of 1/16, 1/32, 1/64",
        "tuning",
        rounded(0.6, (1 / 16, 1 / 32, 1 / 64), beta(2.0, 4.0)),
        largest=True,
    ),
    Numbers(
        "spiky: 50% round, of 1/10, 1/20, 1/40",
        "reporting",
        rounded(0.5, (1 / 10, 1 / 20, 1 / 40), beta(3.0, 2.5)),
        largest=True,
    ),
    Numbers("gap: .40 to .60", "tuning", mixed(0.5, uniform(0.05, 0.40), uniform(0.60, 0.90))),
    Numbers("gap: .50 to .72", "reporting", mixed(0.7, uniform(0.15, 0.50), uniform(0.72, 0.95))),
    Numbers("real: incomes", "tuning", weighted(income_per_return), file=INCOMES),
    Numbers("real: diamond prices", "reporting", weighted(prices), file=DIAMONDS),
    Numbers("jump: .03 and exponential .12", "tuning", exponential(0.03, 0.12)),
    Numbers("jump: .06 and exponential .2", "reporting", exponential(0.06, 0.2)),
    Numbers("one over x: .01 to 1", "tuning", one_over(0.01, 1.0)),
    Numbers("one over x: .005 to .8", "reporting", one_over(0.005, 0.8)),
    Numbers("poles: Beta(.5, .5)", "tuning", beta(0.5, 0.5)),
    Numbers("poles: Beta(.6, .4)", "reporting", beta(0.6, 0.4)),
    Numbers("peak: .3, exponential .02 and .1", "tuning", peaked(0.3, 0.02, 0.1)),
    # Delays of flights: around -5 minutes, 4 on the early and 25 on the late side, of [-60, 300].
    Numbers("peak: .15, exponential .011 and .069", "reporting", peaked(55 / 360, 4 / 360, 25 / 360)),
    Numbers("step: .4", "tuning", mixed(0.75, uniform(0.0, 0.4), uniform(0.4, 1.0))),
    Numbers("step: .55", "reporting", mixed(0.2, uniform(0.0, 0.55), uniform(0.55, 1.0))),
    Numbers("narrow: .7 beside .35", "tuning", mixed(0.8, normal(0.35, 0.1), normal(0.7, 0.015))),
    Numbers("narrow: .25 beside .6", "reporting", mixed(0.15, normal(0.25, 0.012), normal(0.6, 0.13))),
    Numbers("rounded: carats", "tuning", weighted(column("carat", 0.0, 3.0)), file=DIAMONDS),
    Numbers("rounded: depths", "reporting", weighted(column("depth", 55.0, 70.0)), file=DIAMONDS),
    Numbers("whole: incomes", "tuning", weighted(whole_incomes), file=INCOMES),
    Numbers("whole: tables", "reporting", weighted(column("table", 50.0, 70.0)), file=DIAMONDS),
    Numbers("uniform", "tuning", uniform(0.0, 1.0), apart=True),
    Numbers("uniform again", "reporting", uniform(0.0, 1.0), apart=True),
    Numbers("point mass at .31", "tuning", point(0.31), apart=True),
    Numbers("point mass at .64", "reporting", point(0.64), apart=True),
)

CATEGORIES = (
    Classes("smooth: Beta(4, 3), 64", "tuning", in_order(beta(4.0, 3.0), 64)),
    Classes("smooth: Beta(3, 5), 80", "reporting", in_order(beta(3.0, 5.0), 80)),
    Classes("skewed: Beta(1, 5), 100", "tuning", shuffled(in_order(beta(1.0, 5.0), 100), 1)),
    Classes("skewed: Beta(7, 1.2), 60", "reporting", shuffled(in_order(beta(7.0, 1.2), 60), 2)),
    Classes(
        "two humps: .3 and .7, 50", "tuning", in_order(mixed(0.6, normal(0.3, 0.06), normal(0.7, 0.1)), 50)
    ),
    Classes(
        "two humps: .22 and .62, 90",
        "reporting",
        in_order(mixed(0.35, normal(0.22, 0.08), normal(0.62, 0.05)), 90),
    ),
    Classes("long tail: Zipf 1.1, 200", "tuning", shuffled(zipf(1.1, 200), 3), largest=True),
    Classes("long tail: Zipf 1.4, 150", "reporting", shuffled(zipf(1.4, 150), 4), largest=True),
    Classes("spiky: 5 hold 60% of 100", "tuning", shuffled(spikes(5, 0.6, 100), 5), largest=True),
    Classes("spiky: 8 hold 45% of 120", "reporting", shuffled(spikes(8, 0.45, 120), 6), largest=True),
    Classes("gap: 50 of 80 empty", "tuning", shuffled(with_empty(zipf(0.6, 30), 50), 7)),
    Classes("gap: 40 of 100 empty", "reporting", shuffled(with_empty(zipf(0.4, 60), 40), 8)),
    Classes("real: cuts of diamonds, 276", "tuning", diamond_classes, file=DIAMONDS),
    Classes("real: incomes by state, 306", "reporting", income_classes, file=INCOMES),
    Classes("uniform, 100", "tuning", zipf(0.0, 100), apart=True),
    Classes("uniform, 70", "reporting", zipf(0.0, 70), apart=True),
    Classes("point mass, 100", "tuning", alone(30, 100), apart=True),
    Classes("point mass, 70", "reporting", alone(50, 70), apart=True),
)
