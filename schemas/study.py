"""The study file: what is estimated and how. YAML, checked by pydantic."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.domains import Categories, Domain, Numeric
from ldpbeam.estimators import ESTIMATORS, check
from ldpbeam.mechanisms import build_mechanism
from ldpbeam.mechanisms.mechanism import LARGEST_EPSILON
from ldpbeam.schemas.times import Duration, Time

#: The joint histogram's default resolution is the finest whose table stays below this.
DEFAULT_JOINT_CELLS = 2**20

#: What a group or version field cannot be: user keys, above all, must not become names of groups.
_OWN_COLUMNS = frozenset(
    {"user_id", "attribute", "service", "event_time", "report_id", "payload", "position", "row"}
)


def _safe_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", value):
        raise ValueError("names have letters, digits, _ and -, at most 64, and start with a letter or digit")
    return value


def _free_field(value: str) -> str:
    if value in _OWN_COLUMNS:
        raise ValueError("this is a column of every report; name another field")
    return value


#: A number, and not a word such as yes that YAML takes for one.
Number = Annotated[float, Field(strict=True)]
Name = Annotated[str, AfterValidator(_safe_name)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DomainModel(_Model):
    """What true values are: a range of numbers, or a list (or number) of categories."""

    numeric: tuple[Number, Number] | None = Field(
        None, description="[low, high]; clients clip values outside to the ends"
    )
    categories: list[str] | Annotated[int, Field(ge=2, le=1_000_000)] | None = Field(
        None, description="names in the order of their indexes, or how many there are"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> DomainModel:
        if (self.numeric is None) == (self.categories is None):
            raise ValueError("give either numeric: [low, high] or categories: [...]")
        self.domain  # noqa: B018 - raises for an empty range or doubled names
        return self

    @property
    def domain(self) -> Domain:
        """The domain as the statistics see it."""
        if self.numeric is not None:
            return Numeric(*self.numeric)
        if isinstance(self.categories, int):
            return Categories(tuple(map(str, range(self.categories))))
        return Categories(tuple(self.categories or ()))


def _each_once(names: list[str] | None) -> list[str] | None:
    if names is not None and (not names or len(set(names)) != len(names)):
        raise ValueError("name one service or more, each once")
    return names


def _ascending(levels: list[float]) -> list[float]:
    if sorted(set(levels)) != levels:
        raise ValueError("write quantiles in ascending order, each once")
    return levels


Quantiles = Annotated[list[Annotated[Number, Field(gt=0, lt=1)]], AfterValidator(_ascending)]


class VersionModel(_Model):
    """A version of a service: what differs from the service, and how its reports are told apart."""

    model_config = ConfigDict(extra="allow", frozen=True)

    mechanism: str | None = None
    epsilon: Number | None = None
    values: list[str] | None = Field(
        None, description="values of the service's version_field; by default the version's name"
    )
    since: Time | None = Field(None, description="the first event time of this version")
    until: Time | None = Field(None, description="the first event time after it")

    @property
    def span(self) -> tuple[int, int]:
        """The event times [since, until) in epoch milliseconds, open ends far away."""
        return (
            -(2**62) if self.since is None else self.since,
            2**62 if self.until is None else self.until,
        )


class ServiceModel(_Model):
    """Who collects reports of the attribute, with which mechanism and epsilon.

    Further keys are the mechanism's own options.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    mechanism: str | None = None
    epsilon: Number | None = Field(None, gt=0, le=LARGEST_EPSILON)
    version_field: Annotated[str, AfterValidator(_free_field)] | None = Field(
        None, description="the field of the report that tells the versions apart"
    )
    versions: dict[Name, VersionModel] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _versions_told_apart(self) -> ServiceModel:
        if self.version_field and not self.versions:
            raise ValueError("version_field needs versions")
        if not self.version_field and any(v.values is not None for v in self.versions.values()):
            raise ValueError("versions have values only with a version_field")
        timed = [v for v in self.versions.values() if v.since is not None or v.until is not None]
        if self.version_field:
            if timed:
                raise ValueError("versions are told apart by version_field or by time, not both")
            named = [value for name, v in self.versions.items() for value in v.values or [name]]
            if len(set(named)) != len(named):
                raise ValueError("two versions have the same value of version_field")
            return self
        if len(timed) < len(self.versions):
            raise ValueError(
                "each version needs since and/or until, or the service a version_field: "
                "otherwise reports of different epsilons could not be told apart"
            )
        spans = sorted(version.span for version in timed)
        if any(start >= end for start, end in spans) or any(
            one[1] > other[0] for one, other in itertools.pairwise(spans)
        ):
            raise ValueError("the versions' times overlap or are empty")
        return self


class EstimateModel(_Model):
    """What to solve for. Further keys are the estimator's own options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    estimator: str
    services: Annotated[list[str] | None, AfterValidator(_each_once)] = Field(
        None, description="whose reports to use; by default all"
    )

    @property
    def options(self) -> Mapping[str, Any]:
        """The estimator's own options."""
        return self.model_extra or {}


class AttributeModel(_Model):
    """One measured quantity."""

    domain: DomainModel
    buckets: int = Field(256, ge=2, le=16384, description="value buckets of a numeric domain")
    joint_buckets: int | None = Field(
        None, ge=2, le=4096,
        description="report buckets a service in the joint histogram; by default the finest "
        "power of two, at most buckets, whose table has at most 2^20 cells",
    )  # fmt: skip
    services: dict[Name, ServiceModel] = Field(min_length=1)
    estimates: dict[Name, EstimateModel] = Field(min_length=1)
    quantiles: Annotated[list[Annotated[Number, Field(gt=0, lt=1)]], AfterValidator(_ascending)] = [
        0.05,
        0.25,
        0.5,
        0.75,
        0.95,
    ]


class WindowsModel(_Model):
    """Event-time windows, aligned to 1970-01-01T00:00:00Z."""

    size: Duration = Field(gt=0)
    period: Duration | None = Field(None, description="sliding windows: one starts every period")
    allowed_lateness: Duration = Field(0, json_schema_extra={"default": "0s"})

    @model_validator(mode="after")
    def _period_divides(self) -> WindowsModel:
        if self.period is not None and not 0 < self.period <= self.size:
            raise ValueError("period must be above zero and at most size")
        return self


class GroupsModel(_Model):
    """One estimate for each value of a field of the report."""

    field: Annotated[str, AfterValidator(_free_field)] = Field(
        description="the report's field, a column of the file"
    )
    at_most: int = Field(
        100, ge=1, le=10_000,
        description="groups with the most reports that get an estimate of their own; "
        "the rest are added up and counted",
    )  # fmt: skip


class Study(_Model):
    """What is being estimated and how."""

    study: Name
    attributes: dict[Name, AttributeModel] = Field(min_length=1)
    windows: WindowsModel | None = Field(None, description="leave out for one window over everything")
    groups: GroupsModel | None = None
    duplicates: Literal["drop", "keep"] = Field(
        "drop", description="keep: no report is compared with another, and users are not grouped"
    )
    repeats: Literal["first", "all"] = Field(
        "first", description="whether a user's later reports in a window count too"
    )
    epsilon_cap: Number | None = Field(
        None,
        gt=0,
        description="users whose reports in a window spent more are counted in the ledger",
    )

    @property
    def group_users(self) -> bool:
        """Whether a user's reports are brought together."""
        return self.duplicates == "drop" and self.repeats == "first"

    @model_validator(mode="after")
    def _compiles(self) -> Study:
        for name, model in self.attributes.items():
            attribute = self.attribute(name)
            for key, wanted in model.estimates.items():
                where = f"attributes.{name}.estimates.{key}: "
                for service in wanted.services or ():
                    if service not in model.services:
                        raise ValueError(
                            f"{where}unknown service {service!r}; there are: {', '.join(model.services)}"
                        )
                try:
                    check(
                        wanted.estimator, attribute, wanted.services or attribute.services,
                        wanted.options,
                    )  # fmt: skip
                except ValueError as error:
                    raise ValueError(f"{where}{error}") from None
        return self

    def attribute(self, name: str) -> Attribute:
        """An attribute as the statistics see it.

        Raises:
            ValueError: if a mechanism does not fit, or the joint histogram cannot be.
        """
        return self._compiled[name]

    @functools.cached_property
    def _compiled(self) -> dict[str, Attribute]:
        return {name: _attribute(self, name, model) for name, model in self.attributes.items()}


def _attribute(study: Study, name: str, model: AttributeModel) -> Attribute:
    domain = model.domain.domain
    versions = tuple(
        ServiceVersion(service, version, mechanism)
        for service, described in model.services.items()
        for version, mechanism in _mechanisms(f"attributes.{name}.services.{service}", described, domain)
    )
    joined: dict[str, None] = {}
    for wanted in model.estimates.values():
        estimator = ESTIMATORS.get(wanted.estimator)
        if estimator is not None and estimator.joins and study.group_users:
            joined.update(dict.fromkeys(wanted.services or model.services))
    ordered = tuple(service for service in model.services if service in joined)
    return Attribute(
        name=name,
        domain=domain,
        buckets=model.buckets,
        versions=versions,
        joint_services=ordered,
        joint_buckets=model.joint_buckets or _default_joint_buckets(model.buckets, versions, ordered),
        group_users=study.group_users,
    )


def _mechanisms(where: str, service: ServiceModel, domain: Domain) -> list[tuple[str, Any]]:
    described = service.versions or {"": VersionModel()}
    built = []
    for version, own in described.items():
        place = f"{where}.versions.{version}" if version else where
        name = own.mechanism or service.mechanism
        epsilon = own.epsilon if own.epsilon is not None else service.epsilon
        options = {**(service.model_extra or {}), **(own.model_extra or {})}
        if name is None or epsilon is None:
            raise ValueError(f"{place}: it needs a mechanism and an epsilon{_found_instead(options)}")
        try:
            built.append((version, build_mechanism(name, domain, epsilon, **options)))
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
    return built


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
