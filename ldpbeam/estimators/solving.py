"""Run an estimator by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ldpbeam.attributes import Attribute
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


def estimate(
    name: str,
    attribute: Attribute,
    statistic: Statistic,
    services: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """The estimate by one estimator from a statistic.

    Args:
        name: the estimator's name.
        attribute: the attribute of the statistic.
        statistic: the statistic of the attribute's reports.
        services: the services whose reports to use; by default all.
        options: the estimator's options; see ``registered_estimators()[name].options``.
        progress: called after every iteration.

    Raises:
        ValueError: if the estimator does not fit, or the statistic has other channels.
    """
    services = tuple(services) or attribute.services
    check(name, attribute, services, options or {})
    if statistic.fingerprint != attribute.fingerprint:
        raise ValueError(
            f"the statistic is of other channels ({statistic.fingerprint}) than attribute "
            f"{attribute.name!r} has now ({attribute.fingerprint})"
        )
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
    return estimator_named(name).function(question, **(options or {}))
