"""How often the intervals of estimates hold the truth.

    python -m benchmarks.coverage [--runs 400] [--only WORDS] [--strict] [--write docs/measured]

Each run draws people anew from a population, perturbs their values, and computes the intervals. The truth is
that of the people who were drawn. Sums over runs are kept beside this file, and a second call goes on where
one stopped. With ``--strict`` the runs are of the certain intervals alone, also of values with a step. It
first makes the first run of each cell again: where it gives other intervals or flags than it did, the code
has changed, and the cell's runs are made anew.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import multiprocessing
import operator
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.coverage_sums import Runs, Sums, read, write
from benchmarks.grid import populations as shapes
from benchmarks.pages import HELP, Table, show, table
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.certainty import CERTAIN, IF_SMOOTH, Intervals
from ldpbeam.domains import Categories, Domain, Floats, Integers, KeyValuePairs, KeyValues, Numeric
from ldpbeam.estimators import estimate
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Question
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.intervals.strict import strict_intervals
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.statistics import Answers, Statistic, tally

RESULTS = Path(__file__).with_suffix(".jsonl")
RESULTS_OF_STRICT = RESULTS.with_name("coverage_strict.jsonl")
LEVEL = 0.95
#: So many runs of a cell, then the next cell.
ROUND = 5
#: Intervals that differ by less, relatively, are of the same code on another processor.
SAME = 1e-4
#: What a cell without a flag is to hold.
LEAST, MOST = 0.92, 0.975
#: What a cell with a flag is to hold.
LEAST_FLAGGED = 0.85
BUCKETS, CATEGORIES, KEYS = 256, 32, 20
NUMBERS = Numeric(0.0, 1.0)
WANTED = WantedIntervals(LEVEL, False, (0.05, 0.25, 0.5, 0.75, 0.95), ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0)))
STRICT_KINDS = ("quantiles", "ranges", "cdf")
KINDS = ("mean", "variance", "quantiles", "ranges", "distribution", "frequencies", "key_means")

Held = dict[str, float]


def number(quantile: Callable[[Floats], Floats]) -> Callable[[int, np.random.Generator], Floats]:
    """People with values of [0, 1], from the value at each probability."""
    return lambda people, rng: np.clip(quantile(rng.random(people)), 0.0, 1.0)


def spike(people: int, rng: np.random.Generator) -> Floats:
    """Beta(2, 5), of which 20% have the one value 0.31."""
    return np.where(rng.random(people) < 0.2, 0.31, rng.beta(2.0, 5.0, people))


def falling(people: int, rng: np.random.Generator) -> Integers:
    """Values in steps from the low end: shares fall after the third, and nobody has more than the tenth."""
    return rng.choice(10, people, p=np.array([6, 21, 28, 18, 13, 6, 4, 2, 1, 1]) / 100)


def tens(people: int, rng: np.random.Generator) -> Integers:
    """Values below a hundred steps from the low end, of half of the people multiples of ten steps."""
    steps = (100.0 * rng.beta(2.0, 3.0, people)).astype(np.int64)
    return np.where(rng.random(people) < 0.5, steps // 10 * 10, steps)


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


@dataclass(frozen=True)
class Cell:
    """One setting.

    Attributes:
        label: the mechanisms' name on the page.
        services: (mechanism, options) of each service.
        people: the population's name.
        population: draws people.
        n: the number of people; each answers all services.
        epsilon: of each service.
        estimator: the one that the study names.
    """

    label: str
    services: tuple[tuple[str, Mapping[str, Any]], ...]
    domain: Domain
    people: str
    population: Callable[[int, np.random.Generator], Any]
    n: int
    epsilon: float
    estimator: str

    @property
    def name(self) -> str:
        """The name in the file of results."""
        return f"{self.label}, {self.people}, n {self.n}, epsilon {self.epsilon:g}"

    def attribute(self) -> Attribute:
        """The attribute with the services; several are joined by user."""
        return attribute_of(self.services, self.domain, self.epsilon, BUCKETS)


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
#: Eight shapes of the reporting half of the grid, which `auto` was not tuned on, a spike, and incomes.
SHAPES: Mapping[str, Callable[[int, np.random.Generator], Floats]] = {
    "smooth": number(shapes.beta(3.0, 5.0)),
    "humps": number(shapes.mixed(0.35, shapes.normal(0.22, 0.08), shapes.normal(0.62, 0.05))),
    "gap": number(shapes.mixed(0.7, shapes.uniform(0.15, 0.5), shapes.uniform(0.72, 0.95))),
    "edge": number(shapes.exponential(0.06, 0.2)),
    "poles": number(shapes.beta(0.6, 0.4)),
    "spike": spike,
    "half round": number(shapes.rounded(0.5, (1 / 10, 1 / 20, 1 / 40), shapes.beta(3.0, 2.5))),
    "delays": number(shapes.peaked(55 / 360, 4 / 360, 25 / 360)),
    "incomes": number(shapes.weighted(shapes.income_per_return)),
    "diamonds": number(shapes.weighted(shapes.prices)),
}
#: Domains with a step. Most parts of their ranges have no short decimals.
STEPPED = {
    "0 to 24 by 1": Numeric(0.0, 24.0, 1.0),
    "-7.3 to -1.4 by 0.1": Numeric(-7.3, -1.4, 0.1),
    "1000 to 1490 by 5": Numeric(1_000.0, 1_490.0, 5.0),
    "0 to 90 by 0.25": Numeric(0.0, 90.0, 0.25),
}
#: People with such values, which the high end clips.
STEPS = {"falling": falling, "tens": tens}
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


def cells() -> Iterator[Cell]:
    """All cells: categories and keys, then numbers, those of many people last.

    In half of the cells of one service that asks for numbers, the study names ``ems`` and no other estimator,
    in the others ``auto``.
    """
    sizes = tuple(itertools.product((2_000, 50_000), (0.5, 2.0)))
    for (n, epsilon), (label, services, domain, name, population) in itertools.product(sizes, OTHERS):
        yield Cell(label, services, domain, name, population, n, epsilon, "")
    for place, (label, (n, epsilon), name) in enumerate(itertools.product(OF_NUMBERS, sizes, SHAPES)):
        if name in FILES and not (shapes.DATA / FILES[name]).exists():
            continue
        named = "ems" if (place + place // len(SHAPES)) % 2 and label != "ULE" else "auto"
        yield Cell(label, OF_NUMBERS[label], NUMBERS, name, SHAPES[name], n, epsilon, named)


def strict_cells() -> Iterator[Cell]:
    """All cells of certain intervals: numbers of any value, then those with a step."""
    yield from (cell for cell in cells() if cell.domain == NUMBERS)
    sizes = ((2_000, 2.0), (50_000, 0.5), (50_000, 4.0))
    for label, (name, steps), domain, (n, epsilon) in itertools.product(
        ("SW", "PM"), STEPS.items(), STEPPED, sizes
    ):
        own = STEPPED[domain]
        population = functools.partial(on_values, own, steps)
        yield Cell(label, OF_NUMBERS[label], own, f"{name}: {domain}", population, n, epsilon, "")


def on_values(
    domain: Numeric, steps: Callable[[int, np.random.Generator], Integers], n: int, rng: np.random.Generator
) -> Floats:
    """People's values in a domain, from their numbers of steps."""
    return np.asarray(domain.values[np.minimum(steps(n, rng), domain.count - 1)])


def truths(cell: Cell, people: Any) -> dict[str, Floats]:
    """The true numbers of the people who were drawn, by the name of the intervals."""
    if isinstance(people, KeyValuePairs):
        have = np.bincount(people.keys, minlength=KEYS)
        means = np.bincount(people.keys, people.values, KEYS) / np.maximum(have, 1)
        return {"frequencies": have / len(people), "key_means": np.where(have > 0, means, np.nan)}
    if isinstance(cell.domain, Categories):
        return {"frequencies": np.bincount(people, minlength=CATEGORIES) / len(people)}
    if cell.domain != NUMBERS:
        inside = [((people >= low) & (people <= high)).mean() for low, high in wanted(cell).ranges]
        below = np.quantile(people, WANTED.quantiles, method="inverted_cdf")
        return {"quantiles": below, "ranges": np.array(inside)}
    return {
        "mean": np.array([people.mean()]),
        "variance": np.array([people.var()]),
        "quantiles": np.quantile(people, WANTED.quantiles),
        # As value buckets do, a range holds its lower end, and its upper one at the end of the domain only.
        "ranges": np.array(
            [((people >= low) & ((people < high) | (high == 1.0))).mean() for low, high in WANTED.ranges]
        ),
        "distribution": NUMBERS.histogram(people, BUCKETS) / len(people),
    }


def run(cell: Cell, place: int) -> Runs:
    """One run."""
    people, attribute, statistic = _reported(cell, place)
    truth = truths(cell, people)
    started = time.process_time()
    if cell.estimator:
        answer = estimate(cell.estimator, attribute, statistic)
    else:
        nothing: dict[str, Any] = {name: np.full(1, np.nan) for name in truth}
        answer = Estimate("", attribute.services, cell.n, cell.n, **nothing)
    intervals = StatisticIntervals(attribute, statistic).of(answer, WANTED)
    seconds = time.process_time() - started
    smooth = intervals.ends.get(IF_SMOOTH, {})
    flags = {name for name in truth if CERTAIN in intervals.flags or (name in smooth and intervals.flags)}
    sums = {name: _held(intervals, name, own) for name, own in truth.items()}
    clear = {name: own for name, own in sums.items() if name not in flags}
    flagged = {name: own for name, own in sums.items() if name in flags}
    first = sum(own.held + own.width for own in sums.values()) + len(flagged)
    return Runs(1, seconds, clear, flagged, first)


def run_strict(cell: Cell, place: int) -> Runs:
    """One run of the certain intervals alone."""
    people, attribute, statistic = _reported(cell, place)
    started = time.process_time()
    intervals = strict_intervals(Question(attribute, statistic, attribute.services), wanted(cell))
    seconds = time.process_time() - started
    assert intervals.ends, intervals.methods
    truth = truths(cell, people)
    truth["cdf"] = np.searchsorted(np.sort(people), intervals.at, "right") / cell.n
    widths = {"quantiles": cast(Numeric, cell.domain).width}
    sums = {
        kind: _held(intervals, kind, truth[kind], widths.get(kind, 1.0), CERTAIN) for kind in STRICT_KINDS
    }
    return Runs(1, seconds, sums, {}, sum(own.held + own.width for own in sums.values()))


def wanted(cell: Cell) -> WantedIntervals:
    """The intervals of a number: the ranges are the same parts of each domain."""
    ranges = cast(Numeric, cell.domain).from_unit(WANTED.ranges).tolist()
    return replace(WANTED, ranges=tuple(map(tuple, ranges)))


def _reported(cell: Cell, place: int) -> tuple[Any, Attribute, Statistic]:
    """The people of a run, the attribute, and the statistic of what they send."""
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), place])
    people = cell.population(cell.n, rng)
    attribute, rows = cell.attribute(), np.arange(cell.n)
    values = cell.domain.to_unit(people) if isinstance(cell.domain, Numeric) else people
    answers = [Answers(i, rows, v.mechanism.perturb(values, rng)) for i, v in enumerate(attribute.versions)]
    return people, attribute, tally(attribute, cell.n, answers)


def _held(
    intervals: Intervals, name: str, truth: Floats, width_of_domain: float = 1.0, condition: str = IF_SMOOTH
) -> Sums:
    low, high = intervals.ends[condition if name in intervals.ends.get(condition, {}) else CERTAIN][
        name
    ].columns.T
    known = ~np.isnan(truth)
    held = float(((low <= truth + 1e-12) & (truth <= high + 1e-12))[known].mean())
    return Sums(1, held, held**2, float((high - low)[known].mean()) / width_of_domain)


#: The columns of the table of cells.
COLUMNS = (
    "reports", "people", "n", "epsilon", "number", "names", "runs", "held", "error", "width", "flags", "ms",
    "result",
)  # fmt: skip
VERDICTS = ("held", "unclear", "low", "high", "flagged", "flagged, low")


def row(cell: Cell, kind: str, runs: Runs) -> list[str]:
    """The row of a cell and a kind of number, by ``COLUMNS``; none if the cell has no such number."""
    clear, flagged = runs.clear.get(kind, Sums()), runs.flagged.get(kind, Sums())
    if not clear.runs + flagged.runs:
        return []
    flags = flagged.runs / runs.runs
    # A cell is of its runs without a flag; if most have one, of all.
    counted = clear if flags <= 0.5 else clear + flagged
    held = counted.held / counted.runs
    deviation = math.sqrt(max(counted.squares / counted.runs - held**2, LEVEL * (1.0 - LEVEL)))
    error = deviation / math.sqrt(counted.runs)
    away = LEAST_FLAGGED - held if flags > 0.5 else max(LEAST - held, held - MOST)
    verdict = "flagged" if flags > 0.5 else "held"
    if away > 2.0 * error:
        verdict = "flagged, low" if flags > 0.5 else "low" if held < LEAST else "high"
    elif away > 0.0:
        verdict = "unclear"
    return [
        cell.label, cell.people, f"{cell.n:,}", f"{cell.epsilon:g}", kind.replace("_", " "),
        cell.estimator, str(counted.runs), f"{held:.1%}", f"{error:.1%}",
        f"{counted.width / counted.runs:.3g}", f"{flags:.0%}", f"{runs.seconds / runs.runs * 1e3:.0f}",
        verdict,
    ]  # fmt: skip


def strict_row(cell: Cell, kind: str, runs: Runs) -> list[str]:
    """The row of a cell and a kind of certain interval, by ``STRICT_COLUMNS``; none if it has none."""
    sums = runs.clear.get(kind, Sums())
    if not sums.runs:
        return []
    held = sums.held / sums.runs
    error = math.sqrt(max(sums.squares / sums.runs - held**2, 0.0) / sums.runs)
    verdict = "held" if held >= LEVEL else "unclear" if held + 2.0 * error >= LEVEL else "low"
    return [
        cell.label, cell.people, f"{cell.n:,}", f"{cell.epsilon:g}", kind, str(sums.runs), f"{held:.1%}",
        f"{error:.1%}", f"{sums.width / sums.runs:.3g}", f"{runs.seconds / runs.runs * 1e3:.0f}", verdict,
    ]  # fmt: skip


def tables(results: Mapping[str, Runs], strict: Mapping[str, Runs]) -> Iterator[Table]:
    """The tables, from the runs of each cell by its name, and those of certain intervals."""
    rows = _rows(row, results, KINDS, cells())
    counts = Counter((line[COLUMNS.index("number")], line[-1]) for line in rows)
    kinds = [kind.replace("_", " ") for kind in KINDS]
    of_kinds = ([kind, *(counts[kind, verdict] for verdict in VERDICTS)] for kind in kinds)
    yield table("coverage_kinds", ["number", *VERDICTS], of_kinds)
    yield table("coverage", COLUMNS, rows)
    strict_rows = _rows(strict_row, strict, STRICT_KINDS, strict_cells())
    if strict_rows:
        yield table("coverage_strict", STRICT_COLUMNS, strict_rows)


def _rows(
    row_of: Callable[[Cell, str, Runs], list[str]],
    results: Mapping[str, Runs],
    kinds: Sequence[str],
    of_cells: Iterator[Cell],
) -> list[list[str]]:
    """The rows of all cells and kinds that have one."""
    every = (row_of(cell, kind, results.get(cell.name, Runs())) for cell in of_cells for kind in kinds)
    return [row for row in every if row]


STRICT_COLUMNS = (
    "reports", "people", "n", "epsilon", "number", "runs", "held", "error", "width", "ms", "result",
)  # fmt: skip


def more(of_one: Callable[[Cell, int], Runs], name: str, places: range) -> tuple[str, Runs]:
    """A cell's name, and some runs of it."""
    cell = next(cell for cell in itertools.chain(cells(), strict_cells()) if cell.name == name)
    return name, functools.reduce(operator.add, (of_one(cell, place) for place in places), Runs())


def main() -> None:
    """Run what is missing, then show the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400, help="runs per cell")
    parser.add_argument("--only", default="", help="the cells whose name has this text")
    parser.add_argument("--strict", action="store_true", help="run certain intervals")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after about so long")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", type=Path, help=HELP)
    given = parser.parse_args()
    # Processes that start from here have one thread of BLAS each.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    path, of_one = (RESULTS_OF_STRICT, run_strict) if given.strict else (RESULTS, run)
    results = read(path)
    of_cells = strict_cells() if given.strict else cells()
    chosen = [cell.name for cell in of_cells if given.only in cell.name]
    end = time.monotonic() + 60.0 * given.minutes
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn")) as pool:
        known = [name for name in chosen if name in results]
        for name, own in pool.map(functools.partial(more, of_one), known, itertools.repeat(range(1))):
            if not math.isclose(own.first, results[name].first, rel_tol=SAME):
                print(f"made anew, since its first run has other intervals or flags: {name}", flush=True)
                del results[name]
        # In rounds over all cells, so that tables of fewer runs have all of them.
        for first in range(0, given.runs, ROUND):
            last = min(first + ROUND, given.runs)
            left = [name for name in chosen if first <= results.get(name, Runs()).runs < last]
            places = [range(results.get(name, Runs()).runs, last) for name in left]
            for name, own in (
                pool.map(functools.partial(more, of_one), left, places) if time.monotonic() < end else ()
            ):
                results[name] = results.get(name, Runs()) + own
                write(path, results)
    show(tables(read(RESULTS), read(RESULTS_OF_STRICT)), given.write)


if __name__ == "__main__":
    main()
