"""Counts that were hard for Newton's method, and what a further plain update of EMS would change."""

from __future__ import annotations

import numpy as np

from ldpbeam import Attribute, Numeric, ServiceVersion, build_mechanism
from ldpbeam.domains import Floats, Integers
from ldpbeam.estimators.iteration import smooth
from ldpbeam.statistics import Moments, Statistic

PATTERNS = (
    "two ends",
    "two ends, one of them faint",
    "first cell",
    "last cell",
    "middle cell",
    "one report",
    "one report in each cell",
    "alternating",
    "alternating in halves",
    "islands",
    "two far islands",
    "ends and the middle",
    "ramp",
    "cliff",
    "saw",
    "powers of two",
)


def hostile_counts(pattern: str, cells: int) -> Integers:
    """The counts of report buckets, shape (cells,); at least 16 cells."""
    counts, cell = np.zeros(cells, np.int64), np.arange(cells)
    part, half = cells // 16, cells // 2
    if pattern == "two ends":
        counts[[0, -1]] = 5_000
    elif pattern == "two ends, one of them faint":
        counts[[0, -1]] = 5, 1_000_000
    elif pattern == "first cell":
        counts[0] = 10_000
    elif pattern == "last cell":
        counts[-1] = 10_000
    elif pattern == "middle cell":
        counts[half] = 1_000_000_000
    elif pattern == "one report":
        counts[cells // 3] = 1
    elif pattern == "one report in each cell":
        counts += 1
    elif pattern == "alternating":
        counts[::2] = 100
    elif pattern == "alternating in halves":
        counts[:half:2], counts[half + 1 :: 2] = 1_000, 10
    elif pattern == "islands":
        counts[cell // part % 4 == 1] = 200
    elif pattern == "two far islands":
        counts[part : 2 * part], counts[-2 * part : -part] = 300, 100
    elif pattern == "ends and the middle":
        counts[[0, half, -1]] = 1_000
    elif pattern == "ramp":
        counts += 10 * cell
    elif pattern == "cliff":
        counts[:half], counts[half:] = 1_000, 1
    elif pattern == "saw":
        counts += 50 * (cell % (2 * part))
    else:
        counts += 2 ** (30 * cell // cells)
    return counts


def asked_of(name: str, epsilon: float, buckets: int, counts: Integers) -> tuple[Attribute, Statistic]:
    """One service of users who are grouped and joined, and the statistic with these report counts."""
    mechanism = build_mechanism(name, Numeric(0.0, 1.0), epsilon)
    attribute = Attribute(
        "x", Numeric(0.0, 1.0), buckets, (ServiceVersion("maps", "", mechanism),), ("maps",), buckets
    )
    users, seen = int(counts.sum()), np.flatnonzero(counts)
    moments = {1: Moments(users, (0,), (0,))}
    # Cell 0 of the joint histogram is that of users without a report.
    return attribute, Statistic(
        attribute.fingerprint, users, users, (counts,), moments, seen + 1, counts[seen]
    )


def change_of_plain_update(attribute: Attribute, counts: Integers, shares: Floats) -> float:
    """The largest change of a share by a further plain update, from the channel's whole matrix."""
    matrix, seen = attribute.channel(0).dense(), counts > 0
    slopes = (counts[seen] / (matrix[seen] @ shares)) @ matrix[seen] / counts.sum()
    return float(np.abs(smooth(shares * slopes) - shares).max())
