"""Scales of numbers: clients perturb a function of a number, and buckets are equally wide on the scale.

A scale is ``log``, ``log1p`` (the logarithm of 1 + x, for ranges that begin at 0 or above), or edges. Edges
are equally far apart on their scale, which is linear between them.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Scale = Literal["log", "log1p"] | tuple[float, ...]
#: The most edges of a scale.
MOST_EDGES = 4_097
#: The mean over a bucket is taken over this many of its points (Gauss-Legendre), exact to twelve digits.
NODES = 16


def check_scale(scale: Scale, low: float, high: float) -> None:
    """Check that a scale fits the range [low, high].

    Raises:
        ValueError: if the scale does not cover the range, or edges do not ascend from low to high.
    """
    if isinstance(scale, tuple):
        if not 3 <= len(scale) <= MOST_EDGES or (scale[0], scale[-1]) != (low, high):
            raise ValueError(f"edges must be 3 to {MOST_EDGES:,} numbers, found {len(scale):,}")
        if (np.diff(scale) <= 1e-12 * max(abs(low), abs(high))).any():
            raise ValueError("edges must ascend, with no two equal")
    elif scale == "log" and not low > 0.0:
        raise ValueError(
            f"scale: log needs a range above 0, found low {low:g}: give a low above 0, or write "
            "scale: log1p, which is the logarithm of 1 + x"
        )
    elif not low >= 0.0:
        raise ValueError(f"scale: log1p needs a range from 0 on, found low {low:g}")


def on_scale(scale: Scale, values: ArrayLike) -> Floats:
    """Values in the range on a scale."""
    if isinstance(scale, tuple):
        return np.asarray(np.interp(np.asarray(values), scale, np.arange(len(scale), dtype=np.float64)))
    return np.asarray(np.log(values) if scale == "log" else np.log1p(values))


def from_scale(scale: Scale, places: ArrayLike) -> Floats:
    """The inverse of :func:`on_scale`."""
    if isinstance(scale, tuple):
        return np.asarray(np.interp(np.asarray(places), np.arange(len(scale), dtype=np.float64), scale))
    return np.asarray(np.exp(places) if scale == "log" else np.expm1(places))


@functools.lru_cache(maxsize=16)
def nodes_within(buckets: int) -> tuple[Floats, Floats]:
    """(points in equal buckets of [0, 1], shape (buckets, NODES); their weights in a bucket, of sum 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (np.arange(buckets)[:, None] + 0.5 + 0.5 * nodes) / buckets, 0.5 * weights
