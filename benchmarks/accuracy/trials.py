"""What every table of accuracy does: one population, one report of each person a service, many seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam import Answers, Attribute, ServiceVersion, Statistic, build_mechanism, tally
from ldpbeam.domains import Domain, KeyValuePairs


def asked(domain: Domain, buckets: int, services: dict[str, tuple[str, float, dict[str, Any]]]) -> Attribute:
    """An attribute whose services run (mechanism, epsilon, options)."""
    versions = tuple(
        ServiceVersion(service, "", build_mechanism(name, domain, epsilon, **options))
        for service, (name, epsilon, options) in services.items()
    )
    return Attribute("value", domain, buckets, versions)


def collected(
    attribute: Attribute, values: NDArray[Any] | KeyValuePairs, rng: np.random.Generator
) -> Statistic:
    """The statistic of one report of everybody to every service."""
    people = len(values)
    answers = [
        Answers(index, np.arange(people), version.mechanism.perturb(values, rng))
        for index, version in enumerate(attribute.versions)
    ]
    return tally(attribute, people, answers)


def summary(values: Iterable[float], form: str, scale: float = 1.0) -> str:
    """The mean of some values and its standard error."""
    array = scale * np.array(list(values))
    return f"{array.mean():{form}} ± {array.std(ddof=1) / np.sqrt(len(array)):{form}}"


def row(cells: Sequence[object]) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def header(names: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [row(names), row(["---"] * len(names))]
