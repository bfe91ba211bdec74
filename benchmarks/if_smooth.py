"""How often certain intervals, and those that hold if people are smooth, hold on many populations.

    python -m benchmarks.if_smooth [--runs 3] [--only WORDS] [--write docs/measured]

Each run draws people anew, perturbs their values, and computes the intervals. A width is relative to that of
the model's interval. The rule was chosen on twelve others and on those of many spikes.
"""

from __future__ import annotations

import argparse
import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import HELP, show, table
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators.question import Question
from ldpbeam.intervals import WantedIntervals, numbers
from ldpbeam.intervals.if_smooth import if_smooth
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.statistics import Answers, tally

Draw = Callable[[int, np.random.Generator], Floats]
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
RANGES = ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0), (0.13, 0.37), (0.62, 0.71))
PARTS, UNIT = ("quantiles", "ranges", "cdf"), Numeric(0.0, 1.0)


def mixed(*parts: tuple[float, Draw]) -> Draw:
    """People of several kinds, each with its part of all."""

    def draw(n: int, rng: np.random.Generator) -> Floats:
        chances = np.array([chance for chance, _ in parts])
        kinds = rng.choice(len(parts), n, p=chances / chances.sum())
        return np.choose(kinds, [own(n, rng) for _, own in parts])

    return draw


def of_values(values: Any, weights: Any) -> Draw:
    """People with these values."""
    chances = np.array(weights, dtype=np.float64) / np.sum(weights)
    return lambda n, rng: rng.choice(np.array(values, dtype=np.float64), n, p=chances)


def normal(mean: float, deviation: float) -> Draw:
    """People around a mean."""
    return lambda n, rng: rng.normal(mean, deviation, n)


def levels(weights: Any) -> Draw:
    """A density of so many levels."""
    part = of_values(np.arange(len(weights)), weights)
    return lambda n, rng: (part(n, rng) + rng.random(n)) / len(weights)


def rounded(draw: Draw, every: float, part: float) -> Draw:
    """People of whom a part rounds."""

    def of_people(n: int, rng: np.random.Generator) -> Floats:
        values = draw(n, rng)
        return np.where(rng.random(n) < part, np.round(values / every) * every, values)

    return of_people


YEARS, HALVES = np.arange(101), np.arange(49) / 2
AGES = np.exp(-0.5 * ((YEARS - 38) / 22) ** 2) * (YEARS < 96)
_RNG = np.random.default_rng(4)
SEATS = np.sort(_RNG.choice(np.arange(4, 451), 48, replace=False)), _RNG.gamma(0.5, 1.0, 48)
POPULATIONS: Mapping[str, Mapping[str, tuple[Numeric, Draw]]] = {
    "at most three jumps": {
        name: (UNIT, draw)
        for name, draw in {
            "gamma": lambda n, rng: rng.gamma(3.0, 0.09, n),
            "rising": lambda n, rng: rng.beta(5.0, 1.2, n),
            "upper part": lambda n, rng: rng.uniform(0.347, 1.0, n),
            "three normals": mixed(
                (0.3, normal(0.15, 0.04)), (0.4, normal(0.45, 0.07)), (0.3, normal(0.83, 0.03))
            ),
            "clipped normal": normal(0.85, 0.15),
            "spike in flat": mixed((0.2, of_values([0.53], [1])), (0.8, lambda n, rng: rng.random(n))),
            "saw": lambda n, rng: 0.72 * np.sqrt(rng.random(n)),
            "narrow lognormal": lambda n, rng: np.exp(rng.normal(-3.3, 0.5, n)),
            "clipped Cauchy": lambda n, rng: 0.5 + 0.12 * rng.standard_cauchy(n),
            "arcsine": lambda n, rng: rng.beta(0.5, 0.5, n),
            "two levels": levels([1, 1, 1, 4, 4, 1, 1, 1, 1, 1]),
            "Laplace": lambda n, rng: rng.laplace(0.4, 0.06, n),
        }.items()
    },
    "many spikes or levels": {
        name: (UNIT, draw)
        for name, draw in {
            "9 spikes": of_values(np.arange(1, 10) / 10, np.ones(9)),
            "17 spikes": of_values((np.arange(17) + 0.5) / 17, np.ones(17)),
            "half rounded": rounded(lambda n, rng: rng.beta(2.0, 3.0, n), 0.05, 0.5),
            "rounded incomes": rounded(lambda n, rng: rng.gamma(1.3, 0.1, n), 0.025, 0.7),
            "gap of poles": mixed(
                (0.5, lambda n, rng: 0.4 * rng.beta(0.5, 0.5, n)),
                (0.5, lambda n, rng: 0.6 + 0.4 * rng.beta(0.5, 0.5, n)),
            ),
            "16 levels": levels([3, 9, 1, 6, 2, 8, 5, 1, 7, 2, 4, 9, 1, 3, 6, 2]),
        }.items()
    },
    "values with a step": {
        "0 to 24": (Numeric(0, 24, 1), of_values(range(10), [6, 21, 28, 18, 13, 6, 4, 2, 1, 1])),
        "ages": (Numeric(0, 100, 1), of_values(YEARS, AGES)),
        "heaped ages": (
            Numeric(0, 100, 1),
            of_values(YEARS, AGES * (1 + (YEARS % 5 == 0) + (YEARS % 10 == 0))),
        ),
        "scale": (Numeric(0, 10, 1), of_values(range(11), [3, 1, 2, 2, 3, 8, 6, 12, 20, 14, 9])),
        "counts": (Numeric(0, 40, 1), of_values(range(41), 0.8 ** np.arange(41))),
        "seats": (Numeric(0, 450, 1), of_values(*SEATS)),
        "half hours": (
            Numeric(0, 24, 0.5),
            of_values(HALVES, np.exp(-0.5 * ((2 * HALVES - 17) / 5) ** 2) * (1 + 1.5 * (HALVES % 1 == 0))),
        ),
    },
}
#: (mechanism, epsilon, people) of each cell.
CELLS = [
    *itertools.product(("square_wave", "piecewise"), (0.5, 1.0, 2.0, 4.0), (2_000, 20_000)),
    *(("square_wave", epsilon, 100_000) for epsilon in (1.0, 4.0)),
]


def run(
    domain: Numeric, draw: Draw, cell: tuple[str, float, int], seed: int
) -> dict[tuple[str, str], list[float]]:
    """(the share held, the median width over the model's) by part and condition."""
    (mechanism, epsilon, n), rng = cell, np.random.default_rng([zlib.crc32(repr(cell).encode()), seed])
    people = np.clip(draw(n, rng), domain.low, domain.high)
    version = ServiceVersion("s", "", build_mechanism(mechanism, domain, epsilon))
    attribute = Attribute("x", domain, 256, (version,))
    answers = Answers(0, np.arange(n), version.mechanism.perturb(domain.to_unit(people), rng))
    ranges = tuple(map(tuple, domain.from_unit(RANGES).tolist()))
    wanted = WantedIntervals(quantiles=LEVELS, ranges=ranges)
    models: list[Floats] = []

    def noted(model: Floats, *others: Any) -> Floats:
        models.append(model)
        return if_smooth(model, *others)

    numbers.if_smooth = noted  # type: ignore[assignment, attr-defined]
    found = numbers.of_distribution(Question(attribute, tally(attribute, n, [answers]), ("s",)), wanted)
    both = domain.step is not None
    inside = [
        (people >= low) & ((people < high) | ((people == high) & (both or high == domain.high)))
        for low, high in ranges
    ]
    truths = {
        "quantiles": np.quantile(people, LEVELS, method="inverted_cdf"),
        "ranges": np.mean(inside, axis=1),
        "cdf": np.searchsorted(np.sort(people), np.array(found.at) + 1e-9, "right") / n,
    }
    # Those of the mean and the variance, and of value buckets, come before.
    model_of = dict(zip(("cdf", "quantiles", "ranges"), models[2:], strict=True))
    sums = {}
    for part, condition in itertools.product(PARTS, ("if_smooth", "certain")):
        ends, width = found.of(part, condition), domain.width if part == "quantiles" else 1.0
        assert ends is not None
        held = (ends[:, 0] - 1e-6 * width <= truths[part]) & (truths[part] <= ends[:, 1] + 1e-6 * width)
        wide = np.ptp(model_of[part], axis=1).clip(1e-4)
        sums[part, condition] = [float(held.mean()), float(np.median(np.ptp(ends, axis=1) / width / wide))]
    return sums


def rows(runs: int, only: str) -> Iterator[list[object]]:
    """A row for each kind of population, part and condition."""
    for kind, populations in POPULATIONS.items():
        of_kind: dict[tuple[str, str], dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
        for (name, (domain, draw)), cell, seed in itertools.product(populations.items(), CELLS, range(runs)):
            if only in f"{name} {cell}":
                for key, own in run(domain, draw, cell, seed).items():
                    of_kind[key][name].append(own)
        for (part, condition), by_name in of_kind.items():
            every = np.concatenate([np.array(own) for own in by_name.values()])
            worst = min(by_name, key=lambda name: float(np.mean(by_name[name], axis=0)[0]))
            of_worst = np.array(by_name[worst])[:, 0]
            yield [
                kind, part, condition.replace("_", " "), len(every), _mean(every[:, 0]),
                worst, _mean(of_worst),
                f"{np.median(every[:, 1]):.2f}",
                f"{max(np.median(np.array(own)[:, 1]) for own in by_name.values()):.2f}",
            ]  # fmt: skip


def _mean(held: Floats) -> str:
    return f"{held.mean():.3f} ± {held.std() / len(held) ** 0.5:.3f}"


COLUMNS = ("people", "number", "interval", "runs", "held", "worst", "held by the worst", "width", "widest")


def main() -> None:
    """Run all, and show the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="runs per cell and population")
    parser.add_argument("--only", default="", help="the populations and cells whose name has this text")
    parser.add_argument("--write", type=Path, help=HELP)
    given = parser.parse_args()
    show([table("if_smooth", COLUMNS, rows(given.runs, given.only))], given.write)


if __name__ == "__main__":
    main()
