"""How estimates of numbers hold where people's values are clipped.

    python -m benchmarks.steps RESULTS.csv [--runs 10] [--seed 0] [--only WORDS]

A row is one run, and rows are added as they come.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.coverage import OF_NUMBERS
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators import estimate
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.mechanisms import build_mechanism
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
    """

    label: str
    people: str
    population: Callable[[int, np.random.Generator], Floats]
    domain: Numeric
    ranges: tuple[tuple[float, float], ...]
    buckets: int
    n: int
    epsilon: float

    @property
    def name(self) -> str:
        """The name in the file of results."""
        return f"{self.label}, {self.people}, n {self.n}, epsilon {self.epsilon:g}"

    def attribute(self) -> Attribute:
        """The attribute with the services; several are joined by user."""
        versions = tuple(
            ServiceVersion(f"s{place}", "", build_mechanism(name, self.domain, self.epsilon, **options))
            for place, (name, options) in enumerate(OF_NUMBERS[self.label])
        )
        joined = tuple(version.service for version in versions) if len(versions) > 1 else ()
        return Attribute("x", self.domain, self.buckets, versions, joined, 64 if joined else 256)


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
    assert answer.distribution is not None and intervals.distribution is not None
    truth = cell.domain.histogram(people, cell.buckets) / cell.n
    inside = [((people >= low) & ((people < high) | (high == 1.0))).mean() for low, high in cell.ranges]
    line: dict[str, object] = {"cell": cell.name, "seed": seed, "run": place}
    line["w1"] = wasserstein(answer.distribution, truth)
    numbers = {
        "quantiles": (intervals.quantiles, np.quantile(people, QUANTILES)),
        "ranges": (intervals.ranges, np.array(inside)),
        "buckets": (intervals.distribution, truth),
        "low": (intervals.distribution[:1], truth[:1]),
        "high": (intervals.distribution[-1:], truth[-1:]),
    }
    for name, (bounds, of_truth) in numbers.items():
        low, high = np.asarray(bounds).T
        line[f"{name} held"] = ((low <= of_truth + 1e-12) & (of_truth <= high + 1e-12)).mean()
        line[f"{name} width"] = (high - low).mean()
    line["top"] = intervals.distribution[-1, 1]
    line["truth"] = truth[-1]
    line["atoms"] = weight(answer.details["weights"])
    line["flags"] = "; ".join(
        sorted({f"{k}: {v}" for k, v in intervals.flags.items() if k in ("quantiles", "distribution")})
    )
    line["estimate"], line["intervals"] = middle - started, time.process_time() - middle
    return {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in line.items()}


def weight(weights: Mapping[str, float]) -> float:
    return float(sum(w for name, w in weights.items() if " end" in name and "spikes" in name))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    with given.results.open("a", newline="") as file:
        writer = None
        for cell in ends():
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


if __name__ == "__main__":
    main()
