"""The variance by user for numbers whose windows are joined (:mod:`ldpbeam.over_time.joined_windows`)."""

from __future__ import annotations

import numpy as np

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats, bucket_midpoints
from ldpbeam.over_time.joined_windows import JoinedCells


def independent_covariance(joined: JoinedCells, values: Floats) -> Floats:
    """The covariance of :meth:`JoinedCells.covariance`, if reports were independent.

    Args:
        joined: the statistic of one report or more.
        values: the numbers of a report in each cell, shape (cells, numbers).
    """
    n = int(joined.totals.sum())
    centred = values - joined.totals @ values / n
    return (centred.T * joined.totals) @ centred / float(n) ** 2


def noise_factor(attribute: Attribute, index: int, joined: JoinedCells) -> float:
    """How many dependent reports say as much about a mean as one independent report; 1 or more.

    The mean is that of the expected value given the report bucket, with an even prior.
    """
    rows = attribute.channel(index).dense()
    values = (rows @ bucket_midpoints(rows.shape[1]) / rows.sum(axis=1))[:, None]
    alone = float(independent_covariance(joined, values)[0, 0])
    return max(1.0, float(joined.covariance(values)[0, 0]) / alone) if alone > 0.0 else 1.0


def added_noise(
    joined: JoinedCells, probabilities: Floats, shares: Floats, factor: float, rng: np.random.Generator
) -> Floats:
    """Additional noise for draws of shares, for the dependence between each user's reports.

    The derivative of a posterior mean by the count of a report bucket is its covariance with the bucket's log
    probability (the infinitesimal jackknife: Giordano and Broderick, arXiv:2305.06466). So the reports of
    users give the means a covariance. The draws already have that of reports worth ``1/factor`` each; the
    noise adds what is missing.

    Args:
        joined: the statistic.
        probabilities: the probability of each report bucket under each draw, shape (cells, draws).
        shares: the draws, shape (draws, parts).
        factor: the number of reports that count as one in the posterior.
        rng: the source of the noise.

    Returns:
        An array of shape (draws, parts).
    """
    logs = np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
    moves = (logs - logs.mean(axis=1, keepdims=True)) @ (shares - shares.mean(axis=0)) / len(shares)
    reported = moves * (float(joined.totals.sum()) / factor)
    missing = joined.covariance(reported) - factor * independent_covariance(joined, reported)
    values, vectors = np.linalg.eigh(missing)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(rng.standard_normal(shares.shape) @ root.T)


def variance_of(joined: JoinedCells, values: Floats, noise: float) -> float:
    """The variance of the mean over reports of a number per report bucket.

    It is never below that of independent reports, nor below that of the mechanism's noise: few users may seem
    to vary less, and equal reports not at all.

    Args:
        joined: the statistic.
        values: the number of each report bucket, shape (cells,).
        noise: the least variance of one report's number by the mechanism's noise.
    """
    column = values[:, None]
    by_user = joined.covariance(column)[0, 0]
    return float(max(by_user, independent_covariance(joined, column)[0, 0], noise / int(joined.totals.sum())))
