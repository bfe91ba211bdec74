"""How estimates of numbers hold where values are clipped, and where they have a step.

    python -m benchmarks.steps RESULTS.csv [--runs 10] [--seed 0] [--only WORDS] [--without]
    python -m benchmarks.steps RESULTS.csv --runs 0 [--means MEANS.csv]

A row is one run, and rows are added as they come; the means of all cells of the file are printed, and written
to another file where asked to. What is held there is of the runs without a flag of that kind of number; the
worst range and quantile are by themselves. Seeds below 100 were for tuning.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.coverage import OF_NUMBERS, attribute_of
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators import estimate
from ldpbeam.estimators.auto import numbers as auto
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.metrics import wasserstein
from ldpbeam.statistics import Answers, tally

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Distributions whose upper tail is cut at a quantile.
TAILS: Mapping[str, Any] = {
    "gamma": stats.gamma(3.0),
    "normal": stats.norm(3.0, 1.0),
    "falling": stats.expon(),
}


@dataclass(frozen=True)
class Cell:
    """One setting.

    Attributes:
        label: the mechanisms' name.
        people: the population's name.
        population: draws people.
        domain: of their values.
        ranges: whose shares get an interval.
        n: the number of people; each answers all services.
        epsilon: of each service.
        heaps: the values that have heaps: (period, rest) in steps from the low end.
    """

    label: str
    people: str
    population: Callable[[int, np.random.Generator], Floats]
    domain: Numeric
    ranges: tuple[tuple[float, float], ...]
    buckets: int
    n: int
    epsilon: float
    heaps: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """The name in the file of results."""
        return f"{self.label}, {self.people}, n {self.n}, epsilon {self.epsilon:g}"

    def attribute(self) -> Attribute:
        """The attribute with the services; several are joined by user."""
        return attribute_of(OF_NUMBERS[self.label], self.domain, self.epsilon, self.buckets)


def clipped(tail: Any, share: float) -> Callable[[int, np.random.Generator], Floats]:
    """People of whom a share has values beyond 1, which are clipped. With 0, 3% are left out instead."""
    end = tail.ppf(1.0 - (share or 0.03))

    def draw(people: int, rng: np.random.Generator) -> Floats:
        level = rng.random(people) * (1.0 if share else 0.97)
        return np.asarray(np.clip(tail.ppf(level) / end, 0.0, 1.0))

    return draw


def ends() -> Iterator[Cell]:
    unit, ranges = Numeric(0.0, 1.0), ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0))
    for label, n, epsilon, name, share in itertools.product(
        ("SW", "PM", "ULE"), (20_000, 200_000), (1.0, 3.0), TAILS, (0.0, 0.01, 0.03, 0.1)
    ):
        yield Cell(label, f"{name} {share:g}", clipped(TAILS[name], share), unit, ranges, 256, n, epsilon)
    for label, n, epsilon, (name, draw) in itertools.product(
        ("SW",), (20_000, 200_000), (1.0, 3.0), SHAPES.items()
    ):
        yield Cell(label, name, draw, unit, ranges, 256, n, epsilon)


def rounded(people: Floats, share: float, period: float, rest: float, rng: np.random.Generator) -> Floats:
    """A share of people move to the nearest value that leaves a rest."""
    near = np.floor((people - rest) / period + 0.5) * period + rest
    return np.where(rng.random(len(people)) < share, near, people)


def years(*heaps: tuple[float, float, float]) -> Callable[[int, np.random.Generator], Floats]:
    """Whole years, of which shares are heaped: (share, period, rest)."""

    def draw(people: int, rng: np.random.Generator) -> Floats:
        values = np.floor(101.0 * rng.beta(2.0, 3.0, people))
        for share, period, rest in heaps:
            values = rounded(values, share, period, rest, rng)
        return np.clip(values, 0.0, 100.0) / 100.0

    return draw


def counts(people: int, rng: np.random.Generator) -> Floats:
    """Counts with a long tail: a negative binomial distribution with mean 6."""
    return np.minimum(rng.negative_binomial(1.2, 1.2 / 7.2, people), 40) / 40.0


def prices(people: int, rng: np.random.Generator) -> Floats:
    """Prices, of which 60% end in 9."""
    values = np.floor(rng.lognormal(3.4, 0.5, people))
    return np.asarray(np.clip(rounded(values, 0.6, 10.0, 9.0, rng), 0.0, 100.0) / 100.0)


def degrees(people: int, rng: np.random.Generator) -> Floats:
    """Half degrees from -10 to 40."""
    warm = rng.random(people) < 0.4
    values = np.where(warm, rng.normal(24.0, 4.0, people), rng.normal(9.0, 6.0, people))
    return np.clip(np.floor(2.0 * values + 0.5) / 2.0 + 10.0, 0.0, 50.0) / 50.0


def scale(people: int, rng: np.random.Generator) -> Floats:
    """A uniform scale from 0 to 10."""
    return rng.integers(0, 11, people) / 10.0


WHOLE = Numeric(0.0, 100.0, 1.0)
RANGES = ((0.0, 17.0), (18.0, 29.0), (30.0, 49.0), (50.0, 100.0))
#: The population, its domain, its ranges, and the values that have heaps: (period, rest).
STEPPED: Mapping[str, tuple[Any, Numeric, tuple[tuple[float, float], ...], tuple[tuple[int, int], ...]]] = {
    "years": (years(), WHOLE, RANGES, ()),
    "years, 15% tens": (years((0.15, 10.0, 0.0)), WHOLE, RANGES, ((10, 0),)),
    "years, 40% tens": (years((0.4, 10.0, 0.0)), WHOLE, RANGES, ((10, 0),)),
    "counts": (counts, Numeric(0.0, 40.0, 1.0), ((0.0, 0.0), (1.0, 5.0), (5.0, 10.0), (20.0, 40.0)), ()),
    "half degrees": (
        degrees,
        Numeric(-10.0, 40.0, 0.5),
        ((-10.0, 0.0), (0.0, 10.0), (10.0, 20.0), (25.0, 40.0)),
        (),
    ),
    "prices": (prices, WHOLE, ((0.0, 19.0), (20.0, 29.0), (30.0, 49.0), (50.0, 100.0)), ((10, 9),)),
    "scale": (scale, Numeric(0.0, 10.0, 1.0), ((0.0, 0.0), (0.0, 4.0), (5.0, 7.0), (9.0, 10.0)), ()),
    "every 12": (years((0.3, 12.0, 0.0)), WHOLE, RANGES, ((12, 0),)),
    "every 7": (years((0.3, 7.0, 0.0)), WHOLE, RANGES, ((7, 0),)),
    "residue 5": (years((0.3, 10.0, 5.0)), WHOLE, RANGES, ((10, 5),)),
    "12 and 10": (years((0.2, 12.0, 0.0), (0.2, 10.0, 0.0)), WHOLE, RANGES, ((10, 0), (12, 0))),
}


def steps() -> Iterator[Cell]:
    """The cells of domains with a step."""
    settings = [(1.0, 5_000), (1.0, 20_000), (3.0, 5_000), (3.0, 20_000), (3.0, 100_000)]
    for label, (epsilon, n), (name, (draw, domain, ranges, heaps)) in itertools.product(
        ("SW", "PM", "ULE"), settings, STEPPED.items()
    ):
        yield Cell(label, name, draw, domain, ranges, 256, n, epsilon, heaps)


SHAPES: Mapping[str, Callable[[int, np.random.Generator], Floats]] = {
    "beta 2 5": lambda people, rng: rng.beta(2.0, 5.0, people),
    "beta 5 2": lambda people, rng: rng.beta(5.0, 2.0, people),
    "poles": lambda people, rng: rng.beta(0.6, 0.4, people),
    "uniform": lambda people, rng: rng.random(people),
    "narrow": lambda people, rng: rng.beta(40.0, 40.0, people),
}


def run(cell: Cell, seed: int, place: int) -> dict[str, object]:
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), seed, place])
    people, attribute, rows = cell.population(cell.n, rng), cell.attribute(), np.arange(cell.n)
    answers = [Answers(i, rows, v.mechanism.perturb(people, rng)) for i, v in enumerate(attribute.versions)]
    statistic = tally(attribute, cell.n, answers)
    wanted = WantedIntervals(0.95, False, QUANTILES, cell.ranges)
    started = time.process_time()
    answer = estimate("auto", attribute, statistic)
    middle = time.process_time()
    intervals = StatisticIntervals(attribute, statistic).of(answer, wanted)
    assert answer.distribution is not None
    held = {part: own.columns for part, own in intervals.ends["if_smooth"].items()}
    buckets, step = len(answer.distribution), cell.domain.step
    values = cell.domain.from_unit(people)
    truth = cell.domain.histogram(values, buckets) / cell.n
    slack = 0.01 * step if step else 0.0
    inside = np.array(
        [
            ((values >= low - slack) & ((values < high + slack) | (high == cell.domain.high))).mean()
            for low, high in cell.ranges
        ]
    )
    line: dict[str, object] = {"cell": cell.name, "seed": seed, "run": place}
    line["w1"] = wasserstein(answer.distribution, truth)
    whole = np.arange(buckets)
    heaped = np.flatnonzero(np.any([whole % period == rest for period, rest in cell.heaps], axis=0))
    levels = np.quantile(values, QUANTILES, method="inverted_cdf" if step else "linear")
    numbers = {
        **{
            f"q{level:g}": (own[None], one)
            for level, own, one in zip(QUANTILES, held["quantiles"], levels, strict=True)
        },
        **{
            f"range {place}": (own[None], one)
            for place, (own, one) in enumerate(zip(held["ranges"], inside, strict=True))
        },
        "quantiles": (held["quantiles"], levels),
        "ranges": (held["ranges"], inside),
        "buckets": (held["distribution"], truth),
        "heaps": (held["distribution"][heaped], truth[heaped]),
        "low": (held["distribution"][:1], truth[:1]),
        "high": (held["distribution"][-1:], truth[-1:]),
    }
    for name, (bounds, of_truth) in numbers.items():
        low, high = np.asarray(bounds).T
        inside = (low <= of_truth + 1e-9) & (of_truth <= high + 1e-9)
        line[f"{name} held"] = inside.mean() if inside.size else ""
        line[f"{name} width"] = (high - low).mean() if inside.size else ""
    line["top"] = held["distribution"][-1, 1]
    line["truth"] = truth[-1]
    line["atoms"] = weight(answer.details["weights"], "the low end", "the high end")
    line["heaps"] = weight(answer.details["weights"], "heights")
    line["flags"] = "; ".join(intervals.flags.values())
    line["estimate"], line["intervals"] = middle - started, time.process_time() - middle
    return {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in line.items()}


def weight(weights: Mapping[str, float], *words: str) -> float:
    """The weight of the densities whose name has one of some words."""
    return float(sum(own for name, own in weights.items() if any(word in name for word in words)))


#: What is printed: the column of the file, and its name in the table.
PRINTED = {
    "w1": "W1",
    "ranges held": "ranges",
    "quantiles held": "quantiles",
    "buckets held": "shares",
    "heaps held": "of heaps",
    "low held": "low end",
    "high held": "high end",
    "ranges width": "width of ranges",
    "buckets width": "of shares",
    "atoms": "weight of atoms",
    "heaps": "of heaps",
}


def by_cell(path: Path) -> dict[str, list[dict[str, str]]]:
    """The runs of each cell of a file."""
    cells = dict[str, list[dict[str, str]]]()
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            cells.setdefault(line["cell"], []).append(line)
    return cells


def without_flag(lines: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The runs that have no flag."""
    return [line for line in lines if not line["flags"]]


def mean(lines: Sequence[dict[str, str]], key: str) -> float:
    """The mean of a column over the runs that have it; NaN if none has."""
    values = [float(line[key]) for line in lines if line[key]]
    return float(np.mean(values)) if values else np.nan


def table(path: Path) -> Iterator[str]:
    """The lines of a table of the means of each cell of a file."""
    yield f"| cell | runs | {' | '.join(PRINTED.values())} | flags |"
    yield "| --- " * (len(PRINTED) + 3) + "|"
    for name, lines in by_cell(path).items():
        means = [mean(lines, key) for key in PRINTED]
        shown = " | ".join("" if np.isnan(value) else f"{value:.3g}" for value in means)
        yield f"| {name} | {len(lines)} | {shown} | {1 - len(without_flag(lines)) / len(lines):.0%} |"


def means_of(name: str, lines: Sequence[dict[str, str]]) -> dict[str, object]:
    """A cell's runs, W1, the shares of runs with flags, and what its intervals hold without."""
    clear = without_flag(lines)
    values = {
        "shares flagged": 1 - len(clear) / len(lines),
        "ranges flagged": 1 - len(clear) / len(lines),
        "ranges": mean(clear, "ranges held"),
        "worst range": min(mean(clear, f"range {place} held") for place in range(4)),
        "quantiles": mean(clear, "quantiles held"),
        "worst quantile": min(mean(clear, f"q{level:g} held") for level in QUANTILES),
        "shares": mean(clear, "buckets held"),
        "heaped values": mean(clear, "heaps held"),
    }
    shown = {key: "" if np.isnan(value) else f"{value:.3f}" for key, value in values.items()}
    return {"cell": name, "runs": len(lines), "w1": f"{mean(lines, 'w1'):.3g}", **shown}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--means", type=Path)
    parser.add_argument("--without", action="store_true", help="without heaps")
    given = parser.parse_args()
    if given.without:
        auto.first_value = lambda *_: None
    with given.results.open("a", newline="") as file:
        writer = None
        for cell in (*ends(), *steps()):
            if not all(word in cell.name for word in given.only.split("+")):
                continue
            for place in range(given.runs):
                line = run(cell, given.seed, place)
                if writer is None:
                    writer = csv.DictWriter(file, list(line))
                    if not file.tell():
                        writer.writeheader()
                writer.writerow(line)
                file.flush()
    print("\n".join(table(given.results)))
    if given.means is not None:
        rows = [means_of(name, lines) for name, lines in by_cell(given.results).items()]
        with given.means.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
