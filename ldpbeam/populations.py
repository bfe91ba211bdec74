"""Synthetic populations of papers' experiments, as far as the papers specify them."""

from __future__ import annotations

import numpy as np

from ldpbeam.domains import Floats, KeyValuePairs


def gaussian_keys(keys: int) -> tuple[Floats, Floats]:
    """(frequencies, means on [-1, 1]) of each key, shape (keys,): f = exp(-x^2/200), m = 2f - 1.

    This is the Gaussian (0, 10) of the PrivKV-EM paper's Table 2. With 50 keys, x is -25 .. 24, and means and
    variances agree with all digits of the table. With another number of keys, x covers the same range.
    """
    x = (np.arange(keys) - keys // 2) * (50.0 / keys)
    frequencies = np.exp(-(x**2) / 200.0)
    return frequencies, 2.0 * frequencies - 1.0


def power_law_keys(keys: int) -> tuple[Floats, Floats]:
    """(frequencies, means on [-1, 1]) of each key: f = (1 + 0.1 z)^-11 at z from 0 to below 5, m = 2f - 1.

    This is the power law of the PrivKV-EM paper's Table 2; with 50 keys it agrees with all but one last
    digit of the table. The paper's text prints (1 + 0.1 x)^(-11/10), which does not give the table's numbers.
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
    person, keys = np.nonzero(rng.random((people, len(frequencies))) < frequencies)
    centres = (means[keys] + 1.0) / 2.0
    widths = np.minimum(centres, 1.0 - centres)
    values = centres + widths * rng.uniform(-1.0, 1.0, len(keys))
    starts = np.concatenate(([0], np.cumsum(np.bincount(person, minlength=people))))
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
    scaled: Floats = (np.clip(values, -1.0, 1.0) + 1.0) / 2.0
    return scaled


def spiky(people: int, rng: np.random.Generator) -> Floats:
    """Incomes on [0, 1], 60% of them rounded, shape (people,).

    Incomes are log-normal with median 1/10 and standard deviation 0.8 of the logarithm. A third each of the
    rounded ones are multiples of 1/16, 1/32 and 1/64. This imitates the square-wave paper's data set Income,
    in which most people state round numbers.
    """
    values = np.minimum(0.1 * np.exp(0.8 * rng.standard_normal(people)), 1.0)
    steps = rng.choice([16.0, 32.0, 64.0], people)
    told_round = rng.random(people) < 0.6
    return np.where(told_round, np.rint(values * steps) / steps, values)
