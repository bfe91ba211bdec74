"""What a study file may say of a service: its mechanism, its versions, and what reports say of either."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from ldpbeam.attributes import MOST_CHANNELS
from ldpbeam.domains import as_text
from ldpbeam.mechanisms.mechanism import LARGEST_EPSILON
from ldpbeam.schemas.study.parts import Kind, Later, Model, Name, Number, Time, free_field
from ldpbeam.windows import FAR, Span

#: What the rate of GRR is.
RATE = (
    "instead of epsilon, with grr: the probability with which a client replaces its category by one that is "
    "drawn from all categories, the true one too"
)


class _RememberingModel(Model):
    """What a service, or a version of it, says of clients that remember their noise."""

    model_config = ConfigDict(extra="allow", frozen=True)

    lifetime_epsilon: Later[Number] = Field(
        None, description="clients remember their noise: what all reports about one value reveal of it"
    )
    as_published: Later[bool] = Field(
        None, strict=True, description="whether clients have the published constants of L-GRR and LOLOHA"
    )
    memo_buckets: Later[Annotated[int, Field(strict=True)]] = Field(
        None,
        description="to how many buckets clients round a number: a multiple of buckets, by default as many",
    )
    values_at_most: Later[Annotated[int, Field(strict=True, ge=1)]] = Field(
        None,
        description="how many different values a user has in a period of the ledger, at most; by default as "
        "many as there are",
    )

    @property
    def remembering(self) -> dict[str, Any]:
        """Those of the four keys that are given."""
        return {name: getattr(self, name) for name in REMEMBERING if getattr(self, name) is not None}


#: The keys of clients that remember their noise.
REMEMBERING = tuple(_RememberingModel.model_fields)


class ByFieldModel(Model):
    """A number that each report says by itself: each of the values has a channel."""

    field: Annotated[str, AfterValidator(free_field)] = Field(
        description="the report's field with the number"
    )
    values: list[Number] = Field(min_length=1, description="the numbers that a report may have there")

    @model_validator(mode="after")
    def _each_once(self) -> ByFieldModel:
        if len(set(self.values)) != len(self.values):
            raise ValueError("write each of the values once")
        return self


#: In the place of an error, that a number is chosen by a field; no key of a study file.
BY_FIELD = "by a field"
#: A type, or a field of the report that says the value.
OrByField = Annotated[
    Annotated[Kind, Tag("given")] | Annotated[ByFieldModel, Tag(BY_FIELD)],
    Discriminator(lambda value: BY_FIELD if isinstance(value, dict | ByFieldModel) else "given"),
]


class VersionModel(_RememberingModel):
    """A version of a service: what differs from the service, and how its reports are told apart."""

    mechanism: str | None = None
    epsilon: Number | None = None
    rate: Later[Number] = Field(None, description=RATE)
    values: list[str] | None = Field(
        None, description="values of the service's version_field; by default the version's name"
    )
    since: Time | None = Field(None, description="the first event time of this version")
    until: Time | None = Field(None, description="the first event time after it")

    @property
    def span(self) -> Span:
        """The event times of this version."""
        return Span(-FAR if self.since is None else self.since, FAR if self.until is None else self.until)


def _number(value: float) -> Any:
    """A number as options have it: whole numbers are integers."""
    return int(value) if value.is_integer() else value


class ServiceModel(_RememberingModel):
    """Who collects reports of the attribute, with which mechanism and epsilon.

    Further keys are the mechanism's own options.
    """

    __pydantic_extra__: dict[str, OrByField[Any]]

    mechanism: str | None = None
    epsilon: OrByField[Annotated[Number, Field(gt=0, le=LARGEST_EPSILON)] | None] = None
    rate: Later[OrByField[Number]] = Field(None, description=RATE)
    replacement: Later[Literal["any"]] = Field(
        None,
        description="with grr, of clients that keep their category with the probability of epsilon, and "
        "else draw from all categories, the true one too: their reports have a larger epsilon",
    )
    other: Later[Number] = Field(
        None,
        description="instead of epsilon, with oue: the probability that the bit of another category is set, "
        "beside the option own",
    )
    payload: Later[Literal["packed", "bits", "places"]] = Field(
        None,
        description="how reports write bits: packed in bytes, as bits 0 and 1 from the first category on, or "
        "as the places of set bits from 0 on; in text or lists",
    )
    version_field: Annotated[str, AfterValidator(free_field)] | None = Field(
        None, description="the field of the report that tells the versions apart"
    )
    versions: dict[Name, VersionModel] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _channels_of_records(self) -> ServiceModel:
        by_field = self.by_field
        if by_field and self.versions:
            raise ValueError(
                f"{next(iter(by_field))} is said by a field of each report, so the service has no versions: "
                "give it a number, or leave the versions out"
            )
        fields = [chosen.field for chosen in by_field.values()]
        if len(set(fields)) < len(fields):
            raise ValueError(f"one field says {' and '.join(by_field)}: give each a field of its own")
        if math.prod(len(chosen.values) for chosen in by_field.values()) > MOST_CHANNELS:
            raise ValueError(
                f"the values of {' and '.join(by_field)} make more than {MOST_CHANNELS} channels"
            )
        return self

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
        spans = sorted((version.span for version in timed), key=lambda span: (span.start, span.stop))
        if any(span.start >= span.stop for span in spans) or any(
            one.stop > other.start for one, other in itertools.pairwise(spans)
        ):
            raise ValueError("the versions' times overlap or are empty")
        return self

    @property
    def by_field(self) -> Mapping[str, ByFieldModel]:
        """The keys whose value a field of each report says."""
        given = {"epsilon": self.epsilon, "rate": self.rate, **(self.model_extra or {})}
        return {key: value for key, value in given.items() if isinstance(value, ByFieldModel)}

    def number_of(self, version: VersionModel, key: Literal["epsilon", "rate"]) -> float | None:
        """The number that a version gives, or else the service."""
        of_version: float | None = getattr(version, key)
        of_service: OrByField[float] | None = getattr(self, key)
        return of_service if of_version is None and not isinstance(of_service, ByFieldModel) else of_version

    @property
    def constants(self) -> Mapping[str, Any]:
        """The mechanism's own options that are the same in each report."""
        return {key: value for key, value in (self.model_extra or {}).items() if key not in self.by_field}

    @property
    def each_version(self) -> Mapping[str, VersionModel]:
        """The versions by name; where there is but one, its name is empty.

        Each channel that fields of a report may choose is a version, called by its values.
        """
        chosen = self.by_field
        return self.versions or {
            ",".join(f"{key}={as_text(value)}" for key, value in zip(chosen, values, strict=True)): (
                VersionModel.model_construct(**dict(zip(chosen, map(_number, values), strict=True)))
            )
            for values in itertools.product(*(by_field.values for by_field in chosen.values()))
        }
