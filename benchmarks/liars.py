"""How far fake users move quantiles and ranges of numbers, and how far they can move any honest estimator.

    python -m benchmarks.liars --series 3 [--write docs/measured]

10,000 people have values of Beta(2, 5) on [0, 1], epsilon is 1, and ``auto`` estimates. Some are fake. Of
the attacks that are tried the one counts that moves the number furthest in the mean. *Unseen* is the furthest
that reports move it which have exactly the histogram of honest people with another distribution. No test sees
them, and an estimator that is right for those other people is off by as much, if it has reports enough.
A second table has certain intervals of studies that allow for so many liars, and of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
from scipy import stats
from scipy.optimize import linprog

from benchmarks.coverage import attribute_of
from benchmarks.pages import Table, show_series, table
from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, Numeric
from ldpbeam.estimators import estimate
from ldpbeam.estimators.question import Question
from ldpbeam.intervals import WantedIntervals
from ldpbeam.intervals.strict import strict_intervals
from ldpbeam.mechanisms import NumericMechanism
from ldpbeam.metrics import quantiles_in, share_in
from ldpbeam.statistics import Answers, Statistic, tally

PEOPLE, BUCKETS, TRUE = 10_000, 256, stats.beta(2.0, 5.0)
MECHANISMS = ("square_wave", "piecewise", "laplace")
SHARES = (0.01, 0.05, 0.10)
#: Fake users send these reports, in parts of the range of honest ones, or values that are perturbed.
ONE_REPORT, FALSE_VALUE = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0), (0.0, 0.6, 1.0)
#: What is estimated: quantiles, and the share of a range.
QUANTILES, RANGE = (0.5, 0.95), (0.5, 0.75)
NUMBERS = ("median", "95% quantile", "share from 0.5 to 0.75")
COLUMNS = ("mechanism", "fake", *(f"{name}{more}" for name in NUMBERS for more in ("", ", unseen")))

OF_CERTAIN = ("mechanism", "fake", "number", "held", "width", "held with liars", "width with liars")


def numbers_of(distribution: Floats) -> Floats:
    """The quantiles and the share of the range, shape (3,)."""
    domain = Numeric(0.0, 1.0)
    return np.append(quantiles_in(domain, distribution, QUANTILES), share_in(domain, distribution, *RANGE))


def attacked(attribute: Attribute, fake: float, runs: int) -> Iterator[list[tuple[Statistic, Floats]]]:
    """For each attack, the statistic of each run and the values of its honest people."""
    mechanism = cast(NumericMechanism, attribute.versions[0].mechanism)
    low, high = (-1.2, 1.2) if mechanism.name == "laplace" else mechanism.report_range
    attacks = [("report", low + part * (high - low)) for part in ONE_REPORT]
    attacks += [("value", value) for value in FALSE_VALUE]
    for what, number in attacks:
        of_runs = []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            people = TRUE.rvs(PEOPLE, random_state=rng)
            payloads = mechanism.perturb(people, rng)
            lies = np.full(round(fake * PEOPLE), number)
            payloads[: len(lies)] = lies if what == "report" else mechanism.perturb(lies, rng)
            statistic = tally(attribute, PEOPLE, [Answers(0, np.arange(PEOPLE), payloads)])
            of_runs.append((statistic, people[len(lies) :]))
        yield of_runs


def moved(attribute: Attribute, fake: float, runs: int) -> Floats:
    """The greatest mean distance of each number of ``auto`` from that of the honest people, shape (3,)."""
    truth, shifts = np.append(TRUE.ppf(QUANTILES), np.diff(TRUE.cdf(RANGE))), []
    for of_runs in attacked(attribute, fake, runs):
        found = [estimate("auto", attribute, statistic).distribution for statistic, _ in of_runs]
        shifts.append(np.mean([numbers_of(cast(Floats, own)) - truth for own in found], axis=0))
    return np.asarray(np.abs(shifts).max(axis=0))


def certain(attribute: Attribute, fake: float, allowed: float, runs: int) -> tuple[Floats, Floats]:
    """(how often intervals that allow for liars hold under the worst attack, median widths), shape (3,)."""
    wanted, held, widths = WantedIntervals(quantiles=QUANTILES, ranges=(RANGE,), liars=allowed), [], []
    for of_runs in attacked(attribute, fake, runs):
        inside = []
        for statistic, people in of_runs:
            intervals = strict_intervals(Question(attribute, statistic, attribute.services), wanted)
            low, high = np.vstack([cast(Floats, intervals.of(part)) for part in ("quantiles", "ranges")]).T
            share = np.mean((people >= RANGE[0]) & (people < RANGE[1]))
            truth = np.append(np.quantile(people, QUANTILES), share)
            inside.append((low <= truth) & (truth <= high))
            widths.append(high - low)
        held.append(np.mean(inside, axis=0))
    return np.min(held, axis=0), np.median(widths, axis=0)


def unseen(attribute: Attribute, fake: float) -> Floats:
    """How far numbers of other honest people are whose reports these can be, at most, shape (3,)."""
    buckets = 128
    edges = np.linspace(0.0, 1.0, buckets + 1)
    people, channel = np.diff(TRUE.cdf(edges)), attribute.report_channel(0, buckets, buckets).dense()
    reports = (1.0 - fake) * (channel @ people)

    def least(weights: Floats) -> float:
        """The least mean of the weights among all people who may have sent the reports of honest ones."""
        found = linprog(weights, -channel, -reports, np.ones((1, buckets)), [1.0])
        assert found.fun is not None
        return float(found.fun)

    below = np.tri(buckets)
    shares = np.array([[least(row), -least(-row)] for row in below])
    others = [np.interp(level, column, edges[1:]) for level in QUANTILES for column in shares.T]
    inside = ((edges[:-1] >= RANGE[0]) & (edges[:-1] < RANGE[1])).astype(float)
    others += [np.float64(least(inside)), np.float64(-least(-inside))]
    truth = np.repeat(np.append(TRUE.ppf(QUANTILES), np.diff(TRUE.cdf(RANGE))), 2)
    return np.asarray(np.abs(np.array(others) - truth).reshape(-1, 2).max(axis=1))


def tables(runs: int) -> Iterator[Table]:
    """The tables."""
    rows, of_certain = [], []
    for name in MECHANISMS:
        attribute = attribute_of(((name, {}),), Numeric(0.0, 1.0), 1.0, BUCKETS)
        for fake in SHARES:
            shifts = zip(moved(attribute, fake, runs), unseen(attribute, fake), strict=True)
            rows.append([name, f"{fake:.0%}", *(f"{shift:.3f}" for pair in shifts for shift in pair)])
            pairs = [certain(attribute, fake, allowed, runs) for allowed in (0.0, fake)]
            for number, *cells in zip(NUMBERS, *pairs[0], *pairs[1], strict=True):
                of_certain.append([name, f"{fake:.0%}", number, *(f"{cell:.2f}" for cell in cells)])
    yield table("liars", COLUMNS, rows)
    yield table("liars_certain", OF_CERTAIN, of_certain)


if __name__ == "__main__":
    show_series(tables, __doc__)
