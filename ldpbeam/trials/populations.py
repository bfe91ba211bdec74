"""Synthetic populations: those of the papers' experiments, as far as these specify them, and others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ldpbeam.domains import Categories, Domain, Floats, Integers, KeyValuePairs, KeyValues, Pair, Vector

#: At most this many (person, key) pairs are drawn at once, so memory does not grow with people times keys.
KEYS_AT_ONCE = 2**22


def gaussian_keys(keys: int) -> tuple[Floats, Floats]:
    """(frequencies, means on [-1, 1]) of each key, shape (keys,): f = exp(-x^2/200), m = 2f - 1.

    This is the Gaussian (0, 10) of the PrivKV-EM paper's Table 2. With 50 keys, x is -25 .. 24, and means and
    variances agree with all digits of the table. With another number of keys, x covers the same range.
    """
    x = (np.arange(keys) - keys // 2) * (50.0 / keys)
    frequencies = np.exp(-(x**2) / 200.0)
    return frequencies, 2.0 * frequencies - 1.0


def power_law_keys(keys: int) -> tuple[Floats, Floats]:
    """(frequencies, means on [-1, 1]) of each key: f = (1 + 0.1 z)^-11 for z from 0 to below 5, m = 2f - 1.

    This is the power law of the PrivKV-EM paper's Table 2; with 50 keys all digits agree but one last digit.
    The paper's text prints (1 + 0.1 x)^(-11/10), which does not give the table's numbers.
    The generalised Pareto density of shape 0.1 does; its exponent is -(1 + 0.1)/0.1 = -11.
    """
    z = 5.0 * np.arange(keys) / keys
    frequencies = (1.0 + 0.1 * z) ** -11.0
    return frequencies, 2.0 * frequencies - 1.0


def linear_keys(keys: int) -> tuple[Floats, Floats]:
    """(frequencies, means on [-1, 1]) of each key: f = k/keys for k = 1 .. keys, m evenly from -1 to 1.

    This is the linear distribution of the PrivKV-EM paper's Table 2; with 50 keys all digits agree.
    """
    return np.arange(1, keys + 1) / keys, np.linspace(-1.0, 1.0, keys)


def people_of(frequencies: Floats, means: Floats, people: int, rng: np.random.Generator) -> KeyValuePairs:
    """Draw people who have each key independently, with values uniform around the key's mean.

    The uniform range is the widest around the mean that fits into [0, 1]. The paper does not specify how
    values vary around a key's mean; estimates from signs depend on the mean only.

    Args:
        frequencies: the probability that a person has each key, shape (keys,).
        means: the mean value of each key on [-1, 1], shape (keys,).
        people: the number of people; some may have no key.
        rng: the source of randomness.
    """
    at_once = max(1, KEYS_AT_ONCE // len(frequencies))
    counts, drawn_keys = [], []
    for first in range(0, max(people, 1), at_once):
        has = rng.random((min(at_once, people - first), len(frequencies))) < frequencies
        counts.append(has.sum(axis=1))
        drawn_keys.append(np.nonzero(has)[1])
    keys = np.concatenate(drawn_keys)
    centres = (means[keys] + 1.0) / 2.0
    widths = np.minimum(centres, 1.0 - centres)
    values = centres + widths * rng.uniform(-1.0, 1.0, len(keys))
    starts = np.cumsum(np.concatenate(([0], *counts)))
    return KeyValuePairs(starts.astype(np.int64), keys.astype(np.int64), values)


def beta(a: float, b: float, people: int, rng: np.random.Generator) -> Floats:
    """Values of the distribution Beta(a, b) on [0, 1], shape (people,); the square-wave paper uses (5, 2)."""
    return rng.beta(a, b, people)


def two_normals(people: int, rng: np.random.Generator) -> Floats:
    """Values of S-MN of the mixture-reduction paper: 0.6 N(0.7, 0.2^2) + 0.4 N(0.2, 0.1^2) in [-1, 1].

    Values outside [-1, 1] are clipped.

    Returns:
        Values scaled to [0, 1], shape (people,).
    """
    first = rng.random(people) < 0.6
    values = np.where(first, rng.normal(0.7, 0.2, people), rng.normal(0.2, 0.1, people))
    return (np.clip(values, -1.0, 1.0) + 1.0) / 2.0


def spiky(people: int, rng: np.random.Generator) -> Floats:
    """Incomes on [0, 1], 60% of them rounded, shape (people,).

    Incomes are log-normal with median 1/10; their logarithm has standard deviation 0.8. A rounded income is a
    multiple of 1/16, 1/32 or 1/64, with equal chances. This imitates the square-wave paper's data set Income,
    in which most people state round numbers.
    """
    values = np.minimum(0.1 * np.exp(0.8 * rng.standard_normal(people)), 1.0)
    steps = rng.choice([16.0, 32.0, 64.0], people)
    rounded = rng.random(people) < 0.6
    return np.where(rounded, np.rint(values * steps) / steps, values)


def even(people: int, rng: np.random.Generator) -> Floats:
    """Values spread evenly over [0, 1], shape (people,)."""
    return rng.random(people)


def skewed(people: int, rng: np.random.Generator) -> Floats:
    """Values of Beta(2, 5) on [0, 1], shape (people,)."""
    return beta(2.0, 5.0, people, rng)


def left_skewed(people: int, rng: np.random.Generator) -> Floats:
    """Values of Beta(5, 2) on [0, 1], shape (people,), as in the square-wave paper."""
    return beta(5.0, 2.0, people, rng)


def apart(people: int, rng: np.random.Generator) -> Floats:
    """Values spread evenly over [0, 0.3] for half of the people and over [0.6, 1] for the others."""
    values = rng.random(people)
    return np.where(rng.random(people) < 0.5, 0.3 * values, 0.6 + 0.4 * values)


def narrow(people: int, rng: np.random.Generator) -> Floats:
    """Values of two normals of deviation 0.01, around 0.3 and 0.8, shape (people,)."""
    centres = np.where(rng.random(people) < 0.5, 0.3, 0.8)
    return np.clip(rng.normal(centres, 0.01), 0.0, 1.0)


def even_categories(categories: int, people: int, rng: np.random.Generator) -> Integers:
    """Category indexes, each equally likely, shape (people,)."""
    return rng.integers(0, categories, people)


def long_tail(categories: int, people: int, rng: np.random.Generator) -> Integers:
    """Category indexes, shape (people,): the share of category k (from 0) is in proportion to 1 / (k + 1)."""
    return _in_long_tail(categories, rng.random(people))


def _in_long_tail(categories: int, draws: Floats) -> Integers:
    cumulative = np.cumsum(1.0 / np.arange(1, categories + 1))
    return np.asarray(np.searchsorted(cumulative, draws * cumulative[-1], side="right"))


def of_pair(correlation: float, pair: Pair, people: int, rng: np.random.Generator) -> Floats:
    """The values of two attributes, joined by a Gaussian copula, shape (people, 2).

    A number is spread evenly over [0, 1]; categories have a long tail.
    """
    first, other = rng.standard_normal((2, people))
    second = correlation * first + math.sqrt(1.0 - correlation**2) * other
    return np.column_stack([
        _in_long_tail(side.size, ndtr(score)) if isinstance(side, Categories) else ndtr(score)
        for side, score in zip(pair.sides, (first, second), strict=True)
    ])  # fmt: skip


def falling(categories: int, people: int, rng: np.random.Generator) -> Integers:
    """Category indexes, shape (people,): shares fall by one factor from each to the next, by exp(6) in all.

    A fixed seed shuffles the shares over the categories, so neighbours have nothing in common.
    """
    weights = np.exp(-6.0 * np.arange(categories) / categories)
    shuffled = np.random.default_rng(0).permutation(weights / weights.sum())
    return rng.choice(categories, people, p=shuffled)


def a_third(categories: int, people: int, rng: np.random.Generator) -> Integers:
    """Category indexes, shape (people,): every third category, each equally likely; nobody has the others."""
    return 3 * rng.integers(0, -(-categories // 3), people)


#: Populations of numbers on [0, 1], by name.
NUMBERS: Mapping[str, Callable[[int, np.random.Generator], Floats]] = {
    "even": even,
    "skewed": skewed,
    "left_skewed": left_skewed,
    "two_humps": two_normals,
    "spiky": spiky,
    "apart": apart,
    "narrow": narrow,
}
#: Populations of categories, by name.
CATEGORIES: Mapping[str, Callable[[int, int, np.random.Generator], Integers]] = {
    "long_tail": long_tail,
    "even": even_categories,
    "falling": falling,
    "a_third": a_third,
}
#: The frequencies of keys, and their means on [-1, 1], by name.
KEYS: Mapping[str, Callable[[int], tuple[Floats, Floats]]] = {
    "gaussian": gaussian_keys,
    "power_law": power_law_keys,
    "linear": linear_keys,
}

#: The correlation of the Gaussian copula of a pair, by name.
PAIRS: Mapping[str, float] = {"independent": 0.0, "related": 0.6}


def names_for(domain: Domain) -> tuple[str, ...]:
    """The names of the populations that can be drawn for a domain."""
    if isinstance(domain, Categories | Pair):
        return tuple(PAIRS if isinstance(domain, Pair) else CATEGORIES)
    return tuple(KEYS if isinstance(domain, KeyValues) else NUMBERS)


def drawn(name: str, domain: Domain, people: int, rng: np.random.Generator) -> NDArray[Any] | KeyValuePairs:
    """The values of people of a named population, on the mechanisms' scale.

    The coordinates of a vector are drawn independently of each other.

    Args:
        name: one of :func:`names_for` the domain.
        domain: the domain of the values.
        people: the number of people to draw.
        rng: the source of randomness.

    Returns:
        Numbers in [0, 1], shape (people,); category indexes, shape (people,); the people's keys and values;
        coordinates in [0, 1], shape (people, coordinates); or the values of a pair, shape (people, 2).

    Raises:
        ValueError: if the domain has no population of this name.
    """
    if name not in names_for(domain):
        raise ValueError(f"no population is called {name!r}; there are: {', '.join(names_for(domain))}")
    if isinstance(domain, Categories):
        return CATEGORIES[name](domain.size, people, rng)
    if isinstance(domain, Pair):
        return of_pair(PAIRS[name], domain, people, rng)
    if isinstance(domain, KeyValues):
        return people_of(*KEYS[name](domain.size), people, rng)
    if isinstance(domain, Vector):
        return np.column_stack([NUMBERS[name](people, rng) for _ in domain.coordinates])
    return NUMBERS[name](people, rng)
