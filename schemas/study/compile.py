"""From what a study file says of an attribute to what the statistics see."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Domain, Numeric, Vector
from ldpbeam.estimators import ESTIMATORS
from ldpbeam.mechanisms import Mechanism, SampledCoordinate, build_mechanism

if TYPE_CHECKING:
    from ldpbeam.schemas.study.models import AttributeModel, ServiceModel, VersionModel

#: The joint histogram's default resolution is the finest whose table stays below this.
DEFAULT_JOINT_CELLS = 2**20


def attribute_of(name: str) -> str:
    """The attribute's name in the file: a coordinate is called ``attribute.coordinate``."""
    return name.partition(".")[0]


def compiled(name: str, model: AttributeModel, group_users: bool) -> Iterator[Attribute]:
    """The attribute; of a vector also each coordinate, as a numeric attribute of its own.

    Raises:
        ValueError: if a mechanism does not fit, or the joint histogram cannot be.
    """
    domain = model.domain.domain
    versions = []
    for service, described in model.services.items():
        for version, own in described.each_version.items():
            place = f"attributes.{name}.services.{service}" + (f".versions.{version}" if version else "")
            mechanism = _mechanism(place, described, own, domain, model.buckets)
            versions.append(ServiceVersion(service, version, mechanism))
    if not isinstance(domain, Vector):
        yield _attribute(name, model, domain, tuple(versions), _joined(model, group_users), group_users)
        return
    yield _attribute(name, model, domain, tuple(versions), (), group_users)
    joined, alone = _joined(model, group_users), []
    for whole in versions:
        assert isinstance(whole.mechanism, SampledCoordinate)
        alone.append(ServiceVersion(whole.service, whole.version, whole.mechanism.inner))
    for coordinate in domain.coordinates:
        own_name = f"{name}.{coordinate}"
        yield _attribute(own_name, model, domain.values, tuple(alone), joined, group_users)


def _attribute(
    name: str,
    model: AttributeModel,
    domain: Domain,
    versions: tuple[ServiceVersion, ...],
    joined: tuple[str, ...],
    group_users: bool,
) -> Attribute:
    try:
        return Attribute(
            name=name,
            domain=domain,
            buckets=model.buckets,
            versions=versions,
            joint_services=joined,
            joint_buckets=model.joint_buckets or _default_joint_buckets(model.buckets, versions, joined),
            group_users=group_users,
        )
    except ValueError as error:
        raise ValueError(f"attributes.{attribute_of(name)}: {error}") from None


def _joined(model: AttributeModel, group_users: bool) -> tuple[str, ...]:
    """The services whose reports some estimator wants joined by user, in the study's order."""
    joined: dict[str, None] = {}
    for wanted in model.estimates.values():
        estimator = ESTIMATORS.get(wanted.estimator)
        if estimator is not None and estimator.joins and group_users:
            joined.update(dict.fromkeys(wanted.services or model.services))
    return tuple(service for service in model.services if service in joined)


def _mechanism(
    place: str, service: ServiceModel, version: VersionModel, domain: Domain, buckets: int
) -> Mechanism:
    name = version.mechanism or service.mechanism
    epsilon = version.epsilon if version.epsilon is not None else service.epsilon
    options = {**(service.model_extra or {}), **(version.model_extra or {})}
    if name is None or epsilon is None:
        raise ValueError(f"{place}: it needs a mechanism and an epsilon{_found_instead(options)}")
    try:
        mechanism = build_mechanism(name, domain, epsilon, **options)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    inner = mechanism.inner if isinstance(mechanism, SampledCoordinate) else mechanism
    if isinstance(domain, Numeric | Vector) and buckets % inner.granularity:
        raise ValueError(
            f"{place}: {inner.name} tells {inner.granularity} bins apart, so the attribute's buckets "
            f"must be a multiple of that, found {buckets}"
        )
    return mechanism


def _found_instead(options: Mapping[str, Any]) -> str:
    """Keys that may be misspelt ones."""
    found = []
    for option in options:
        near = difflib.get_close_matches(option, ("mechanism", "epsilon"), n=1)
        found.append(f"{option!r}{f' (did you mean {near[0]!r}?)' if near else ''}")
    return f"; found {', '.join(found)}" if found else ""


def _default_joint_buckets(
    buckets: int, versions: tuple[ServiceVersion, ...], services: tuple[str, ...]
) -> int:
    resolution: int = 2 ** min(8, buckets.bit_length() - 1)
    while resolution > 2:
        cells = 1.0
        for service in services:
            own = [v.mechanism.cells(resolution) for v in versions if v.service == service]
            cells *= 1.0 + sum(own)
        if cells <= DEFAULT_JOINT_CELLS:
            break
        resolution //= 2
    return resolution
