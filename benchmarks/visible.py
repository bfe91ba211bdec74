"""Whether any method can see the fine structure of a population in its reports.

    python -m benchmarks.visible

For each shape of the coverage: the chi-square between the expected reports of 50,000 people and the nearest
reports of a sum of a few cosines. It grows in proportion to people. Below about four, hardly any test tells
the shape from the sum: then either the intervals are so wide that they hold both, or they miss one of them.
"""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.coverage import NUMBERS, SHAPES
from ldpbeam.mechanisms import build_mechanism

BUCKETS, PEOPLE, COSINES = 1_024, 50_000, (5, 8, 12)


def main() -> None:
    """Print the table."""
    middles = (np.arange(BUCKETS) + 0.5) / BUCKETS
    columns = [f"{kind}, epsilon {epsilon:g}" for kind in ("SW", "PM") for epsilon in (0.5, 2.0)]
    print(f"| shape, beyond {', '.join(map(str, COSINES))} cosines | {' | '.join(columns)} |")
    print("| --- " * (len(columns) + 1) + "|")
    channels = [
        build_mechanism(name, NUMBERS, epsilon).channel(BUCKETS, 256).dense()
        for name, epsilon in itertools.product(("square_wave", "piecewise"), (0.5, 2.0))
    ]
    for name, population in SHAPES.items():
        shares = NUMBERS.histogram(population(1_000_000, np.random.default_rng(0)), BUCKETS) / 1e6
        row = []
        for channel in channels:
            expected, found = channel @ shares, []
            for many in COSINES:
                smooth = channel @ np.cos(np.pi * np.outer(middles, np.arange(many)))
                weights = np.sqrt(PEOPLE / expected)
                nearest = np.linalg.lstsq(smooth * weights[:, None], expected * weights)[0]
                found.append(float((((expected - smooth @ nearest) * weights) ** 2).sum()))
            row.append(", ".join(f"{own:.1f}" for own in found))
        print(f"| {name} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
