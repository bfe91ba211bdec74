"""ULE over many services: how close, in how many evaluations, and in what time."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from benchmarks.solvers.measure import medians, pairs, table
from ldpbeam import Attribute, Numeric, ServiceVersion
from ldpbeam.domains import Floats
from ldpbeam.estimators import Question, estimate
from ldpbeam.estimators.fixed_point import LARGEST_CHANGE
from ldpbeam.estimators.iteration import Trace, smooth
from ldpbeam.estimators.joint_fixed_point import fit_users
from ldpbeam.estimators.joint_likelihood import JointLikelihood
from ldpbeam.estimators.user_rows import UserRows
from ldpbeam.mechanisms import Mechanism, Piecewise, SquareWave, StochasticRounding
from ldpbeam.metrics import wasserstein
from ldpbeam.resolution import enough_buckets
from ldpbeam.statistics import Answers, Statistic, tally

TITLE = "Many services: ule with the joint likelihood of each user's reports"
EPSILON = 0.3
SEEDS = range(20)
#: Plain updates stop here if they have not come to the fixed point.
MOST_UPDATES = 20_000


def asked(services: int, buckets: int, joint_buckets: int | None = None) -> Attribute:
    """PM, SW and SR in turn, with the default resolution of many services or with the one given."""
    turn: list[Mechanism] = [Piecewise(EPSILON), SquareWave(EPSILON), StochasticRounding(EPSILON)]
    versions = tuple(ServiceVersion(f"s{i}", "", turn[i % 3]) for i in range(services))
    chosen = tuple(enough_buckets(version.mechanism, buckets) for version in versions)
    names = tuple(version.service for version in versions)
    return Attribute("x", Numeric(0.0, 1.0), buckets, versions, names, joint_buckets or chosen)


def told(attribute: Attribute, users: int, seed: int) -> tuple[Statistic, Floats]:
    """The statistic of users of Beta(2, 5) who told all services, and their own histogram."""
    rng = np.random.default_rng(seed)
    values = rng.beta(2, 5, users)
    answers = [
        Answers(i, np.arange(users), version.mechanism.perturb(values, rng))
        for i, version in enumerate(attribute.versions)
    ]
    shares = np.histogram(values, attribute.value_buckets, (0.0, 1.0))[0] / users
    return tally(attribute, users, answers), shares


def accuracy(services: int, users: int = 20_000) -> list[object]:
    """How far off ULE is from the users' own histogram, compared with EMS over the stacked reports."""
    attribute = asked(services, 256)
    distances, kept = [], 1.0
    for seed in SEEDS:
        statistic, shares = told(attribute, users, seed)
        joined = estimate("ule", attribute, statistic, options={"accelerated": True})
        stacked = estimate("ems", attribute, statistic)
        both = [cast(Floats, found.distribution) for found in (joined, stacked)]
        distances.append([wasserstein(found, shares) for found in both])
        kept = min(kept, *joined.details["information_kept"].values())
    ule, ems = np.array(distances).T
    gains = ems - ule
    t = gains.mean() / (gains.std(ddof=1) / math.sqrt(len(gains)))
    ratio = math.exp(np.log(ule / ems).mean())
    return [services, f"{kept:.1%}", f"{ule.mean():.4f}", f"{ems.mean():.4f}", f"{ratio:.2f}", f"{t:.1f}"]


def plain_updates(likelihood: JointLikelihood, buckets: int) -> int:
    """After how many plain updates a further one changes no share by more than the largest change."""
    counts, products = likelihood.counts.astype(np.float64), likelihood.products
    weights = np.full(buckets, 1.0 / buckets)
    for number in range(MOST_UPDATES):
        _, back = products.evaluate(weights, counts)
        updated = smooth(weights * back)
        if np.abs(updated - weights).max() <= LARGEST_CHANGE:
            return number + 1
        weights = updated
    return MOST_UPDATES


def evaluations(services: int, buckets: int, users: int) -> list[object]:
    """Evaluations of all users to the fixed point: plain updates, and Newton steps."""
    attribute = asked(services, buckets, 256 if services <= 3 else None)
    statistic, _ = told(attribute, users, 1)
    likelihood = JointLikelihood(Question(attribute, statistic, attribute.services))
    counts = likelihood.counts.astype(np.float64)
    fit = fit_users(likelihood.products, counts, buckets, smoothing=True, trace=Trace(500))
    plain, steps = plain_updates(likelihood, buckets), len(fit.log_likelihoods)
    return [services, f"{buckets:,}", f"{users:,}", f"{plain:,}", steps, f"{plain / steps:,.0f}"]


class Solve:
    """To the fixed point, with the likelihoods in the form of rows of users."""

    def __init__(self, services: int, users: int = 100_000) -> None:
        attribute = asked(services, 256)
        statistic, _ = told(attribute, users, 2)
        self.likelihood = JointLikelihood(Question(attribute, statistic, attribute.services))

    def __call__(self) -> None:
        """Build the products, and solve."""
        likelihood = self.likelihood
        rows = UserRows(likelihood.log_axes, list(likelihood.places.T))
        fit_users(rows, likelihood.counts.astype(np.float64), 256, smoothing=True, trace=Trace(500))


def section() -> list[str]:
    """The distances, the evaluations, and the time of fifteen services compared with three."""
    few, many = Solve(3), Solve(15)
    took, base, ratio = medians(pairs(many, few))
    return [
        f"PM, SW and SR in turn at epsilon {EPSILON}, Beta(2, 5), 20,000 users, 256 buckets,",
        f"{len(SEEDS)} seeds in pairs. W1 is from the users' own histogram, ems over stacked reports.",
        "The ratio is the geometric mean, t the mean gain over its standard error.",
        "",
        *table(
            ["services", "least information kept", "W1 of ule", "W1 of ems", "ratio", "t"],
            [accuracy(services) for services in (3, 9, 15)],
        ),
        "",
        "Evaluations of all users until a further plain update changes no share by more than"
        f" {LARGEST_CHANGE:.0e}:",
        "",
        *table(
            ["services", "value buckets", "users", "plain", "accelerated", "times fewer"],
            [
                evaluations(3, 256, 100_000),
                evaluations(3, 256, 1_000_000),
                evaluations(3, 1_024, 100_000),
                evaluations(15, 256, 20_000),
            ],
        ),
        "",
        f"To the fixed point with 100,000 rows of users and 256 buckets: {took:.2f} s of CPU for 15",
        f"services, {base:.2f} s for 3, {ratio:.1f} times as much.",
    ]
