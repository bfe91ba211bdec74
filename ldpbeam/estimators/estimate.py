"""The result of every estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldpbeam.certainty import Intervals
from ldpbeam.domains import Floats
from ldpbeam.pair_answer import PairAnswer


@dataclass(frozen=True)
class Estimate:
    """The answer of one estimator for one attribute, window and group.

    Attributes:
        estimator: the estimator's name.
        services: the services whose reports were used.
        reports: the number of reports that were used.
        users: the number of users who sent them; None if reports are not grouped by user.
        distribution: the share of each value bucket or category, shape (value buckets,); None if the
            estimator gives a mean only, and for keys with values. Unbiased shares may be negative.
        frequencies: the share of people who have each key, shape (keys,); the shares need not sum to one.
        key_means: the mean value of the people who have each key, in the attribute's unit, shape (keys,).
        mean: the mean of the numeric values, in the attribute's unit.
        standard_error: the standard error of the mean, in the attribute's unit, relative to the mean of the
            people who reported: from the perturbation alone. None if unknown.
        variance: the variance of the numeric values, in the attribute's unit squared.
        converged: whether the stopping rule was met; true if the estimator does not iterate.
        n_iterations: the number of iterations; 0 if the estimator does not iterate.
        log_likelihoods: the log-likelihood at each iteration, summed over reports or users.
        warnings: plain sentences that say what the user should change.
        details: further results of the estimator, by name.
        intervals: the confidence intervals of the fields above; None if they were not asked for.
        pair: the answer for a pair of attributes, which has only the first four of these fields.
    """

    estimator: str
    services: tuple[str, ...]
    reports: int
    users: int | None
    distribution: Floats | None = None
    frequencies: Floats | None = None
    key_means: Floats | None = None
    mean: float | None = None
    standard_error: float | None = None
    variance: float | None = None
    converged: bool = True
    n_iterations: int = 0
    log_likelihoods: Floats = field(default_factory=lambda: np.zeros(0))
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    intervals: Intervals | None = None
    pair: PairAnswer | None = None
