"""Running of an estimator by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Floats
from ldpbeam.estimators.estimate import Estimate
from ldpbeam.estimators.question import Progress, Question
from ldpbeam.estimators.registry import estimator_named
from ldpbeam.statistics import Statistic


def check(name: str, attribute: Attribute, services: Sequence[str], options: Mapping[str, Any]) -> None:
    """Check that an estimator can answer for an attribute and services with these options.

    Raises:
        ValueError: for an unknown estimator, service or option, for a value that an option does not take, or
            if the estimator does not fit the attribute.
    """
    estimator = estimator_named(name)
    estimator.check_options(options)
    for service in services:
        if service not in attribute.services:
            raise ValueError(f"unknown service {service!r}; there are: {', '.join(attribute.services)}")
    try:
        estimator.check(attribute, services)
    except ValueError as error:
        raise ValueError(f"estimator {name!r} does not fit: {error}") from None


def starts_warm(name: str, options: Mapping[str, Any] | None = None) -> bool:
    """Whether :func:`estimate` takes a ``start`` for an estimator with these options.

    It does if the answer is a fixed point that is the same from every start, to 1e-6 of each share and of the
    mean, in units of the domain's width. That is ``ems`` with ``accelerated: true``. If early
    stopping is part of the estimator, another start would give another answer.

    Raises:
        ValueError: for an unknown estimator.
    """
    fixed_point = estimator_named(name).fixed_point
    return fixed_point is not None and fixed_point(options or {})


def _checked_start(name: str, attribute: Attribute, options: Mapping[str, Any], start: ArrayLike) -> Floats:
    """The shares of a start, shape (value buckets,).

    Raises:
        ValueError: if the estimator takes no start, or this one has another shape or is not finite.
    """
    if not starts_warm(name, options):
        raise ValueError(
            f"estimator {name!r} with options {dict(options)} has an answer that depends on the start: "
            f"leave out start, or use ems with accelerated: true"
        )
    shares = np.asarray(start, dtype=np.float64)
    if shares.shape != (attribute.value_buckets,):
        raise ValueError(
            f"the start has the shape {shares.shape}, and attribute {attribute.name!r} has "
            f"{attribute.value_buckets} value buckets: give the distribution of an estimate of this attribute"
        )
    if not np.isfinite(shares).all():
        raise ValueError("the start has shares that are not finite numbers: leave out start")
    return shares


def estimate(
    name: str,
    attribute: Attribute,
    statistic: Statistic,
    services: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    start: ArrayLike | None = None,
) -> Estimate:
    """The answer of one estimator, from a statistic.

    Args:
        name: the estimator's name.
        attribute: the attribute of the statistic.
        statistic: the statistic of the attribute's reports.
        services: the services whose reports to use; by default all.
        options: the estimator's options; see ``registered_estimators()[name].options``.
        progress: called after every iteration.
        start: the distribution of a previous estimate, shape (value buckets,), to start from instead of the
            fixed start; allowed if :func:`starts_warm`. The answer is the same to 1e-6 if both estimates have
            converged. Shares of zero or below are raised a little above zero.

    Raises:
        ValueError: if the estimator does not fit, the statistic has other channels, the start has another
            length, or the estimator does not take a start.
    """
    services = tuple(services) or attribute.services
    check(name, attribute, services, options or {})
    if statistic.fingerprint != attribute.fingerprint:
        raise ValueError(
            f"the statistic is of other channels ({statistic.fingerprint}) than attribute "
            f"{attribute.name!r} has now ({attribute.fingerprint})"
        )
    given = dict(options or {})
    if start is not None:
        given["start"] = _checked_start(name, attribute, given, start)
    question = Question(attribute, statistic, services, progress)
    if not question.versions:
        return Estimate(
            name,
            services,
            0,
            question.users,
            converged=False,
            warnings=("no reports from these services",),
        )
    return estimator_named(name).function(question, **given)
