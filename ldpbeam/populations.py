"""Populations that papers measure by, as far as they say what those are."""

from __future__ import annotations

import numpy as np

from ldpbeam.domains import Floats, KeyValuePairs


def gaussian_keys(keys: int) -> tuple[Floats, Floats]:
    """(frequencies, means on [-1, 1]) of each key: f = exp(-x^2/200), m = 2f - 1.

    The Gaussian (0, 10) of the PrivKV-EM paper's Table 2. With 50 keys x is -25 .. 24, and means and
    variances are the table's, to all its digits; other numbers of keys stretch x over the same range.
    """
    x = (np.arange(keys) - keys // 2) * (50.0 / keys)
    frequencies = np.exp(-(x**2) / 200.0)
    return frequencies, 2.0 * frequencies - 1.0


def power_law_keys(keys: int) -> tuple[Floats, Floats]:
    """(frequencies, means on [-1, 1]) of each key: f = (1 + 0.1 z)^-11 at z from 0 to below 5, m = 2f - 1.

    The power law of the PrivKV-EM paper's Table 2, to all but one last digit with 50 keys. Its text prints
    (1 + 0.1 x)^(-11/10), which does not give them; the generalised Pareto density of shape 0.1 does, and its
    exponent is -(1 + 0.1)/0.1 = -11.
    """
    z = 5.0 * np.arange(keys) / keys
    frequencies = (1.0 + 0.1 * z) ** -11.0
    return frequencies, 2.0 * frequencies - 1.0


def linear_keys(keys: int) -> tuple[Floats, Floats]:
    """(frequencies, means on [-1, 1]) of each key: f = k/keys for k = 1 .. keys, m evenly from -1 to 1.

    The linear distribution of the PrivKV-EM paper's Table 2, to all its digits with 50 keys.
    """
    return np.arange(1, keys + 1) / keys, np.linspace(-1.0, 1.0, keys)


def people_of(frequencies: Floats, means: Floats, people: int, rng: np.random.Generator) -> KeyValuePairs:
    """People who have each key independently, with values even around its mean, as wide as they can be.

    The paper says nothing of how values vary around a key's mean; estimates from signs depend on it only.

    Args:
        frequencies: the chance that a person has each key, shape (keys,).
        means: mean value of each key on [-1, 1], shape (keys,).
        people: how many people; some may have no key at all.
        rng: the source of randomness.
    """
    person, keys = np.nonzero(rng.random((people, len(frequencies))) < frequencies)
    centres = (means[keys] + 1.0) / 2.0
    widths = np.minimum(centres, 1.0 - centres)
    values = centres + widths * rng.uniform(-1.0, 1.0, len(keys))
    starts = np.concatenate(([0], np.cumsum(np.bincount(person, minlength=people))))
    return KeyValuePairs(starts.astype(np.int64), keys.astype(np.int64), values)


def beta(a: float, b: float, people: int, rng: np.random.Generator) -> Floats:
    """Values of a Beta distribution on [0, 1], shape (people,); (5, 2) is the square-wave paper's."""
    return rng.beta(a, b, people)


def two_normals(people: int, rng: np.random.Generator) -> Floats:
    """S-MN of the mixture-reduction paper: 0.6 N(0.7, 0.2^2) + 0.4 N(0.2, 0.1^2) clipped to [-1, 1].

    Returns:
        Values scaled to [0, 1], shape (people,).
    """
    first = rng.random(people) < 0.6
    values = np.where(first, rng.normal(0.7, 0.2, people), rng.normal(0.2, 0.1, people))
    scaled: Floats = (np.clip(values, -1.0, 1.0) + 1.0) / 2.0
    return scaled


def spiky(people: int, rng: np.random.Generator) -> Floats:
    """Incomes on [0, 1], six in ten of them told as a round number, shape (people,).

    Log-normal with median 1/10 and deviation 0.8; of those told round, a third each are multiples of 1/16,
    1/32 and 1/64: like the square-wave paper's Income, most of whose people tell round numbers.
    """
    values = np.minimum(0.1 * np.exp(0.8 * rng.standard_normal(people)), 1.0)
    steps = rng.choice([16.0, 32.0, 64.0], people)
    told_round = rng.random(people) < 0.6
    return np.where(told_round, np.rint(values * steps) / steps, values)
