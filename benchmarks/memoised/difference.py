"""Differences of two windows: how often their intervals hold the truth, whoever answered both.

    python -m benchmarks.memoised.difference [--runs 400] [--write docs/memoised.md]

Reports are drawn from the constants of the two steps of a client.
"""

from __future__ import annotations

import argparse
import itertools
import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ldpbeam as ldp
from benchmarks.pages import Table, renew, split
from ldpbeam.answers.difference import ends_of
from ldpbeam.answers.named_numbers import Numbers
from ldpbeam.domains import Categories, Floats, Integers, Numeric
from ldpbeam.intervals.bounded import within_one
from ldpbeam.mechanisms import CategoricalMechanism, UnbiasedMechanism, build_mechanism
from ldpbeam.over_time.joined_windows import difference_of_windows
from ldpbeam.over_time.memoised import Lifetime, SupportChain

CATEGORIES, PEOPLE, LEVEL, Z = 10, 2_000, 0.95, 1.959964
MECHANISMS = ("grr", "oue")
BUDGETS = ((2.0, 1.0), (4.0, 1.2), (6.0, 4.0))
NOISE = ("fresh", "remembered")
#: (who answers both windows, what becomes of values).
PEOPLE_AND_VALUES = (
    ("the same", "one value"),
    ("the same", "20% another value"),
    ("the same", "another value"),
    ("the same", "two that alternate"),
    ("half the same", "one value"),
    ("others", "one value"),
    ("others", "20% another value"),
)
#: How many people send numbers; means by user, which cost little, have so many times as many runs.
NUMBERS, MORE = 5_000, 10
STUDY = """\
study: numbers
attributes:
  x:
    domain: {{numeric: [0, 1]}}
    buckets: 64
    quantiles: [0.25, 0.5, 0.75]
    ranges: [[0, 0.25]]
    services: {{app: {{mechanism: {mechanism}, epsilon: {epsilon}}}}}
    estimates: {{shape: {{estimator: auto}}}}
windows: {{size: 1h}}
"""
_ZIPF = 1.0 / np.arange(1.0, CATEGORIES + 1.0)
_ZIPF /= _ZIPF.sum()
#: Of people whose values alternate, almost all have the first category or the second.
_TWO = np.array([0.45, 0.45, *[0.1 / (CATEGORIES - 2)] * (CATEGORIES - 2)])
_KINDS = ("population", "added", "people", "published")


class Cell(NamedTuple):
    """One setting."""

    mechanism: str
    budgets: tuple[float, float]
    noise: str
    who: str
    values: str


def cells() -> Iterator[Cell]:
    """All cells."""
    for mechanism, budgets, noise, own in itertools.product(MECHANISMS, BUDGETS, NOISE, PEOPLE_AND_VALUES):
        yield Cell(mechanism, budgets, noise, *own)


def drawn(values: str, people: int, rng: Generator) -> tuple[Integers, tuple[Floats, Floats]]:
    """(each person's value in both windows, shape (people, 2); the shares of the population in both)."""
    if values == "two that alternate":
        first = rng.choice(CATEGORIES, people, p=_TWO)
        second = np.where(first < 2, 1 - first, first)
        return np.stack((first, second), axis=1), (_TWO, _TWO)
    change = {"one value": 0.0, "20% another value": 0.2, "another value": 1.0}[values]
    first = rng.choice(CATEGORIES, people, p=_ZIPF)
    new = rng.choice(CATEGORIES, people, p=_ZIPF[::-1])
    second = np.where(rng.random(people) < change, new, first)
    return np.stack((first, second), axis=1), (_ZIPF, (1.0 - change) * _ZIPF + change * _ZIPF[::-1])


def supported(cell: Cell, lifetime: Lifetime, values: Integers, rng: Generator) -> NDArray[np.bool_]:
    """Which categories the reports of both windows support, shape (people, 2, categories)."""
    chain = lifetime.chain
    assert isinstance(chain, SupportChain)
    if cell.noise == "fresh":
        return _answers(cell.mechanism, values, *chain.window, rng)
    permanent = _answers(cell.mechanism, values, *chain.permanent, rng)
    same = values[:, 0] == values[:, 1]
    permanent[same, 1] = permanent[same, 0]
    if cell.mechanism == "grr":
        return _answers("grr", permanent.argmax(axis=2), *chain.instant, rng)
    return np.asarray(permanent == (rng.random(permanent.shape) < chain.instant[0]))


def _answers(mechanism: str, values: Integers, own: float, other: float, rng: Generator) -> NDArray[np.bool_]:
    names = np.arange(CATEGORIES)
    if mechanism == "oue":
        chance = np.where(values[..., None] == names, own, other)
        return np.asarray(rng.random(chance.shape) < chance)
    another = (values + rng.integers(1, CATEGORIES, values.shape)) % CATEGORIES
    return np.asarray(np.where(rng.random(values.shape) < own, values, another)[..., None] == names)


def run(cell: Cell, place: int) -> dict[str, Floats]:
    """One run: by kind of interval, whether it holds the truth and its width, by category; shape (2, 10)."""
    rng = np.random.default_rng([zlib.crc32(str(cell).encode()), place])
    domain = Categories(tuple(map(str, range(CATEGORIES))))
    lifetime = Lifetime(build_mechanism(cell.mechanism, domain, cell.budgets[1]), cell.budgets[0])
    mechanism = lifetime.window
    assert isinstance(mechanism, CategoricalMechanism) and mechanism.support_probabilities
    p, q = mechanism.support_probabilities
    both = {"the same": PEOPLE, "half the same": PEOPLE // 2, "others": 0}[cell.who]
    people = 2 * PEOPLE - both
    values, population = drawn(cell.values, people, rng)
    reports = supported(cell, lifetime, values, rng)
    rows = np.arange(PEOPLE), np.arange(people - PEOPLE, people)
    sides = [reports[own, window] for window, own in enumerate(rows)]
    by_user = difference_of_windows(people, (rows[0], sides[0]), (rows[1], sides[1]), lambda some: some)
    moved = (by_user.second - by_user.first) / (p - q)
    right, added = by_user.errors / (p - q), by_user.independent / (p - q)
    truths = [
        np.bincount(values[own, window], minlength=CATEGORIES) / PEOPLE for window, own in enumerate(rows)
    ]
    numbers = []
    for side in sides:
        shares = (side.mean(axis=0) - q) / (p - q)
        likely = np.clip(shares, 0.0, 1.0)
        # Supports are drawn independently, so there are no collisions of seeds.
        noise = likely * p * (1.0 - p) + (1.0 - likely) * q * (1.0 - q)
        errors = np.sqrt(noise / PEOPLE) / (p - q)
        low, high = within_one(shares, errors, LEVEL).T
        numbers.append(Numbers("shares", LEVEL, domain.names, shares, low, high, errors, [""] * domain.size))
    of_population, of_people = population[1] - population[0], truths[1] - truths[0]
    found: dict[str, Floats] = {}
    for kind, truth, ends in (
        ("population", of_population, _around(moved, right)),
        ("added", of_population, _around(moved, added)),
        ("people", of_people, _around(moved, right)),
        ("published", of_people, ends_of(numbers[0], numbers[1], np.hypot)),
    ):
        held = (ends[0] <= truth + 1e-12) & (truth <= ends[1] + 1e-12)
        found[kind] = np.stack((held.astype(np.float64), ends[1] - ends[0]))
    return found


def _around(shares: Floats, errors: Floats) -> tuple[Floats, Floats]:
    return shares - Z * errors, shares + Z * errors


def row(cell: Cell, runs: int) -> str:
    """A row of the table."""
    found = [run(cell, place) for place in range(runs)]
    told: dict[str, Any] = {kind: np.stack([one[kind] for one in found]) for kind in _KINDS}
    held = {kind: float(own[:, 0].mean()) for kind, own in told.items()}
    error = max(float(told["population"][:, 0].mean(axis=1).std()), 0.05) / math.sqrt(runs)
    narrower = told["population"][:, 1].mean() / told["added"][:, 1].mean()
    first = float(told["population"][:, 0, 0].mean()), float(told["added"][:, 0, 0].mean())
    budgets = "{:g}, {:g}".format(*cell.budgets)
    cells = [
        cell.mechanism, budgets, cell.noise, cell.who, cell.values, f"{held['population']:.1%}",
        f"{error:.1%}",
        f"{first[0]:.1%}", f"{narrower:.2f}", f"{held['added']:.1%}", f"{first[1]:.1%}",
        f"{held['people']:.1%}", f"{held['published']:.1%}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def shares(runs: int) -> Iterator[str | Table]:
    """The part on shares of categories, line by line."""
    yield from told([row(cell, runs) for cell in cells()], runs)


def told(rows: Sequence[str], runs: int) -> Iterator[str | Table]:
    """The part, from the rows of its table."""
    lifetime, epsilon = BUDGETS[-1]
    most = {"mechanism": MECHANISMS[0], "epsilons": f"{lifetime:g}, {epsilon:g}"}
    hidden = "mechanism", "epsilons", "first by user", "first added"
    yield from HEAD.splitlines()
    yield f"Each row has {runs:,} runs. The page has `{MECHANISMS[0]}` with epsilon {epsilon:g} a window and"
    yield f"{lifetime:g} for life, where the reports of two windows depend most on each other."
    yield ""
    lines = (COLUMNS, "| --- " * len(split(COLUMNS)) + "|", *rows)
    yield Table("memoised_differences", lines, lambda row: most.items() <= row.items(), hidden)
    held = [dict(zip(split(COLUMNS), map(_percent, split(row)), strict=True)) for row in rows]
    least = {name: min(own[name] for own in held) for name in split(COLUMNS)}
    yield ""
    yield f"In all {len(rows)} rows, intervals by user hold the difference of the population in"
    yield f"{least['by user']}% to {max(own['by user'] for own in held)}%, and that of the people in"
    yield f"{least['of the people']}% or more. Intervals that add variances hold that of the population in"
    yield f"{least['added']}% or more, for the first category alone in {least['first added']}% or more."
    yield f"Published intervals hold the difference of the people in {least['published']}% or more."


def _percent(cell: str) -> float:
    return float(cell.rstrip("%")) if cell.endswith("%") else math.nan


def of_numbers(mechanism: str, epsilon: float, runs: int) -> Iterator[str]:
    """Rows on the numbers that published estimates have: (held, flagged, width) of each kind of number."""
    study = ldp.Study.from_yaml(STUDY.format(mechanism=mechanism, epsilon=epsilon))
    hours = "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"
    users = [f"u{place}" for place in range(NUMBERS)]
    found: dict[str, list[tuple[bool, bool, float]]] = defaultdict(list)
    for place in range(runs):
        rng = np.random.default_rng([zlib.crc32(mechanism.encode()), place])
        first = rng.beta(2.0, 5.0, NUMBERS)
        second = 0.1 + 0.9 * first
        client = ldp.Client(study, "x", "app", rng=rng)
        sent = [
            client.reports(own, users, event_times=hour)
            for own, hour in zip((first, second), hours, strict=True)
        ]
        for one in ldp.estimate(study, sent).difference(windows=hours):
            kind, told = _of_people(one.number)
            if kind and one.low is not None and one.high is not None:
                truth = told(second) - told(first)
                found[kind].append((one.low <= truth <= one.high, bool(one.flag), one.high - one.low))
    found["mean by user, of the population"] = list(_means_by_user(mechanism, epsilon, runs * MORE))
    for kind, each in found.items():
        held, flagged, width = np.array(each, dtype=np.float64).T
        many = runs * MORE if "by user" in kind else runs
        error = math.sqrt(0.05 * 0.95 / many)
        yield (
            f"| {mechanism} | {epsilon:g} | {kind} | {many:,} | {held.mean():.1%} | {error:.1%} | "
            f"{flagged.mean():.0%} | {width.mean():.3f} |"
        )


def _means_by_user(mechanism: str, epsilon: float, runs: int) -> Iterator[tuple[bool, bool, float]]:
    made = build_mechanism(mechanism, Numeric(0.0, 1.0), epsilon)
    assert isinstance(made, UnbiasedMechanism)
    rows, truth = np.arange(NUMBERS), 0.1 - 0.1 * 2.0 / 7.0
    for place in range(runs):
        rng = np.random.default_rng([zlib.crc32(mechanism.encode()), NUMBERS, place])
        first = rng.beta(2.0, 5.0, NUMBERS)
        one, two = (made.perturb(values, rng) for values in (first, 0.1 + 0.9 * first))
        found = difference_of_windows(
            NUMBERS, (rows, one), (rows, two), lambda reports: made.unbiased(reports)[:, None]
        )
        low, high = (float(end[0]) for end in _around(found.second - found.first, found.errors))
        yield low <= truth <= high, False, high - low


def _of_people(number: str) -> tuple[str, Callable[[Floats], float]]:
    """(the kind of a published number, what it is of some values); an empty kind for value buckets."""
    if number == "mean":
        return "mean", lambda values: float(values.mean())
    if number.startswith("quantile"):
        return "quartiles", lambda values: float(np.quantile(values, float(number.split()[1])))
    if number.startswith("share from"):
        return "share below 0.25", lambda values: float((values < 0.25).mean())
    return "", lambda values: math.nan


def numbers(runs: int) -> Iterator[str]:
    """The section on numbers, line by line."""
    yield from HEAD_OF_NUMBERS.splitlines()
    yield "| mechanism | epsilon | number | runs | held | error | flagged | width |"
    yield "| --- " * 8 + "|"
    for mechanism, epsilon in (("square_wave", 1.0), ("piecewise", 1.0), ("piecewise", 6.0)):
        yield from of_numbers(mechanism, epsilon, runs)


COLUMNS = (
    "| mechanism | epsilons | noise | people | values | by user | error | first by user | width "
    "| added | first added | of the people | published |"
)
HEAD = f"""\
## Differences of two windows
`python -m benchmarks.memoised.difference --write docs/memoised.md` writes this section. It says how often
95% intervals of the difference of a share hold the truth. {PEOPLE:,} people answer in each of two
windows. `noise` says whether clients [remember it](over_time.md), and `people` who answers the second
window. Values have {CATEGORIES} categories, with shares in proportion to 1/k. New values are drawn from
the reverse of that, so that the population changes. Values that alternate are the first category in one
window and the second in the other, for nine people in ten, half of whom begin with each.

- `by user` is what [`ldp.difference`](library.md#differences) gives: how often it holds the difference of
  the population, averaged over categories, with its standard error; `first` is of the first category
  alone.
- `width` is how many times as wide these intervals are as those that take all reports for independent,
  and `added` how often the latter hold the difference of the population.
- `of the people` is how often intervals by user hold the difference of the people who answered, and
  `published` how often those of `ldpbeam diff --windows` do, which know no users.

"""


HEAD_OF_NUMBERS = f"""\
### Numbers
{NUMBERS:,} people answer in both windows, with fresh noise. Values are Beta(2, 5) in the first window,
and move a tenth of the way to 1 in the second. Estimates are those of `auto`, and their differences those
that `ldpbeam diff --windows` publishes: `held` is how often they hold the difference of the people, with
the standard error of independent runs, and `flagged` how many are flagged. The mean by user is that of
`ldp.difference`, and it holds the difference of the population.

"""


def main() -> None:
    """Print the page, and write it where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=400, help="runs per cell")
    parser.add_argument("--numbers", type=int, default=200, help="runs per row of numbers")
    parser.add_argument("--write", type=Path, help="where the page is written")
    given = parser.parse_args()
    renew(itertools.chain(shares(given.runs), [""], numbers(given.numbers)), given.write)


if __name__ == "__main__":
    main()
