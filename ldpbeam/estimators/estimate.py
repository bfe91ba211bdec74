"""What every estimator returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldpbeam.domains import Floats


@dataclass(frozen=True)
class Estimate:
    """The answer of one estimator for one attribute, window and group.

    Attributes:
        estimator: its name.
        services: whose reports it stands on.
        reports: how many reports those are.
        users: how many users sent them, None where users were not grouped.
        distribution: share of each value bucket or category, shape (value buckets,); None where the
            estimator gives a mean only, and for keys with values. Unbiased shares may be negative.
        frequencies: share of the people who have each key, shape (keys,); they need not sum to one.
        key_means: mean value of the people who have a key, shape (keys,), in the attribute's unit.
        mean: of the numeric values, in the attribute's unit.
        standard_error: of the mean, from the perturbation alone: how far the mean of the people who
            reported may be; None where it is not known.
        variance: of the numeric values, in the attribute's unit squared.
        converged: whether the stopping rule was met; true where there is no iteration.
        n_iterations: 0 where there is no iteration.
        log_likelihoods: after each iteration, summed over reports or users.
        warnings: what a person should change, in plain sentences.
        details: what else the estimator has to say, by name.
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
