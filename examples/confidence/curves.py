"""Percentiles of the timings of pages whose confidence is high, beside those of the published weights.

    python examples/confidence/curves.py [--people N] [--share-of-high S]

The range of the timings is cut into parts that have equally many records, and each part is a group of the
study. The records of high confidence, part by part, make a curve that must rise: the nearest one that does is
taken. A percentile's interval has each timing at which the curve, with its error, may reach it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from client import people, records
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

import ldpbeam as ldp

STUDY = ldp.Study.from_yaml(Path(__file__).with_name("study.yaml"))
Floats = NDArray[np.float64]


def cut(timings: Floats, parts: int) -> tuple[Floats, NDArray[np.int64]]:
    """The last timing of each part, and the part of each record."""
    ends = np.quantile(timings, np.arange(1, parts + 1) / parts, method="inverted_cdf")
    return ends, np.searchsorted(ends, timings)


def of_parts(said: dict[str, NDArray[Any]], part: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """About how many records of each part have a high confidence, and the variance of that."""
    constant = {"attribute": "confidence", "service": "browser"}
    columns = {name: pa.repeat(value, len(part)) for name, value in constant.items()} | said
    records = ldp.estimate(STUDY, pa.table(columns | {"part": part.astype(str)})).records()
    by_part = {int(record["group"]): (record["frequencies"][1], record["reports"]) for record in records}
    share, reports = np.array([by_part[each] for each in range(len(by_part))]).T
    # An estimate weights records by their precision. That some count more than others adds a sampling error.
    rates = said["randomizedTriggerRate"]
    precision = (1.0 - rates) ** 2 / (rates / 2.0 * (1.0 - rates / 2.0))
    uneven = precision.var() / precision.mean() ** 2
    likely = np.clip(share, 0.0, 1.0)
    return reports * share, reports * (1.0 / precision.mean() + uneven * likely * (1.0 - likely))


def rising(high: Floats) -> Floats:
    """The share of the records of high confidence up to the end of each part, which rises from 0 to 1."""
    curve = np.clip(isotonic_regression(np.cumsum(high) / high.sum()).x, 0.0, 1.0)
    return np.asarray(curve / curve[-1])


def percentile(ends: Floats, high: Floats, variance: Floats, level: float) -> tuple[float, float, float]:
    """A percentile of the timings, and the ends of its 95% interval.

    Up to a timing, level times all records of high confidence are too few or too many of them. Where the
    difference is as small as its error allows, the timing may be the percentile (Fieller 1954).
    """
    parts = np.arange(len(ends))
    places = np.linspace(0.0, len(ends), 10 * len(ends) + 1)
    upto = np.clip(places[:, None] - parts, 0.0, 1.0) - level
    possible = np.abs(upto @ high) <= 1.96 * np.sqrt(upto**2 @ variance)
    here = np.interp(level, np.append(0.0, rising(high)), np.append(0, parts + 1))
    about = [here, *places[possible]]
    at, low, top = np.interp([here, min(about), max(about)], np.append(0, parts + 1), np.append(0.0, ends))
    return at, low, top


def published(timings: Floats, said: dict[str, NDArray[Any]]) -> Floats:
    """The curve of the published weights (R - p/2)/(1 - p) at each timing, in their order: it may fall."""
    rates = said["randomizedTriggerRate"]
    weights = (said["payload"] - rates / 2.0) / (1.0 - rates)
    return np.cumsum(weights[np.argsort(timings)]) / weights.sum()


def distance(curve: Floats, timings: Floats, high: NDArray[np.bool_]) -> float:
    """The area between a curve at the timings, in order, and that of the records that are high, in ms."""
    order = np.argsort(timings)
    truth = np.cumsum(high[order]) / high.sum()
    return float(np.abs(curve - truth)[:-1] @ np.diff(timings[order]))


def main() -> int:
    """Draw people, and print percentiles beside the truth."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--share-of-high", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    high, timings = people(given.people, given.share_of_high, rng)
    said = records(high, rng)
    ends, part = cut(timings, min(400, given.people // 10))
    of_high, variance = of_parts(said, part)
    curve = np.interp(np.sort(timings), np.append(0.0, ends), np.append(0.0, rising(of_high)))
    areas = (distance(one, timings, high) for one in (curve, published(timings, said)))
    print("{:.1f} ms from the true curve; the published weights {:.1f} ms".format(*areas))
    for level in (0.1, 0.25, 0.5, 0.75, 0.9):
        at, low, top = percentile(ends, of_high, variance, level)
        print(
            f"{level:.0%}: {at:.0f} ms, {low:.0f} to {top:.0f}; true {np.quantile(timings[high], level):.0f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
