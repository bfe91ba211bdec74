"""The cost of an iteration of EM by the number of buckets, for the channels of SW and PM."""

from __future__ import annotations

import numpy as np

from benchmarks.solvers.measure import medians, pairs, table
from ldpbeam import Numeric, build_mechanism
from ldpbeam.estimators.products import products

TITLE = "Cost of an iteration: one product with the channel and one with its transpose"
BUCKETS = [256, 1_024, 4_096, 16_384, 65_536]
#: The number of buckets to which the others are compared, per bucket.
BASE = 1_024


class Iteration:
    """A number of iterations of EM without smoothing, on even counts."""

    def __init__(self, name: str, buckets: int) -> None:
        channel = build_mechanism(name, Numeric(0.0, 1.0), 1.0).channel(buckets, buckets)
        self.forward, self.backward = products(channel, np.arange(channel.shape[0]))
        self.weights = np.random.default_rng(1).dirichlet(np.ones(buckets))
        self.counts = np.full(channel.shape[0], 1.0 / channel.shape[0])
        self.times = max(1, 2**18 // buckets)

    def __call__(self) -> None:
        """Run them."""
        for _ in range(self.times):
            self.backward(self.counts / self.forward(self.weights))


def section() -> list[str]:
    """Milliseconds an iteration, and per bucket compared with 1,024 buckets."""
    rows = []
    for name in ("square_wave", "piecewise"):
        base = Iteration(name, BASE)
        for buckets in BUCKETS:
            work = Iteration(name, buckets)
            took, _, ratio = medians(pairs(work, base))
            per_bucket = ratio * base.times * BASE / (work.times * buckets)
            rows.append([name, f"{buckets:,}", f"{1e3 * took / work.times:.3f}", f"{per_bucket:.2f}"])
    header = ["mechanism", "buckets", "ms per iteration", f"per bucket, relative to {BASE:,} buckets"]
    notes = [
        "The target is at most 1.3 from 1,024 buckets on. Up to 2^17 entries, as with 256 buckets, the",
        "channel is multiplied as a plain matrix.",
        "",
    ]
    return [*notes, *table(header, rows)]
