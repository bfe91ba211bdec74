"""How often the intervals of estimates hold the truth, under each condition.

    python -m benchmarks.coverage [--strict] [--held-out] [--runs 20] [--minutes 30] [--only WORDS]
        [--write docs/measured]

Each run draws people anew from a population, perturbs their values, and computes the intervals. The truth is
that of the people who were drawn. Runs are made in rounds over all cells until the time is up. With
``--strict`` they are of the certain intervals of numbers alone, which take a sixth of the time. With
``--held-out`` they are of the columns of numbers on which nobody tunes.
"""

from __future__ import annotations

import argparse
import itertools
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.grid import held_out
from benchmarks.grid import populations as shapes
from benchmarks.pages import HELP, Table, show, table
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.certainty import CERTAIN, IF_SMOOTH, LARGEST, Intervals
from ldpbeam.domains import Categories, Domain, Floats, KeyValuePairs, KeyValues, Numeric
from ldpbeam.estimators import estimate
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.intervals.strict import strict_intervals
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.statistics import Answers, tally

BUCKETS, CATEGORIES, KEYS = 256, 32, 20
NUMBERS = Numeric(0.0, 1.0)
WANTED = WantedIntervals(0.95, False, (0.05, 0.25, 0.5, 0.75, 0.95), ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0)))
#: The numbers that all hold together.
TOGETHER, ALL = ("quantiles", "ranges", "cdf", "distribution"), "all of these"
#: Values with a step that so many have are a number of their own, beside those of all values.
FREQUENT = 0.02


def number(quantile: Callable[[Floats], Floats]) -> Callable[[int, np.random.Generator], Floats]:
    """People with values of [0, 1], from the value at each probability."""
    return lambda people, rng: np.clip(quantile(rng.random(people)), 0.0, 1.0)


def spike(people: int, rng: np.random.Generator) -> Floats:
    """Beta(2, 5), of which 20% have the one value 0.31."""
    return np.where(rng.random(people) < 0.2, 0.31, rng.beta(2.0, 5.0, people))


def falling(people: int, rng: np.random.Generator) -> Floats:
    """Values in steps from the low end: shares fall after the third, and nobody has more than the tenth."""
    return rng.choice(10, people, p=np.array([6, 21, 28, 18, 13, 6, 4, 2, 1, 1]) / 100).astype(np.float64)


def years(*heaps: tuple[float, float, float]) -> Callable[[int, np.random.Generator], Floats]:
    """Whole numbers up to 100, of which shares are rounded: (share, period, rest)."""

    def draw(people: int, rng: np.random.Generator) -> Floats:
        values = np.floor(101.0 * rng.beta(2.0, 3.0, people))
        for share, period, rest in heaps:
            near = np.floor((values - rest) / period + 0.5) * period + rest
            values = np.where(rng.random(people) < share, near, values)
        return np.clip(values, 0.0, 100.0)

    return draw


def counts(people: int, rng: np.random.Generator) -> Floats:
    """Counts with a long tail: a negative binomial distribution with mean 6."""
    return rng.negative_binomial(1.2, 1.2 / 7.2, people).astype(np.float64)


def zipf(people: int, rng: np.random.Generator) -> Any:
    """Categories with shares proportional to 1/k."""
    weights = 1.0 / np.arange(1, CATEGORIES + 1)
    return rng.choice(CATEGORIES, people, p=weights / weights.sum())


def owners(people: int, rng: np.random.Generator) -> KeyValuePairs:
    """None to three keys per person, key k with weight 1/k; a key's values lie around a mean of its own."""
    logs = -np.log(np.arange(1, KEYS + 1)) + rng.gumbel(size=(people, KEYS))
    drawn = np.argpartition(-logs, 3, axis=1)[:, :3]
    kept = np.arange(3) < rng.integers(0, 4, people)[:, None]
    sorted_keys = np.sort(np.where(kept, drawn, KEYS), axis=1)
    keys = sorted_keys[sorted_keys < KEYS]
    starts = np.concatenate(([0], np.cumsum((sorted_keys < KEYS).sum(axis=1))))
    centres = 0.2 + 0.6 * (keys * 7 % KEYS) / KEYS
    return KeyValuePairs(starts, keys, np.clip(rng.normal(centres, 0.15), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Cell:
    """One setting.

    Attributes:
        label: the mechanisms' name on the page.
        services: (mechanism, options) of each service.
        people: the population's name.
        population: draws people; of a domain with a step, the number of steps from its low end.
        n: the number of people; each answers all services.
        epsilon: of each service.
    """

    label: str
    services: tuple[tuple[str, Mapping[str, Any]], ...]
    domain: Domain
    people: str
    population: Callable[[int, np.random.Generator], Any]
    n: int
    epsilon: float

    @property
    def name(self) -> str:
        """All that sets it apart."""
        return f"{self.label}, {self.people}, n {self.n}, epsilon {self.epsilon:g}"


Services = tuple[tuple[str, Mapping[str, Any]], ...]


def attribute_of(services: Services, domain: Domain, epsilon: float, buckets: int) -> Attribute:
    """An attribute with these mechanisms, of one epsilon each; several services are joined by user."""
    versions = tuple(
        ServiceVersion(f"s{place}", "", build_mechanism(name, domain, epsilon, **options))
        for place, (name, options) in enumerate(services)
    )
    joined = tuple(version.service for version in versions) if len(versions) > 1 else ()
    return Attribute("x", domain, buckets, versions, joined, 64 if joined else 256)


OF_NUMBERS: Mapping[str, Services] = {
    "SW": (("square_wave", {}),),
    "PM": (("piecewise", {}),),
    "ULE": (("square_wave", {}), ("piecewise", {}), ("stochastic_rounding", {})),
}
#: Eight shapes of the reporting half of the grid, which `auto` was not tuned on, spikes, and incomes.
SHAPES: Mapping[str, Callable[[int, np.random.Generator], Floats]] = {
    "smooth": number(shapes.beta(3.0, 5.0)),
    "humps": number(shapes.mixed(0.35, shapes.normal(0.22, 0.08), shapes.normal(0.62, 0.05))),
    "gap": number(shapes.mixed(0.7, shapes.uniform(0.15, 0.5), shapes.uniform(0.72, 0.95))),
    "edge": number(shapes.exponential(0.06, 0.2)),
    "poles": number(shapes.beta(0.6, 0.4)),
    "spike": spike,
    "3 spikes": lambda people, rng: rng.integers(1, 4, people) / 4.0,
    "9 spikes": lambda people, rng: rng.integers(1, 10, people) / 10.0,
    "17 spikes": lambda people, rng: rng.integers(0, 17, people) / 16.0,
    "half round": number(shapes.rounded(0.5, (1 / 10, 1 / 20, 1 / 40), shapes.beta(3.0, 2.5))),
    "delays": number(shapes.peaked(55 / 360, 4 / 360, 25 / 360)),
    "incomes": number(shapes.weighted(shapes.income_per_return)),
    "diamonds": number(shapes.weighted(shapes.prices)),
}
#: Incomes and prices are in files beside the project.
FILES = {"incomes": shapes.INCOMES, "diamonds": shapes.DIAMONDS}
OF_CATEGORIES = Categories(tuple(map(str, range(CATEGORIES))))
OTHERS: tuple[tuple[str, Services, Domain, str, Any], ...] = (
    ("GRR", (("grr", {}),), OF_CATEGORIES, "zipf", zipf),
    ("OLH", (("olh", {}),), OF_CATEGORIES, "zipf", zipf),
    (
        "PCKV-UE",
        (("pckv_ue", {"padding": 3}),),
        KeyValues(tuple(map(str, range(KEYS))), NUMBERS),
        "owners",
        owners,
    ),
)


#: Domains with a step, and the people in them. Most parts of their ranges have no short decimals.
STEPPED: Mapping[str, tuple[Numeric, Callable[[int, np.random.Generator], Floats]]] = {
    "0 to 24 by 1, falling": (Numeric(0.0, 24.0, 1.0), falling),
    "-7.3 to -1.4 by 0.1, falling": (Numeric(-7.3, -1.4, 0.1), falling),
    "1000 to 1490 by 5, 40% tens": (Numeric(1_000.0, 1_490.0, 5.0), years((0.4, 10.0, 0.0))),
    "0 to 90 by 0.25, 40% tens": (Numeric(0.0, 90.0, 0.25), years((0.4, 10.0, 0.0))),
    "years": (Numeric(0.0, 100.0, 1.0), years()),
    "years, 40% tens": (Numeric(0.0, 100.0, 1.0), years((0.4, 10.0, 0.0))),
    "years, 60% end in 9": (Numeric(0.0, 100.0, 1.0), years((0.6, 10.0, 9.0))),
    "years, 12 and 10": (Numeric(0.0, 100.0, 1.0), years((0.2, 12.0, 0.0), (0.2, 10.0, 0.0))),
    "counts": (Numeric(0.0, 40.0, 1.0), counts),
}


def cells() -> Iterator[Cell]:
    """All cells: categories and keys, numbers of any value, and those with a step."""
    sizes = tuple(itertools.product((2_000, 50_000), (0.5, 2.0)))
    for (n, epsilon), (label, services, domain, name, population) in itertools.product(sizes, OTHERS):
        yield Cell(label, services, domain, name, population, n, epsilon)
    for label, (n, epsilon), name in itertools.product(OF_NUMBERS, sizes, SHAPES):
        if name not in FILES or (shapes.DATA / FILES[name]).exists():
            yield Cell(label, OF_NUMBERS[label], NUMBERS, name, SHAPES[name], n, epsilon)
    sizes = ((2_000, 2.0), (20_000, 1.0), (50_000, 4.0))
    for label, name, (n, epsilon) in itertools.product(("SW", "PM"), STEPPED, sizes):
        yield Cell(label, OF_NUMBERS[label], *(STEPPED[name][0], name, STEPPED[name][1]), n, epsilon)


def held_out_cells() -> Iterator[Cell]:
    """Those of the columns on which nobody tunes."""
    any_value = {one.name: (NUMBERS, one.draw) for one in held_out.NUMBERS}
    columns = any_value | dict(held_out.STEPPED)
    for label, epsilon, name in itertools.product(("SW", "PM"), held_out.EPSILONS, columns):
        domain, population = columns[name]
        yield Cell(label, OF_NUMBERS[label], domain, name, population, held_out.PEOPLE[0], epsilon)


def truths(cell: Cell, people: Any, intervals: Intervals) -> dict[str, Floats]:
    """The true numbers of the people who were drawn, by the name of the intervals."""
    if isinstance(people, KeyValuePairs):
        have = np.bincount(people.keys, minlength=KEYS)
        means = np.bincount(people.keys, people.values, KEYS) / np.maximum(have, 1)
        return {"frequencies": have / len(people), "key_means": np.where(have > 0, means, np.nan)}
    if isinstance(cell.domain, Categories):
        return {"frequencies": np.bincount(people, minlength=CATEGORIES) / cell.n}
    domain = cast(Numeric, cell.domain)
    inside = [
        (people >= low) & ((people < high) | ((people == high) & (bool(domain.step) or high == domain.high)))
        for low, high in wanted(cell).ranges
    ]
    return {
        "mean": np.array([people.mean()]),
        "variance": np.array([people.var()]),
        "quantiles": np.quantile(people, WANTED.quantiles, method="inverted_cdf"),
        "ranges": np.mean(inside, axis=1),
        "cdf": np.searchsorted(np.sort(people), np.array(intervals.at) + 1e-9, "right") / cell.n,
        "distribution": domain.histogram(people, attribute_of_cell(cell).value_buckets) / cell.n,
    }


def wanted(cell: Cell) -> WantedIntervals:
    """The intervals of a number: the ranges are the same parts of each domain."""
    if not isinstance(cell.domain, Numeric):
        return WANTED
    return replace(WANTED, ranges=tuple(map(tuple, cell.domain.from_unit(WANTED.ranges).tolist())))


def attribute_of_cell(cell: Cell) -> Attribute:
    """The attribute with a cell's services."""
    return attribute_of(cell.services, cell.domain, cell.epsilon, BUCKETS)


def run(cell: Cell, place: int, *, strict: bool = False) -> dict[tuple[str, str], tuple[float, float]]:
    """(the share of intervals that hold the truth, their mean width), by number and condition."""
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), place])
    people, attribute, rows = cell.population(cell.n, rng), attribute_of_cell(cell), np.arange(cell.n)
    if isinstance(cell.domain, Numeric) and cell.domain.step:
        people = cell.domain.values[np.minimum(people.astype(int), cell.domain.count - 1)]
    values = cell.domain.to_unit(people) if isinstance(cell.domain, Numeric) else people
    answers = [Answers(i, rows, v.mechanism.perturb(values, rng)) for i, v in enumerate(attribute.versions)]
    statistic, numbers = tally(attribute, cell.n, answers), isinstance(cell.domain, Numeric)
    # Intervals depend on the estimator by the order of shares alone.
    some: dict[str, Any] = {"mean": 0.0, "variance": 0.0, "distribution": np.full(1, np.nan)}
    answer = Estimate("", attribute.services, cell.n, cell.n, **some)
    if not numbers:
        answer = estimate("auto", attribute, statistic)
    if strict:
        intervals = strict_intervals(Question(attribute, statistic, attribute.services), wanted(cell))
    else:
        intervals = StatisticIntervals(attribute, statistic).of(answer, wanted(cell))
    truth, found, together = truths(cell, people, intervals), {}, True
    for name, condition in itertools.product(truth, (CERTAIN, IF_SMOOTH)):
        if name not in intervals.ends.get(condition, {}):
            continue
        held, widths = judged(intervals, name, condition, truth[name])
        if numbers and name in ("mean", "variance", "quantiles"):
            widths = widths / cell.domain.width ** (2 if name == "variance" else 1)  # type: ignore[union-attr]
        found[name, condition] = float(held.mean()), float(widths.mean())
        if condition == CERTAIN and name in TOGETHER:
            together = together and bool(held.all())
        frequent = truth[name] >= FREQUENT
        if name == "distribution" and cell.domain.step and frequent.any():  # type: ignore[union-attr]
            found["values of 2%", condition] = float(held[frequent].mean()), float(widths[frequent].mean())
    if numbers:
        found[ALL, CERTAIN] = float(together), 0.0
    if LARGEST in intervals.ends:
        shares = answer.distribution if answer.frequencies is None else answer.frequencies
        order = np.argsort(-np.asarray(shares), kind="stable")
        held, widths = judged(intervals, "frequencies", LARGEST, truth["frequencies"][order])
        found["the largest share", CERTAIN] = float(held[0]), float(widths[0])
    return found


def judged(intervals: Intervals, name: str, condition: str, truth: Floats) -> tuple[Floats, Floats]:
    """Whether each interval holds the truth, and its width, of the numbers that have a truth."""
    low, high = intervals.ends[condition][name].columns.T
    known = ~np.isnan(truth)
    room = 1e-9 * max(1.0, float(np.abs(truth[known]).max()))
    return ((low <= truth + room) & (truth <= high + room))[known], (high - low)[known]


Results = Mapping[Cell, Mapping[tuple[str, str], Sequence[tuple[float, float]]]]
KINDS = ("of", "number", "interval", "runs", "held", "worst", "held by the worst", "width")


def rows(results: Results) -> Iterator[list[object]]:
    """A row for each kind of people, number and condition."""
    by_kind = defaultdict[tuple[str, ...], dict[str, list[tuple[float, float]]]](lambda: defaultdict(list))
    for cell, of_cell in results.items():
        for key, pairs in of_cell.items():
            name, condition = (text.replace("_", " ") for text in key)
            by_kind[kind(cell), name, condition][cell.people].extend(pairs)
    for of_kind, by_people in by_kind.items():
        every = np.concatenate([np.array(pairs) for pairs in by_people.values()])
        worst = min(by_people, key=lambda people: float(np.mean(by_people[people], axis=0)[0]))
        of_worst = _mean(np.array(by_people[worst])[:, 0])
        yield [*of_kind, len(every), _mean(every[:, 0]), worst, of_worst, f"{np.median(every[:, 1]):.3g}"]


def kind(cell: Cell) -> str:
    """The kind of a cell's people."""
    if not isinstance(cell.domain, Numeric):
        return "categories and keys"
    return "values with a step" if cell.domain.step else "any value"


def _mean(held: Floats) -> str:
    return f"{held.mean():.3f} ± {held.std() / len(held) ** 0.5:.3f}"


def main() -> None:
    """Run all cells in rounds, then show the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--strict", action="store_true", help="certain intervals of numbers alone")
    parser.add_argument("--held-out", action="store_true", help="columns on which nobody tunes")
    parser.add_argument("--runs", type=int, default=20, help="runs per cell")
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after about so long")
    parser.add_argument("--only", default="", help="the cells whose name has this text")
    parser.add_argument("--write", type=Path, help=HELP)
    given = parser.parse_args()
    end, every = time.monotonic() + 60.0 * given.minutes, held_out_cells() if given.held_out else cells()
    chosen = [cell for cell in every if given.only in cell.name]
    if given.strict:
        chosen = [cell for cell in chosen if isinstance(cell.domain, Numeric)]
    # A run that stops early has cells of all kinds.
    chosen = [chosen[place] for place in np.random.default_rng(0).permutation(len(chosen))]
    results = {c: defaultdict[tuple[str, str], list[tuple[float, float]]](list) for c in chosen}
    for place, cell in itertools.product(range(given.runs), chosen):
        if time.monotonic() < end:
            for key, pair in run(cell, place, strict=given.strict).items():
                results[cell][key].append(pair)
    name = "coverage" + "_held_out" * given.held_out + "_strict" * given.strict
    tables: list[Table] = [table(name, KINDS, rows(results))]
    show(tables, given.write)


if __name__ == "__main__":
    main()
