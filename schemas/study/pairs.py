"""Compiles the pairs of a study file into attributes with the services of two others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ldpbeam.attributes import Attribute
from ldpbeam.domains import Candidates, Categories, Numeric, Pair
from ldpbeam.schemas.study.compile_attribute import joint_buckets_of
from ldpbeam.schemas.study.models import StudyModel

#: The report buckets of numbers in the joint histogram of a pair, at most: twice the value buckets that are
#: estimated.
REPORT_BUCKETS = 64
#: A pair estimates a table of at most this many categories a side.
MOST_CATEGORIES = 128


def compile_pairs(model: StudyModel, attributes: Mapping[str, Attribute]) -> Iterator[Attribute]:
    """Each pair as an attribute: its services are those of both, called ``attribute/service``.

    Raises:
        ValueError: if a pair is impossible; the text begins with its place in the file.
    """
    for key, names in (model.pairs or {}).items():
        where = f"pairs.{key}"
        if len(names) < 2:
            raise ValueError(f"{where}: name two attributes or more")
        if key in model.attributes:
            raise ValueError(f"{where}: an attribute has this name")
        if len(set(names)) < len(names):
            raise ValueError(f"{where}: name each attribute once")
        if model.panel is not None:
            raise ValueError(f"{where}: in a panel a user answers the attributes in different windows")
        if model.windows is not None and model.windows.joined is not None:
            raise ValueError(f"{where}: a pair joins reports of one window: leave out windows.joined")
        for name in names:
            _check(where, name, attributes)
        for first, second in itertools.combinations(names, 2):
            name = key if len(names) == 2 else f"{key}.{first}_{second}"
            try:
                yield _pair(name, attributes[first], attributes[second])
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None


def _check(where: str, name: str, attributes: Mapping[str, Attribute]) -> None:
    """Check that the reports of an attribute can be joined with those of another.

    Raises:
        ValueError: if they cannot.
    """
    if name not in attributes:
        there = ", ".join(other for other in attributes if "." not in other)
        raise ValueError(f"{where}: there is no attribute {name!r}; there are: {there}")
    attribute = attributes[name]
    domain = attribute.domain
    if isinstance(domain, Candidates) or not isinstance(domain, Numeric | Categories):
        raise ValueError(f"{where}: pairs are of numbers and of categories, and {name!r} is neither")
    if isinstance(domain, Categories) and domain.size > MOST_CATEGORIES:
        raise ValueError(f"{where}: {name!r} has {domain.size} categories; the limit is {MOST_CATEGORIES}")
    if not attribute.group_users:
        raise ValueError(
            f"{where}: it joins the reports of a user, so it needs users, duplicates: drop and repeats: first"
        )


def _pair(name: str, *sides: Attribute) -> Attribute:
    versions = tuple(
        replace(version, service=f"{side.name}/{version.service}")
        for side in sides
        for version in side.versions
    )
    services = tuple(dict.fromkeys(version.service for version in versions))
    buckets = max(side.buckets for side in sides)
    first, second = (side.domain for side in sides)
    assert isinstance(first, Numeric | Categories) and isinstance(second, Numeric | Categories)
    domain = Pair((sides[0].name, sides[1].name), (first, second))
    return Attribute(
        name=name,
        domain=domain,
        buckets=buckets,
        versions=versions,
        joint_services=services,
        joint_buckets=joint_buckets_of(min(buckets, REPORT_BUCKETS), versions, services, domain),
    )
