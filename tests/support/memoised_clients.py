"""Clients that remember their noise, written from the formulas of docs/over_time.md alone.

Nothing here comes from ldpbeam. Values are of shape (people, windows), and so are the reports, of which unary
ones have a further axis of bits and those of local hashing are pairs of arrays.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import Any

import numpy as np
import xxhash
from numpy.random import Generator
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def inputs_of(values: Ints) -> tuple[Ints, Ints]:
    """(each person's different values, which of them each window has); each has a permanent answer."""
    people = np.repeat(np.arange(len(values)), values.shape[1])
    pairs = people * (values.max() + 1) + values.ravel()
    first, which = np.unique(pairs, return_inverse=True)
    return first % (values.max() + 1), which.reshape(values.shape)


def kept_or_another(cells: Ints, many: int, keep: float, rng: Generator) -> Ints:
    other = rng.integers(1, many, cells.shape)
    return np.where(rng.random(cells.shape) < keep, cells, (cells + other) % many)


def second_ratio(many: int, lifetime: float, epsilon: float, published: bool = False) -> float:
    k = 2 if published else many
    return (exp(lifetime + epsilon) + (k - 2) * exp(epsilon) - (k - 1)) / (exp(lifetime) - exp(epsilon))


def grr(
    values: Ints, k: int, lifetime: float, epsilon: float, rng: Generator, published: bool = False
) -> Ints:
    inputs, which = inputs_of(values)
    permanent = kept_or_another(inputs, k, exp(lifetime) / (exp(lifetime) + k - 1), rng)
    c = second_ratio(k, lifetime, epsilon, published)
    return kept_or_another(permanent[which], k, c / (c + k - 1), rng)


def oue(values: Ints, k: int, lifetime: float, epsilon: float, rng: Generator) -> NDArray[np.bool_]:
    both = exp(lifetime + epsilon) - 1
    keep = both / (exp(lifetime) - exp(epsilon) + both)
    return _bits(values, k, 0.5, 1 / (exp(lifetime) + 1), keep, rng)


def sue(values: Ints, k: int, lifetime: float, epsilon: float, rng: Generator) -> NDArray[np.bool_]:
    a, s = (exp(e / 2) / (exp(e / 2) + 1) for e in (lifetime, epsilon))
    return _bits(values, k, a, 1 - a, (s - (1 - a)) / (2 * a - 1), rng)


def _bits(values: Ints, k: int, p: float, q: float, keep: float, rng: Generator) -> NDArray[np.bool_]:
    inputs, which = inputs_of(values)
    permanent = rng.random((len(inputs), k)) < np.where(np.arange(k) == inputs[:, None], p, q)
    shown = permanent[which]
    return shown == (rng.random(shown.shape) < keep)


def olh(
    values: Ints, g: int, lifetime: float, epsilon: float, rng: Generator, *, seeds: int, **how: Any
) -> tuple[Ints, Ints]:
    """The seed of each person, and the hash values; ``text`` and ``published`` as LOLOHA's clients do."""
    seed = rng.integers(0, seeds, len(values))
    text = how.pop("text", False)
    hashed = np.array(
        [
            [
                xxhash.xxh32_intdigest(str(v).encode() if text else int(v).to_bytes(4, "little"), int(s)) % g
                for v in own
            ]
            for s, own in zip(seed, values, strict=True)
        ]
    )
    return np.broadcast_to(seed[:, None], values.shape), grr(hashed, g, lifetime, epsilon, rng, **how)


def rounding(values: Floats, buckets: int, lifetime: float, epsilon: float, rng: Generator) -> Floats:
    """Values and reports on [-1, 1] and plus or minus B."""
    inputs, which = inputs_of(np.minimum((values + 1) / 2 * buckets, buckets - 1).astype(np.int64))
    middle = (inputs + 0.5) / buckets
    signs = (rng.random(len(inputs)) < middle).astype(np.int64)
    permanent = kept_or_another(signs, 2, exp(lifetime) / (exp(lifetime) + 1), rng)
    c = second_ratio(2, lifetime, epsilon)
    shown = kept_or_another(permanent[which], 2, c / (c + 1), rng)
    return np.where(shown == 1, 1.0, -1.0) * (exp(epsilon) + 1) / (exp(epsilon) - 1)


def square_half_width(lifetime: float) -> float:
    e = exp(lifetime)
    return (lifetime * e - e + 1) / (2 * e * (e - 1 - lifetime))


def piecewise_half_width(lifetime: float) -> float:
    return 1 / (2 * sqrt(exp(lifetime)))


def wave(values: Floats, b: float, many: int, lifetime: float, epsilon: float, rng: Generator) -> Floats:
    """Values on [0, 1]; reports are the middles of ``many`` equal parts of [-b, 1 + b]."""
    inputs, which = inputs_of(np.minimum(values * many, many - 1).astype(np.int64))
    middle = (inputs + 0.5) / many
    e, e_1 = exp(lifetime), exp(epsilon)
    q = 1 / (2 * b * e + 1)
    p, u = e * q, 1 / (1 + 2 * b)
    # The share of the wave above the density q, which is everywhere on [-b, 1 + b].
    inside = rng.random(len(inputs)) < 2 * b * (p - q)
    first = np.where(inside, middle + rng.uniform(-b, b, len(inputs)), rng.uniform(-b, 1 + b, len(inputs)))
    permanent = np.clip((first + b) / (1 + 2 * b) * many, 0, many - 1).astype(np.int64)
    even = (p - e_1 * q) / (p - e_1 * q + u * (e_1 - 1))
    shown = permanent[which]
    shown = np.where(rng.random(shown.shape) < even, rng.integers(0, many, shown.shape), shown)
    return -b + (shown + 0.5) * (1 + 2 * b) / many
