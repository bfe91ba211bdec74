"""From the model of an attribute in a study file to its channels and joint histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import (
    Categories,
    Domain,
    Numeric,
    Vector,
    domain_of_numbers,
    least_multiple,
    number_of_values,
)
from ldpbeam.estimators import registered_estimators
from ldpbeam.mechanisms import Mechanism, build_mechanism
from ldpbeam.mechanisms.categories.randomised_response import RandomisedResponse, epsilon_of_rate
from ldpbeam.mechanisms.categories.unary_encoding import OptimisedUnaryEncoding, epsilon_of_bits
from ldpbeam.mechanisms.registry import AUTO
from ldpbeam.memoised import MEMOISED, Lifetime, released_options, steps_of
from ldpbeam.nearest import did_you_mean
from ldpbeam.resolution import ENOUGH, enough_buckets, least_kept
from ldpbeam.schemas.study.models import BUCKETS, AttributeModel, StudyModel
from ldpbeam.schemas.study.service_models import ServiceModel, VersionModel
from ldpbeam.schemas.study.users import has_users

#: The joint histogram's default resolution is the finest whose table stays below this.
DEFAULT_JOINT_CELLS = 2**20

#: Where the domain has a step, the report buckets of a histogram are at most this many.
MOST_REPORT_BUCKETS = 1_024

#: Up to this many joined services the default resolution is the same for all of them.
FEW_SERVICES = 3


def compile_attribute(name: str, model: AttributeModel, study: StudyModel) -> Iterator[Attribute]:
    """The attribute; of a vector also each coordinate, as a numeric attribute of its own.

    Raises:
        ValueError: if a mechanism does not fit, or the joint histogram cannot be.
    """
    domain, buckets = model.domain.domain, _report_buckets(model)
    users = has_users(study, model)
    group_users = users and study.duplicates == "drop" and study.repeats == "first"
    versions = []
    for service, described in model.services.items():
        for version, version_model in described.each_version.items():
            path = f"attributes.{name}.services.{service}"
            path += f".versions.{version}" if version in described.versions else ""
            mechanism = _mechanism(path, described, version_model, domain, buckets)
            lifetime = _lifetime(path, described, version_model, mechanism, domain, buckets, group_users)
            at_most = version_model.values_at_most or described.values_at_most
            if lifetime is not None:
                mechanism = lifetime.window
                _check_values(path, at_most, domain, lifetime)
            versions.append(ServiceVersion(service, version, mechanism, lifetime, at_most))

    def attribute(
        own_name: str, of: Domain, channels: Sequence[ServiceVersion], joined: tuple[str, ...]
    ) -> Attribute:
        try:
            return Attribute(
                name=own_name,
                domain=of,
                buckets=buckets,
                versions=tuple(channels),
                joint_services=joined,
                joint_buckets=model.joint_buckets or joint_buckets_of(buckets, tuple(channels), joined, of),
                group_users=group_users,
                stepped_buckets=model.buckets if "buckets" in model.model_fields_set else None,
                has_users=users,
            )
        except ValueError as error:
            raise ValueError(f"attributes.{name}: {error}") from None

    names = [name]
    if isinstance(domain, Vector):
        yield attribute(name, domain, versions, ())
        names = [f"{name}.{coordinate}" for coordinate in domain.coordinates]
        versions = [ServiceVersion(own.service, own.version, own.mechanism.in_study) for own in versions]
        domain = domain.values
    joined = _joined(model, domain, versions, group_users)
    for own_name in names:
        yield attribute(own_name, domain, versions, joined)


def _report_buckets(model: AttributeModel) -> int:
    """The number of report buckets: as many as value buckets, but with a step enough to tell values apart."""
    if model.domain.edges is not None:
        return _buckets_of_edges(model, len(model.domain.edges) - 1)
    if model.domain.step is None:
        return model.buckets
    values = number_of_values(domain_of_numbers(model.domain.domain))
    return min(max(values, BUCKETS), MOST_REPORT_BUCKETS)


def _buckets_of_edges(model: AttributeModel, between: int) -> int:
    """The number of buckets between edges; by default the least multiple of theirs from the usual number on.

    Raises:
        ValueError: if the study gives another number than a multiple.
    """
    if "buckets" not in model.model_fields_set:
        return least_multiple(between, BUCKETS)
    if model.buckets % between:
        raise ValueError(f"buckets must be a multiple of the {between} between edges, found {model.buckets}")
    return model.buckets


def _joined(
    model: AttributeModel, domain: Domain, versions: Sequence[ServiceVersion], group_users: bool
) -> tuple[str, ...]:
    """The services whose reports some estimator wants joined by user, in the study's order."""
    joined: dict[str, None] = {}
    for wanted in model.estimates.values() if group_users else ():
        estimator = registered_estimators().get(wanted.estimator)
        services = wanted.services or list(model.services)
        mechanisms = [version.mechanism for version in versions if version.service in services]
        if estimator is not None and estimator.asks_to_join(domain, services, mechanisms):
            joined.update(dict.fromkeys(services))
    return tuple(service for service in model.services if service in joined)


def _mechanism(
    path: str, service: ServiceModel, version: VersionModel, domain: Domain, buckets: int
) -> Mechanism:
    name = version.mechanism or service.mechanism
    epsilon = _stated_epsilon(path, name, service, version, domain)
    options = {**service.constants, **(version.model_extra or {})}
    given = {**service.remembering, **version.remembering}
    if given.get("as_published") and "lifetime_epsilon" in given and name is not None and epsilon is not None:
        options = {**released_options(name, given["lifetime_epsilon"], epsilon), **options}
    if name is None or epsilon is None:
        raise ValueError(f"{path}: it needs a mechanism and an epsilon{_found_instead(options)}")
    try:
        mechanism = build_mechanism(name, domain, epsilon, **options)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if service.payload and not mechanism.bits:
        raise ValueError(f"{path}: payload: {service.payload} is for reports of bits, as of oue and sue")
    named = mechanism.in_study
    numbers = domain_of_numbers(domain)
    if isinstance(numbers, Numeric) and not numbers.count and buckets % named.granularity:
        raise ValueError(
            f"{path}: {named.name} tells {named.granularity} bins apart, so the attribute's buckets "
            f"must be a multiple of that, found {buckets}"
        )
    return mechanism


def _stated_epsilon(
    path: str, name: str | None, service: ServiceModel, version: VersionModel, domain: Domain
) -> float | None:
    """The epsilon of reports, of which a study may state other probabilities; None if it states nothing.

    Raises:
        ValueError: if it states several, one that the mechanism does not have, or one that cannot be.
    """
    epsilon, rate = service.number_of(version, "epsilon"), service.number_of(version, "rate")
    if rate is None and service.other is None and service.replacement is None:
        return epsilon
    stated = [number for number in (epsilon, rate, service.other) if number is not None]
    if len(stated) != 1:
        raise ValueError(f"{path}: give one of epsilon, rate and other")
    if not stated[0] > 0.0:
        raise ValueError(f"{path}: epsilon, rate and other are above 0, found {stated[0]:g}")
    if service.other is not None and name == OptimisedUnaryEncoding.name:
        own = (version.model_extra or {}).get("own", service.constants.get("own", 0.5))
        if not (isinstance(own, int | float) and service.other < own < 1.0):
            raise ValueError(
                f"{path}: other is below own, and own below 1, found {service.other:g} and {own}"
            )
        return epsilon_of_bits(own, service.other)
    if service.other is not None or not isinstance(domain, Categories) or name != RandomisedResponse.name:
        raise ValueError(f"{path}: rate and replacement are for mechanism: grr, and other for oue")
    if rate is None:
        rate = (domain.size - 1.0) / (math.exp(stated[0]) + domain.size - 1.0)
    if not rate < 1.0:
        raise ValueError(f"{path}: rate is below 1, found {rate:g}")
    return epsilon_of_rate(rate, domain.size)


def _lifetime(
    path: str,
    service: ServiceModel,
    version: VersionModel,
    named: Mechanism,
    domain: Domain,
    buckets: int,
    group_users: bool,
) -> Lifetime | None:
    """What clients remember; None if they remember nothing.

    Raises:
        ValueError: if they cannot remember it, or reports are not grouped by user.
    """
    given = {**service.remembering, **version.remembering}
    epsilon = given.get("lifetime_epsilon")
    if epsilon is None:
        if given:
            raise ValueError(f"{path}: {' and '.join(given)} need{'s' * (len(given) == 1)} lifetime_epsilon")
        return None
    if not group_users:
        raise ValueError(
            f"{path}: lifetime_epsilon needs duplicates: drop and repeats: first, because reports of a user "
            "in a window share their noise"
        )
    if isinstance(domain, Vector):
        raise ValueError(f"{path}: lifetime_epsilon is not for vectors, whose clients sample a coordinate")
    if (version.mechanism or service.mechanism) == AUTO:
        raise ValueError(
            f"{path}: with lifetime_epsilon, name grr or olh instead of auto: with olh a user's lifetime "
            "epsilon is spent on fewer values"
        )
    memo_buckets = given.get("memo_buckets", buckets if isinstance(domain, Numeric) else 0)
    if isinstance(domain, Numeric) and memo_buckets % buckets:
        raise ValueError(
            f"{path}: memo_buckets must be a multiple of the attribute's {'report ' * bool(domain.count)}"
            f"buckets ({buckets}), found {memo_buckets}"
        )
    try:
        if not isinstance(named, MEMOISED):
            memo_buckets = 0
        lifetime = Lifetime(
            named, epsilon, given.get("as_published", False), memo_buckets, number_of_values(domain)
        )
        steps_of(lifetime)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return lifetime


def _check_values(path: str, at_most: int | None, domain: Domain, lifetime: Lifetime) -> None:
    """See that users are not said to have more different values than there are.

    Raises:
        ValueError: if they are.
    """
    of_categories = isinstance(domain, Categories)
    possible = domain.size if isinstance(domain, Categories) else lifetime.chain.inputs
    if at_most is not None and at_most > possible:
        kind = "categories" if of_categories else "values" if lifetime.values else "memo buckets"
        raise ValueError(f"{path}: values_at_most: there are {possible:,} {kind}, found {at_most:,}")


def _found_instead(options: Mapping[str, Any]) -> str:
    """Keys that may be misspelt ones."""
    given = [
        f"{option!r}{did_you_mean(option, ('mechanism', 'epsilon'), before=' (', after=')')}"
        for option in options
    ]
    return f"; found {', '.join(given)}" if given else ""


def joint_buckets_of(
    buckets: int, versions: tuple[ServiceVersion, ...], services: tuple[str, ...], domain: Domain
) -> int | tuple[int, ...]:
    """The default resolution of the joint histogram.

    It is the same for all services if the joint histogram then has at most 2^20 cells and keeps enough of the
    information of each, and for up to :data:`FEW_SERVICES` services in any case. If not, each channel has
    as many report buckets as its information needs.
    """
    resolution = _default_joint_buckets(buckets, versions, services)
    if len(services) <= FEW_SERVICES or isinstance(domain, Categories):
        return resolution
    joined = [version.service in services for version in versions]
    if all(
        least_kept(version.mechanism, buckets, resolution) >= ENOUGH
        for version, chosen in zip(versions, joined, strict=True)
        if chosen
    ):
        return resolution
    return tuple(
        enough_buckets(version.mechanism, buckets) if chosen else 0
        for version, chosen in zip(versions, joined, strict=True)
    )


def _default_joint_buckets(
    buckets: int, versions: tuple[ServiceVersion, ...], services: tuple[str, ...]
) -> int:
    resolution: int = 2 ** min(8, buckets.bit_length() - 1)
    while resolution > 2:
        cells = 1.0
        for service in services:
            version_cells = [v.mechanism.cells(resolution) for v in versions if v.service == service]
            cells *= 1.0 + sum(version_cells)
        if cells <= DEFAULT_JOINT_CELLS:
            break
        resolution //= 2
    return resolution
