"""A day of 24 joined hours: how often intervals with the variance by user hold.

What each user sent is drawn from the constants of the two steps.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import beta

from benchmarks import pages
from benchmarks.memoised.day import (
    BUCKETS,
    CATEGORIES,
    COMPARED,
    HIDDEN,
    HOURS,
    WANTED,
    Cell,
    Inputs,
    cells,
    held_by_cell,
    inputs_of,
    permanent_cells,
    shown,
    values_of,
)
from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators import Estimate
from ldpbeam.intervals.computing import StatisticIntervals
from ldpbeam.mechanisms import LocalHashing, NumericMechanism
from ldpbeam.over_time.joined_windows import JoinedCells, JoinedSupports, Table
from ldpbeam.over_time.memoised import Lifetime, SupportChain
from ldpbeam.over_time.memoised.chains import uniform_part
from ldpbeam.statistics import Moments, Statistic

RESULTS = Path("build/memoised-joined.jsonl")


class Sent(NamedTuple):
    """What the users of a day sent.

    Attributes:
        reports: of each user, shape (users,).
        counts: of each user, how many reports support each category or lie in each report cell.
        histogram: of all reports.
    """

    reports: Integers
    counts: Integers
    histogram: Integers


def by_owner(cell: Cell, inputs: Inputs, counts: NDArray[np.integer[Any]]) -> Integers:
    """Counts of inputs added up by user, shape (users, ...)."""
    by_user = np.zeros((cell.people, *counts.shape[1:]), dtype=np.int64)
    order = np.argsort(inputs.owners, kind="stable")
    many = np.bincount(inputs.owners, minlength=cell.people)
    first = np.cumsum(many) - many
    # Users with equally many inputs are added up at once, which is faster than one user after the other.
    for each in np.unique(many[many > 0]):
        owners = np.flatnonzero(many == each)
        by_user[owners] = counts[order[first[owners][:, None] + np.arange(each)]].sum(axis=1)
    return by_user


def sent_by(cell: Cell, lifetime: Lifetime, values: Inputs, rng: Generator) -> Sent:
    """What the users of a day sent."""
    reports = by_owner(cell, values, values.hours)
    if cell.mechanism == "square_wave":
        counts = by_owner(cell, values, _cells(cell, lifetime, values, rng))
        return Sent(reports, counts, counts.sum(axis=0))
    if cell.mechanism == "olh":
        inputs = inputs_of(cell, values)
        supports, histogram = _hashed(cell, lifetime, inputs, rng)
        return Sent(reports, by_owner(cell, inputs, supports), histogram)
    counts = by_owner(cell, values, _supports(cell, lifetime, values, rng))
    total = counts.sum(axis=0)
    if cell.mechanism == "oue":
        total = np.column_stack((int(reports.sum()) - total, total)).ravel()
    return Sent(reports, counts, total)


def _spread(hours: Integers, chance: Floats | float, cells: int, rng: Generator) -> tuple[Integers, Integers]:
    """Which reports of each input are kept, with a chance, and where the others lie, each cell alike.

    Returns:
        (the number that is kept, shape (inputs,); counts of the others by cell, shape (inputs, cells)).
    """
    kept = rng.binomial(hours, chance)
    rows = np.repeat(np.arange(len(hours)), hours - kept)
    cell_of = rows * cells + rng.integers(0, cells, len(rows))
    return kept, np.bincount(cell_of, minlength=len(hours) * cells).reshape(-1, cells)


def _supports(cell: Cell, lifetime: Lifetime, values: Inputs, rng: Generator) -> Integers:
    chain = lifetime.chain
    assert isinstance(chain, SupportChain)
    (p1, q1), fresh = chain.permanent, values.owners >= cell.remembering
    if cell.mechanism == "oue":
        is_value = values.values[:, None] == np.arange(CATEGORIES)
        permanent = rng.random(is_value.shape) < np.where(is_value, p1, q1)
        chances = np.where(permanent, *chain.instant)
        chances[fresh] = np.where(is_value[fresh], *chain.window)
        return np.asarray(rng.binomial(values.hours[:, None], chances), dtype=np.int64)
    another = (values.values + rng.integers(1, CATEGORIES, len(fresh))) % CATEGORIES
    answer = np.where(fresh | (rng.random(len(fresh)) < p1), values.values, another)
    # The answer with chance p and each other category with q: p - q keeps it, and else all are alike.
    kept_chance = np.where(fresh, *(p - q for p, q in (chain.window, chain.instant)))
    kept, counts = _spread(values.hours, kept_chance, CATEGORIES, rng)
    counts[np.arange(len(counts)), answer] += kept
    return counts


def _hashed(
    cell: Cell, lifetime: Lifetime, inputs: Inputs, rng: Generator
) -> tuple[NDArray[np.int8], Integers]:
    """(supports of each input, the histogram of seeds and hash values)."""
    chain, mechanism = lifetime.chain, lifetime.window
    assert isinstance(chain, SupportChain) and isinstance(mechanism, LocalHashing)
    g, family = mechanism.hashes, mechanism.seed_family
    fresh = inputs.owners >= cell.remembering
    drawn = rng.integers(0, family, cell.people)[inputs.owners]
    # A client with fresh noise draws a seed in each hour.
    seeds = np.where(fresh, rng.integers(0, family, len(drawn)), drawn)
    owners = np.where(fresh, cell.people + np.arange(len(seeds)), inputs.owners)
    hash_values = mechanism.hash(np.arange(CATEGORIES)[None, :], np.arange(family)[:, None]).astype(np.int64)
    hashed = hash_values[seeds, inputs.values]
    # Values with one hash share the permanent answer.
    keys, first, which = np.unique(owners * g + hashed, return_index=True, return_inverse=True)
    kept = rng.random(len(keys)) < chain.permanent[0]
    answer = np.where(kept, hashed[first], (hashed[first] + rng.integers(1, g, len(keys))) % g)[which]
    chances = np.where(answer[:, None] == np.arange(g), *chain.instant)
    sent = rng.multinomial(inputs.hours, chances).astype(np.int8)
    sent_to = (seeds[:, None] * g + np.arange(g)).ravel()
    histogram = np.bincount(sent_to, sent.ravel(), family * g).astype(np.int64)
    return sent[np.arange(len(sent))[:, None], hash_values[seeds]], histogram


def _cells(cell: Cell, lifetime: Lifetime, values: Inputs, rng: Generator) -> Integers:
    b, many, fresh = lifetime.half_width, len(values.values), values.owners >= cell.remembering
    middles, outside = (
        (np.arange(BUCKETS) + 0.5) / BUCKETS,
        1.0 / (2.0 * b * math.exp(lifetime.epsilon) + 1.0),
    )
    # The share of the wave above the density that is everywhere on [-b, 1 + b].
    above = rng.random(many) < 2.0 * b * outside * math.expm1(lifetime.epsilon)
    near = middles[values.values] + rng.uniform(-b, b, many)
    first = np.where(above, near, rng.uniform(-b, 1.0 + b, many))
    answer = np.clip((first + b) / (1.0 + 2.0 * b) * BUCKETS, 0, BUCKETS - 1).astype(np.int64)
    even = uniform_part(b, lifetime.epsilon, lifetime.named.epsilon)
    kept, counts = _spread(values.hours, 1.0 - even, BUCKETS, rng)
    counts[~fresh, answer[~fresh]] += kept[~fresh]
    counts[fresh] += rng.multinomial(kept[fresh], permanent_cells(lifetime).T[values.values[fresh]])
    return counts


def _products(counts: Integers) -> Integers:
    """The sums over users of products of two counts; below 2^53, so that floating point adds them exactly."""
    exact = counts.astype(np.float64)
    return np.asarray(exact.T @ exact, dtype=np.int64)


def statistic_of(attribute: Attribute, sent: Sent) -> Statistic:
    """The statistic of a day of joined hours."""
    mechanism, n = attribute.versions[0].mechanism, int(sent.reports.sum())
    nothing = np.zeros(0, dtype=np.int64)
    sums, squares = 0, 0
    joined: JoinedSupports | JoinedCells
    if isinstance(mechanism, NumericMechanism):
        steps = mechanism.fixed_point(mechanism.representatives(BUCKETS))
        sums, squares = (int((sent.histogram * steps**power).sum()) for power in (1, 2))
        joined = JoinedCells(sent.histogram, Table.of(_products(sent.counts)))
    else:
        shape = CATEGORIES, HOURS + 1, HOURS + 1
        cells_of = np.ravel_multi_index((np.arange(CATEGORIES), sent.counts, sent.reports[:, None]), shape)
        users = np.bincount(cells_of.ravel(), minlength=math.prod(shape)).reshape(shape)
        joined = JoinedSupports(Table.of(users))
    moments = {1: Moments(n, (sums,), (squares,))}
    fingerprint = attribute.fingerprint
    return Statistic(fingerprint, n, len(sent.reports), (sent.histogram,), moments, nothing, nothing, joined)


def truths(cell: Cell, shares: Floats) -> dict[str, Floats]:
    """What intervals are to hold, by the shares of categories or buckets."""
    if cell.mechanism != "square_wave":
        return {"distribution": shares}
    below = np.concatenate(([0.0], np.cumsum(shares)))
    return {
        "distribution": shares,
        "mean": np.array([shares @ ((np.arange(BUCKETS) + 0.5) / BUCKETS)]),
        "quantiles": np.interp(WANTED.quantiles, below, np.linspace(0.0, 1.0, BUCKETS + 1)),
    }


def population(cell: Cell) -> Floats:
    """The shares of the population from which people are drawn."""
    if cell.mechanism == "square_wave":
        found: Floats = np.diff(beta.cdf(np.linspace(0.0, 1.0, BUCKETS + 1), 2.0, 5.0))
        return found
    weights = 1.0 / np.arange(1.0, CATEGORIES + 1.0)
    return np.asarray(weights / weights.sum())


def run(cell: Cell, place: int) -> dict[str, Any]:
    """One run: by kind of number, the share of intervals that hold what is true, joined and not."""
    rng = np.random.default_rng([zlib.crc32(f"joined {cell.name}".encode()), place])
    values = values_of(cell, rng)
    lifetime = cell.lifetime
    attribute = Attribute("x", cell.domain, BUCKETS, (ServiceVersion("s", "", lifetime.window, lifetime),))
    statistic = statistic_of(attribute, sent_by(cell, lifetime, values, rng))
    people = np.bincount(values.values, values.hours, attribute.value_buckets) / values.hours.sum()
    told = {"population": truths(cell, population(cell)), "people": truths(cell, people)}
    nothing: Any = np.full(1, np.nan)
    estimate = Estimate("", ("s",), statistic.reports, statistic.users, distribution=nothing, mean=nothing)
    found: dict[str, Any] = {}
    without = replace(statistic, joined=None, users=statistic.reports)
    ways = {"joined": (statistic, 1), "bound": (without, HOURS)}
    if place < COMPARED:
        ways["independent"] = (without, 1)
    for way, (own, windows) in ways.items():
        intervals = StatisticIntervals(attribute, own, windows).of(estimate, WANTED)
        for kind in told["people"]:
            low, high = np.asarray(getattr(intervals, kind)).reshape(-1, 2).T
            found[f"{way} {kind} width"] = float((high - low).mean())
            for whose, truth in told.items():
                inside = (low <= truth[kind] + 1e-12) & (truth[kind] <= high + 1e-12)
                found[f"{way} {kind} {whose}"] = float(inside.mean())
                if kind == "distribution":
                    found[f"{way} largest {whose}"] = float(inside[truth[kind].argmax()])
    return found


def section(runs: int, minutes: float, again: Collection[str]) -> Iterator[str | pages.Table]:
    """Run what is missing, then the lines of the section."""
    by_name = {cell.name: cell for cell in cells()}
    by_cell = held_by_cell(
        RESULTS, by_name, runs, minutes, lambda name, place: run(by_name[name], place), again
    )
    rows = []
    for cell in cells():
        held = by_cell[cell.name]
        kinds = (
            ("distribution", "mean", "quantiles") if cell.mechanism == "square_wave" else ("distribution",)
        )
        for kind in kinds if held else ():
            rows.append(f"| {' | '.join(_row(cell, kind, held))} |")
    yield from told(rows)


def told(rows: Sequence[str]) -> Iterator[str | pages.Table]:
    """The section, from the rows of its table."""
    yield from HEAD.splitlines()
    names = pages.split(COLUMNS)
    cells_of = [dict(zip(names, pages.split(row), strict=True)) for row in rows]
    for people in dict.fromkeys(row["people"] for row in cells_of):
        held = [
            float(row["population"].rstrip("%"))
            for row in cells_of
            if row["people"] == people and row["mechanism"] != "square_wave"
        ]
        yield f"With {people} people, intervals of shares of categories hold those of the population in"
        yield f"{min(held)}% to {max(held)}%."
    yield ""
    lines = (COLUMNS, "| --- " * len(names) + "|", *rows)
    yield pages.Table("memoised_joined_day", lines, shown, HIDDEN)


def _row(cell: Cell, kind: str, held: list[dict[str, float]]) -> list[str]:
    def mean(name: str) -> float:
        return float(np.mean([one[name] for one in held if name in one]))

    counted = f"joined {kind} population"
    own = np.array([one[counted] for one in held if counted in one])
    error = max(float(own.std()), math.sqrt(0.05 * 0.95 / BUCKETS)) / math.sqrt(len(own))
    widths = {way: mean(f"{way} {kind} width") for way in ("joined", "bound", "independent")}
    largest = "-" if cell.mechanism == "square_wave" else f"{mean('joined largest population'):.1%}"
    number = "shares" if kind == "distribution" else kind
    return [
        cell.mechanism, f"{cell.budgets[0]:g}, {cell.budgets[1]:g}", f"{cell.people:,}", cell.remember,
        cell.values, number, f"{len(own):,}",
        f"{own.mean():.1%}", f"{error:.1%}", largest, f"{mean(f'joined {kind} people'):.1%}",
        f"{mean(f'bound {kind} population'):.1%}", f"{widths['joined'] / widths['independent']:.2f}",
        f"{widths['joined'] / widths['bound']:.2f}",
    ]  # fmt: skip


COLUMNS = (
    "| mechanism | epsilons | people | remember | values | number | runs | population | error | largest "
    "| sample | rolled up | wider than independent | than rolled up |"
)
HEAD = """\
## A day of joined hours
This is the same day with `windows: {size: 1h, joined: 1d}`. Each run draws people from the population
anew. The benchmark draws counts by user directly; `tests/over_time/test_joined_day.py` takes reports of
each mechanism through the pipeline, and compares the statistic with a loop over users.

- `population` and `sample` are the shares of 95% intervals that hold the numbers of the population and of
  the people who were drawn; `error` is the standard error of the first, and `largest` is of the largest
  category.
- `rolled up` is what intervals of the fewest users hold of the population, where hours are not joined.
- The last two columns are how many times as wide intervals of joined hours are as those of independent
  reports, and as those of the fewest users.
- Where 2,000 runs count, they are fresh, because the first 400 were outside of 93% to 97%, or below 94%
  rolled up.

"""
