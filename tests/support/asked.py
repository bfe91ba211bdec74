"""What people send who answer every service of an attribute, and the statistic of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ldpbeam import Answers, Attribute, Numeric, ServiceVersion, Statistic, build_mechanism, tally
from ldpbeam.channels import Channel
from ldpbeam.domains import Categories, Domain, Floats
from ldpbeam.estimators import Question
from ldpbeam.mechanisms import Mechanism
from ldpbeam.statistics import Moments, empty


def categories(size: int) -> Categories:
    """So many categories, named by their numbers."""
    return Categories(tuple(map(str, range(size))))


def attribute_of(domain: Domain, *mechanisms: Mechanism, buckets: int = 1) -> Attribute:
    """An attribute with a service for each mechanism, s0, s1 and so on."""
    versions = tuple(ServiceVersion(f"s{at}", "", mechanism) for at, mechanism in enumerate(mechanisms))
    return Attribute("x", domain, buckets, versions)


def of_categories(*mechanisms: Any) -> Attribute:
    """An attribute of as many categories as the mechanisms have."""
    return attribute_of(categories(mechanisms[0].bins), *mechanisms)


def statistic_of(attribute: Attribute, values: Any, seed: int | np.random.Generator) -> Statistic:
    """The statistic of people with these values, who answer every channel."""
    rng = np.random.default_rng(seed)
    people = len(values)
    answers = [
        Answers(index, np.arange(people), version.mechanism.perturb(values, rng))
        for index, version in enumerate(attribute.versions)
    ]
    return tally(attribute, people, answers)


def of_counts(attribute: Attribute, *histograms: Any, users: int) -> Statistic:
    """The statistic of users who answered every channel, from the counts of each channel's reports."""
    zeros = (0,) * len(histograms)
    return replace(
        empty(attribute),
        reports=users * len(histograms),
        users=users,
        histograms=tuple(np.asarray(histogram, dtype=np.int64).ravel() for histogram in histograms),
        moments={2 ** len(histograms) - 1: Moments(users, zeros, zeros)},
    )


def question_of(attribute: Attribute, values: Any, seed: int | np.random.Generator) -> Question:
    """The question of all services about the same people."""
    return Question(attribute, statistic_of(attribute, values, seed), attribute.services)


def counts_of(name: str, epsilon: float, buckets: int, people: int, seed: int = 1) -> tuple[Channel, Floats]:
    """A channel on [0, 1], and the counts of reports of Beta(2, 5) people."""
    rng = np.random.default_rng(seed)
    mechanism = build_mechanism(name, Numeric(0.0, 1.0), epsilon)
    cells = mechanism.bucketise(mechanism.perturb(rng.beta(2, 5, people), rng), buckets)
    counts = np.bincount(cells, minlength=mechanism.cells(buckets)).astype(float)
    return mechanism.channel(buckets, buckets), counts


def leaves_below(branching: int, leaves: int) -> list[Floats]:
    """Which leaves are below each node, a level at a time."""
    sizes = [branching]
    while sizes[-1] < leaves:
        sizes.append(sizes[-1] * branching)
    return [np.repeat(np.eye(size), leaves // size, axis=1) for size in sizes]


def noisy_shares(seed: int, size: int, noise: float) -> Floats:
    """Something like unbiased shares: a distribution and noise, of sum one."""
    rng = np.random.default_rng(seed)
    raw = rng.dirichlet(np.full(size, 0.3)) + rng.normal(0.0, noise, size)
    return raw + (1.0 - raw.sum()) / size


def counted(attribute: Attribute, *histograms: Any, users: int) -> Question:
    """A question of services with these counts, which the same users answered."""
    return Question(attribute, of_counts(attribute, *histograms, users=users), attribute.services)
