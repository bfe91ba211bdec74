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

    The power law of the PrivKV-EM paper's Table 2, to all its digits with 50 keys. Its text prints
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
