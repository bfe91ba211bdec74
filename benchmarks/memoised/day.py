"""A day of 24 hours, rolled up without bringing the reports of a user together: how often intervals hold.

Reports are drawn from the constants of the two steps, those of all users with equal inputs together.
"""

from __future__ import annotations

import itertools
import json
import math
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from benchmarks.pages import Table
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, Domain, Floats, Integers, Numeric
from ldpbeam.estimators import Estimate
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.mechanisms import LocalHashing, NumericMechanism, build_mechanism
from ldpbeam.over_time.memoised import Lifetime, SupportChain
from ldpbeam.over_time.memoised.chains import uniform_part
from ldpbeam.statistics import Moments, Statistic

HOURS, CATEGORIES, BUCKETS = 24, 40, 64
BUDGETS = ((2.0, 1.0), (4.0, 1.2))
PEOPLE = (2_000, 50_000)
MECHANISMS = ("grr", "oue", "olh", "square_wave")
#: (which clients remember, what people's values and reports are).
FLEETS = (
    ("all", "one value"),
    ("half", "one value"),
    ("none", "one value"),
    ("all", "another value from noon on"),
    ("all", "another value with 2% an hour"),
    ("all", "one value, 1 to 24 reports"),
)
LEAST = 0.94
#: Runs of a cell before the next cell has its turn, so that a page of fewer runs has all of them.
ROUND = 10
#: The first runs of a cell, which also measure intervals of independent reports.
COMPARED = 100
#: The number of the first fresh run of a cell, and how many there are.
FIRST_FRESH, FRESH = 20_000, 2_000
RESULTS = Path("build/memoised.jsonl")
WANTED = WantedIntervals(quantiles=(0.25, 0.5, 0.75))


class Cell(NamedTuple):
    """One setting of the day."""

    mechanism: str
    budgets: tuple[float, float]
    people: int
    remember: str
    values: str

    @property
    def name(self) -> str:
        """The name in the file of results."""
        return f"{self.mechanism} {self.budgets} {self.people} {self.remember} {self.values}"

    @property
    def remembering(self) -> int:
        """How many people remember their noise."""
        return {"all": self.people, "half": self.people // 2, "none": 0}[self.remember]

    @property
    def lifetime(self) -> Lifetime:
        """What the study says of the clients."""
        named = build_mechanism(self.mechanism, self.domain, self.budgets[1])
        return Lifetime(
            named, self.budgets[0], memo_buckets=0 if self.mechanism in MECHANISMS[:3] else BUCKETS
        )

    @property
    def domain(self) -> Domain:
        """The domain of values."""
        if self.mechanism == "square_wave":
            return Numeric(0.0, 1.0)
        return Categories(tuple(map(str, range(CATEGORIES))))


def cells() -> Iterator[Cell]:
    """All cells, those of few people first."""
    for people, (remember, values), budgets, mechanism in itertools.product(
        PEOPLE, FLEETS, BUDGETS, MECHANISMS
    ):
        yield Cell(mechanism, budgets, people, remember, values)


class Inputs(NamedTuple):
    """The values that people have: whose they are, which they are, and in how many hours."""

    owners: Integers
    values: Integers
    hours: Integers


def values_of(cell: Cell, rng: Generator) -> Inputs:
    """The values of all people of a day; those who remember their noise come first."""
    n, size = cell.people, CATEGORIES if cell.mechanism != "square_wave" else BUCKETS

    def draw(many: int) -> Integers:
        if cell.mechanism == "square_wave":
            return np.minimum(rng.beta(2.0, 5.0, many) * BUCKETS, BUCKETS - 1).astype(np.int64)
        weights = 1.0 / np.arange(1.0, CATEGORIES + 1.0)
        return rng.choice(CATEGORIES, many, p=weights / weights.sum())

    everyone, values, hours = np.arange(n), draw(n), np.full(n, HOURS)
    if cell.values.startswith("another value from noon"):
        keys = np.concatenate((everyone, everyone)) * size + np.concatenate((values, draw(n)))
        keys, halves = np.unique(keys, return_counts=True)
        everyone, values, hours = keys // size, keys % size, halves * (HOURS // 2)
    elif cell.values.startswith("another value with"):
        by_hour = np.repeat(values[:, None], HOURS, axis=1)
        for hour in range(1, HOURS):
            changed = np.flatnonzero(rng.random(n) < 0.02)
            by_hour[changed, hour:] = draw(len(changed))[:, None]
        keys, hours = np.unique((everyone[:, None] * size + by_hour).ravel(), return_counts=True)
        everyone, values = keys // size, keys % size
    elif cell.values.endswith("reports"):
        hours = rng.integers(1, HOURS + 1, n)
    return Inputs(everyone, values, hours)


def inputs_of(cell: Cell, values: Inputs) -> Inputs:
    """The inputs of permanent steps: a value that is remembered, or each hour of one with fresh noise."""
    fresh = values.owners >= cell.remembering
    hours = values.hours[fresh]
    return Inputs(
        np.concatenate((values.owners[~fresh], np.repeat(values.owners[fresh], hours))),
        np.concatenate((values.values[~fresh], np.repeat(values.values[fresh], hours))),
        np.concatenate((values.hours[~fresh], np.ones(int(hours.sum()), dtype=np.int64))),
    )


def statistic_of(cell: Cell, attribute: Attribute, inputs: Inputs, rng: Generator) -> Statistic:
    """The statistic of a day's reports."""
    lifetime = attribute.versions[0].lifetime
    assert lifetime is not None
    if cell.mechanism == "square_wave":
        histogram = _of_wave(lifetime, inputs, rng)
    elif cell.mechanism == "olh":
        histogram = _of_hashes(cell, lifetime, inputs, rng)
    else:
        histogram = _of_categories(cell, lifetime, inputs, rng)
    reports = int(inputs.hours.sum())
    sums, squares = 0, 0
    mechanism = attribute.versions[0].mechanism
    if isinstance(mechanism, NumericMechanism):
        steps = mechanism.fixed_point(mechanism.representatives(BUCKETS))
        sums, squares = (int((histogram * steps**power).sum()) for power in (1, 2))
    moments = {1: Moments(reports, (sums,), (squares,))}
    nothing = np.zeros(0, dtype=np.int64)
    return Statistic(attribute.fingerprint, reports, reports, (histogram,), moments, nothing, nothing)


def _grouped(inputs: Inputs, size: int) -> Integers:
    """How many inputs have each value and number of hours, shape (hours + 1, size)."""
    found = np.bincount(inputs.hours * size + inputs.values, minlength=(HOURS + 1) * size)
    return found.reshape(HOURS + 1, size)


def _of_categories(cell: Cell, lifetime: Lifetime, inputs: Inputs, rng: Generator) -> Integers:
    chain = lifetime.chain
    assert isinstance(chain, SupportChain)
    (p1, q1), (p2, q2) = chain.permanent, chain.instant
    grouped = _grouped(inputs, CATEGORIES)
    if cell.mechanism == "grr":
        first = np.full((CATEGORIES, CATEGORIES), q1) + (p1 - q1) * np.eye(CATEGORIES)
        second = np.full((CATEGORIES, CATEGORIES), q2) + (p2 - q2) * np.eye(CATEGORIES)
        answers = rng.multinomial(grouped, first).sum(axis=1) * np.arange(HOURS + 1)[:, None]
        return np.asarray(rng.multinomial(answers.sum(axis=0), second).sum(axis=0), dtype=np.int64)
    everyone = grouped.sum(axis=1, keepdims=True)
    set_bits = rng.binomial(grouped, p1) + rng.binomial(everyone - grouped, q1)
    hours = np.arange(HOURS + 1)[:, None]
    supports = rng.binomial(set_bits * hours, p2) + rng.binomial((everyone - set_bits) * hours, q2)
    supports = supports.sum(axis=0)
    return np.column_stack((int(inputs.hours.sum()) - supports, supports)).ravel()


def _of_hashes(cell: Cell, lifetime: Lifetime, inputs: Inputs, rng: Generator) -> Integers:
    chain, mechanism = lifetime.chain, lifetime.window
    assert isinstance(chain, SupportChain) and isinstance(mechanism, LocalHashing)
    g, family = mechanism.hashes, mechanism.seed_family
    seeds = rng.integers(0, family, cell.people)[inputs.owners]
    if cell.remember != "all":
        # A client with fresh noise draws a seed in each hour.
        fresh = inputs.owners >= cell.remembering
        seeds = np.where(fresh, rng.integers(0, family, len(seeds)), seeds)
        owners = np.where(fresh, cell.people + np.arange(len(seeds)), inputs.owners)
    else:
        owners = inputs.owners
    hashed = mechanism.hash(inputs.values, seeds).astype(np.int64)
    # Values with one hash share the permanent answer.
    keys, first, which = np.unique(owners * g + hashed, return_index=True, return_inverse=True)
    kept = rng.random(len(keys)) < chain.permanent[0]
    answer = np.where(kept, hashed[first], (hashed[first] + rng.integers(1, g, len(keys))) % g)[which]
    histogram = np.zeros(family * g, dtype=np.int64)
    left, chance = inputs.hours.copy(), 1.0
    for shift, own in enumerate([chain.instant[0]] + [chain.instant[1]] * (g - 1)):
        sent = left if shift == g - 1 else rng.binomial(left, min(1.0, own / chance))
        np.add.at(histogram, seeds * g + (answer + shift) % g, sent)
        left, chance = left - sent, chance - own
    return histogram


def permanent_cells(lifetime: Lifetime) -> Floats:
    """P(the permanent answer of a number lies in a report cell), shape (cells, memo buckets)."""
    b = lifetime.half_width
    edges = np.linspace(-b, 1.0 + b, BUCKETS + 1)
    middles = (np.arange(BUCKETS) + 0.5) / BUCKETS
    inside = np.diff(np.clip(edges[:, None], middles - b, middles + b), axis=0)
    outside = 1.0 / (2.0 * b * math.exp(lifetime.epsilon) + 1.0)
    chances = outside * ((1.0 + 2.0 * b) / BUCKETS + math.expm1(lifetime.epsilon) * inside)
    return np.asarray(chances / chances.sum(axis=0))


def _of_wave(lifetime: Lifetime, inputs: Inputs, rng: Generator) -> Integers:
    b, (life, epsilon) = lifetime.half_width, (lifetime.epsilon, lifetime.named.epsilon)
    grouped = _grouped(inputs, BUCKETS)
    answers = rng.multinomial(grouped, permanent_cells(lifetime).T).sum(axis=1)
    shown = answers * np.arange(HOURS + 1)[:, None]
    kept = rng.binomial(shown.sum(axis=0), 1.0 - uniform_part(b, life, epsilon))
    even = rng.multinomial(int(inputs.hours.sum()) - int(kept.sum()), np.full(BUCKETS, 1.0 / BUCKETS))
    return np.asarray(kept + even, dtype=np.int64)


def run(cell: Cell, place: int) -> dict[str, Any]:
    """One run: by kind of number, the share of intervals that hold the truth, with the bound and without."""
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), place])
    inputs = inputs_of(cell, values_of(cell, rng))
    lifetime = cell.lifetime
    attribute = Attribute("x", cell.domain, BUCKETS, (ServiceVersion("s", "", lifetime.window, lifetime),))
    statistic = statistic_of(cell, attribute, inputs, rng)
    size = attribute.value_buckets
    shares = np.bincount(inputs.values, inputs.hours, size) / inputs.hours.sum()
    truth: dict[str, Floats] = {"distribution": shares}
    if cell.mechanism == "square_wave":
        truth["mean"] = np.array([shares @ ((np.arange(size) + 0.5) / size)])
        below = np.concatenate(([0.0], np.cumsum(shares)))
        truth["quantiles"] = np.interp(WANTED.quantiles, below, np.linspace(0.0, 1.0, size + 1))
    nothing: Any = np.full(1, np.nan)
    estimate = Estimate("", ("s",), statistic.reports, statistic.users, distribution=nothing, mean=nothing)
    found: dict[str, Any] = {}
    for what, windows in (("bound", HOURS), ("before", 1))[: 2 if place < COMPARED else 1]:
        intervals = StatisticIntervals(attribute, statistic, windows).of(estimate, WANTED)
        for kind, told in truth.items():
            low, high = np.asarray(getattr(intervals, kind)).reshape(-1, 2).T
            inside = (low <= told + 1e-12) & (told <= high + 1e-12)
            found[f"{what} {kind}"] = [float(inside.mean()), float((high - low).mean())]
            if kind == "distribution":
                found[f"{what} largest"] = [float(inside[told.argmax()]), 0.0]
    return found


def held_by_cell(
    path: Path,
    names: Iterable[str],
    runs: int,
    minutes: float,
    run: Callable[[str, int], dict[str, Any]],
    again: Collection[str] = (),
) -> dict[str, list[dict[str, Any]]]:
    """What each run of each cell held; runs that a file has are not repeated, and others are added to it.

    Of a cell with fresh runs, the first ones give widths alone.

    Args:
        path: the file, with a line per run.
        names: the cells.
        runs: of each cell. Cells take turns, so that those that take longest have their share of the time.
        minutes: no run begins after so many.
        run: what one run held, by the name of its cell and its number.
        again: cells of which ``FRESH`` further runs are made, with other numbers.
    """
    path.parent.mkdir(exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(result["cell"], result["run"]) for result in done}
    until = time.monotonic() + 60.0 * minutes
    rounds = itertools.product(range(0, runs, ROUND), names)
    wanted = [(name, place) for first, name in rounds for place in range(first, min(first + ROUND, runs))]
    wanted += [(name, FIRST_FRESH + place) for name in again for place in range(FRESH)]
    with path.open("a", buffering=1) as stream:
        for name, place in wanted:
            if (name, place) not in known and time.monotonic() < until:
                done.append({"cell": name, "run": place, "held": run(name, place)})
                stream.write(json.dumps(done[-1]) + "\n")
    fresh = {result["cell"] for result in done if result["run"] >= FIRST_FRESH}
    by_cell = defaultdict(list)
    for result in done:
        counts = result["run"] >= FIRST_FRESH or result["cell"] not in fresh
        held = {name: held for name, held in result["held"].items() if counts or name.endswith("width")}
        by_cell[result["cell"]].append(held)
    return by_cell


#: Alike in all rows of the page.
HIDDEN = ("epsilons", "people", "values")


def shown(row: Mapping[str, str]) -> bool:
    """The rows of the page: 2,000 people of one value, at the smaller epsilons, who remember or do not."""
    page = {"epsilons": "2, 1", "people": f"{PEOPLE[0]:,}", "values": FLEETS[0][1]}
    return page.items() <= row.items() and row["remember"] != "half"


def table(rows: Sequence[str]) -> Table:
    """All rows; the page has some."""
    return Table("memoised_day", (COLUMNS, "| --- " * 12 + "|", *rows), shown, HIDDEN)


def section(runs: int, minutes: float) -> Iterator[str | Table]:
    """Run what is missing, then the lines of the section."""
    by_name = {cell.name: cell for cell in cells()}
    by_cell = held_by_cell(RESULTS, by_name, runs, minutes, lambda name, place: run(by_name[name], place))
    rows, outside = [], 0
    for cell in cells():
        held = by_cell[cell.name]
        kinds = (
            ("distribution", "mean", "quantiles") if cell.mechanism == "square_wave" else ("distribution",)
        )
        for kind in kinds if held else ():
            own = np.array([one[f"bound {kind}"][0] for one in held])
            error = max(float(own.std()), math.sqrt(0.05 * 0.95 / BUCKETS)) / math.sqrt(len(own))
            outside += own.mean() < LEAST
            compared = [one for one in held if f"before {kind}" in one]
            before = np.mean([one[f"before {kind}"][0] for one in compared])
            widths = [[one[f"{what} {kind}"][1] for one in compared] for what in ("bound", "before")]
            wider = np.mean(widths[0]) / np.mean(widths[1])
            largest = np.mean([one["bound largest"][0] for one in held])
            of_largest = f"{largest:.1%}" if cell.mechanism != "square_wave" else "-"
            number = "shares" if kind == "distribution" else kind
            row = [
                cell.mechanism, "{:g}, {:g}".format(*cell.budgets), f"{cell.people:,}", cell.remember,
                cell.values, number, str(len(held)), f"{own.mean():.1%}", f"{error:.1%}", of_largest,
                f"{before:.1%}", f"{wider:.2f}",
            ]  # fmt: skip
            rows.append(f"| {' | '.join(row)} |")
    yield from HEAD.splitlines()
    yield f"Of {len(rows)} rows, {outside} {'has' if outside == 1 else 'have'} less than {LEAST:.0%}."
    yield ""
    yield table(rows)


COLUMNS = (
    "| mechanism | epsilons | people | remember | values | number | runs | held | error | largest | "
    "independent | wider |"
)
HEAD = f"""\
## A day of hours
A roll-up adds up {HOURS} hours to a day. It does not bring the reports of a user together, so its 95%
intervals are those of the fewest users. The truth is the average over the reports of the people who were
drawn. There are {CATEGORIES} categories with shares in proportion to 1/k. Numbers are Beta(2, 5) in
{BUCKETS} buckets and as many memo buckets. Every person reports in every hour, except where `values` says
otherwise.

- `epsilons` are that for life and that of a window. `remember` says which clients remember their noise;
  the study says that all of them do. `number` is what the intervals are of.
- `held` is the share of intervals that hold the truth, averaged over categories, buckets or three
  quartiles, and `error` its standard error; `largest` is that of the largest category alone.
- `independent` is what intervals of independent reports would hold, and `wider` how many times those of
  the fewest users are as wide.

The page has 2,000 people with one value. The file also has 50,000 people, half of whom remember, values
that change, and users who report in some hours only.

"""
