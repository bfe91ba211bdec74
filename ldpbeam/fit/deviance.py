"""The deviance of counts from given probabilities, and its distribution, even if cells have few counts.

The deviance of counts c from probabilities p is 2 sum c log(c / (n p)). For large counts it has the
chi-square distribution. For any counts its first two moments are known: counts in cells are independent
Poisson counts, given their sum. A gamma distribution with these two moments gives the p-value, and a
parametric bootstrap checks it where it is small.
"""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincc, gammaln, xlogy

from ldpbeam.domains import Floats

#: Above this expected count, moments no longer change, except the last covariance, which grows with it.
LARGE = 2000.0
#: The least expected count in the table of moments; moments of smaller ones are in proportion.
LEAST = 1e-9
#: A bootstrap checks p-values below CHECKED, but not below BEYOND, which it could never resolve.
CHECKED, BEYOND = 0.02, 1e-12
#: The bootstrap stops after ENOUGH_LARGER draws as large as the observed deviance (Besag and Clifford, 1991),
#: or after MOST_COUNTS counts. It draws BATCH_COUNTS counts at once.
ENOUGH_LARGER, MOST_COUNTS, BATCH_COUNTS = 20, 2**19, 2**15


class Moments(NamedTuple):
    """The mean and the variance of a deviance, if the probabilities are the true ones."""

    mean: float
    variance: float

    def p_value(self, deviance: float) -> float:
        """The probability of a deviance as large, by the gamma distribution with these moments."""
        if not np.isfinite(deviance):
            return 0.0
        return float(gammaincc(self.mean**2 / self.variance, max(deviance, 0.0) * self.mean / self.variance))


def deviance(counts: Floats, probabilities: Floats) -> float:
    """2 sum c log(c / (n p)); infinite if a cell of probability zero has a count.

    Args:
        counts: the counts, shape (cells,), or (draws, cells) for one deviance per draw.
        probabilities: the probabilities, shape (cells,), with sum 1.
    """
    return float(_deviances(counts[None, :], probabilities)[0])


def _deviances(counts: Floats, probabilities: Floats) -> Floats:
    expected = counts.sum(axis=1, keepdims=True) * probabilities
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(counts > 0.0, counts / expected, 1.0)
        deviances: Floats = 2.0 * xlogy(counts, ratios).sum(axis=1)
    return deviances


def moments(n: float, probabilities: Floats) -> Moments:
    """The moments of the deviance of ``n`` reports from ``probabilities``.

    They are those of independent Poisson counts, conditioned on their sum by the first two orthogonal
    polynomials of the Poisson distribution (Charlier).
    """
    expected = n * probabilities[probabilities > 0.0]
    logs, mean, variance, slope, bend = _table()
    at = np.log(np.clip(expected, LEAST, LARGE))
    tiny, large = np.minimum(expected / LEAST, 1.0), np.maximum(expected / LARGE, 1.0)
    first, second, third = (
        float((np.interp(at, logs, column) * tiny).sum()) for column in (mean, variance, slope)
    )
    fourth = float((np.interp(at, logs, bend) * tiny * large).sum())
    least = np.finfo(np.float64).tiny
    return Moments(
        max(first - fourth / (2.0 * n), least),
        max(second - third**2 / n - fourth**2 / (2.0 * n**2), least),
    )


@functools.cache
def _table() -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """(the log of the mean; the mean, the variance and two covariances of a Poisson count's deviance).

    The covariances are with the count, and with (count - mean)^2 - count.
    """
    means = np.geomspace(LEAST, LARGE, 600)
    rows = []
    for mean in means:
        counts = np.arange(int(mean + 14.0 * np.sqrt(mean) + 40.0))
        weights = np.exp(xlogy(counts, mean) - mean - gammaln(counts + 1.0))
        deviances = 2.0 * (xlogy(counts, counts / mean) - (counts - mean))
        centred = deviances - weights @ deviances
        polynomial = (counts - mean) ** 2 - counts
        rows.append(
            (
                weights @ deviances,
                weights @ centred**2,
                weights @ (centred * counts),
                weights @ (centred * polynomial),
            )
        )
    first, second, third, fourth = np.array(rows).T
    return np.log(means), first, second, third, fourth


def checked(p_value: float, observed: float, counts: Floats, probabilities: Floats) -> float:
    """A small p-value, checked by drawing counts from the probabilities.

    The draws are fixed by the counts. If many of them have as large a deviance, their share is the p-value.
    If few or none have, the p-value is that of the gamma distribution, whose tail reaches further than draws.

    Args:
        p_value: the p-value by the gamma distribution.
        observed: the observed deviance.
        counts: the counts, shape (cells,).
        probabilities: the probabilities, shape (cells,).
    """
    if not BEYOND < p_value < CHECKED:
        return p_value
    digest = hashlib.sha256(np.ascontiguousarray(counts, dtype="<f8").tobytes()).digest()
    random = np.random.default_rng(np.frombuffer(digest, dtype="<u4").tolist())
    scaled = probabilities / probabilities.sum()
    n, larger, drawn = int(counts.sum()), 0, 0
    together = max(1, BATCH_COUNTS // len(scaled))
    while larger < ENOUGH_LARGER and drawn * len(scaled) < MOST_COUNTS:
        draws = random.multinomial(n, scaled, size=together).astype(np.float64)
        larger += int(np.count_nonzero(_deviances(draws, scaled) >= observed))
        drawn += together
    return max(p_value, larger / drawn)
