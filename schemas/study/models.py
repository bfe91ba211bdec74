"""What a study file may say, checked by pydantic; :mod:`ldpbeam.schemas.study.compile` takes it from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from ldpbeam.cells import clock_of
from ldpbeam.domains import Candidates, Categories, Domain, KeyValues, Numeric, Vector
from ldpbeam.schemas.study.parts import Duration, Later, Length, Model, Name, Number, free_field
from ldpbeam.schemas.study.service_models import ServiceModel
from ldpbeam.study import MOST_REPORTS, MOST_WINDOWS
from ldpbeam.windows import Windows

#: The format of study files.
FORMAT: Literal[1] = 1


def _known_zone(value: str) -> str:
    clock_of(value)
    return value


#: The default number of value buckets and of report buckets of numbers.
BUCKETS = 256
#: Whether reports have user ids; none: no id is read, and one that is there is not kept.
Users = Literal["ids", "none"]

#: Names in the order of their indexes, or how many there are: then they are called 0, 1, 2 ...
Names = list[str] | Annotated[int, Field(ge=2, le=1_000_000)]


def _named(names: Names) -> tuple[str, ...]:
    return tuple(map(str, range(names))) if isinstance(names, int) else tuple(names)


class DomainModel(Model):
    """What a person has: a number, a category, keys with values, or a number at each coordinate."""

    numeric: tuple[Number, Number] | None = Field(
        None, description="[low, high]; clients clip values outside to the ends"
    )
    categories: Names | None = Field(None, description="the categories' names, or how many there are")
    edges: Later[list[Number]] = Field(
        None,
        min_length=1,
        description="instead of numeric: ascending numbers from low to high, such as the buckets of a "
        "Prometheus or OpenTelemetry histogram; on the scale that clients perturb, all buckets are equal",
    )
    candidates: Later[Annotated[str, Field(min_length=1)]] = Field(
        None, description="a CSV file, or a folder of them, with the names of each window's places"
    )
    places: Later[Annotated[int, Field(strict=True, ge=2, le=1_000_000)]] = Field(
        None, description="beside candidates: how many places there are; clients report one of them"
    )
    keys: Names | None = Field(None, description="the keys' names, or how many; beside values")
    coordinates: list[Name] | Annotated[int, Field(ge=2, le=10_000)] | None = Field(
        None, description="a vector's (or time series') coordinates, or how many; beside values"
    )
    values: tuple[Number, Number] | None = Field(
        None, description="[low, high] of every key's value, or of every coordinate"
    )
    step: Later[Number] = Field(
        None, gt=0,
        description="the values are low, low + step, ..., high; clients round to the nearest of them",
    )  # fmt: skip

    scale: Later[Literal["log", "log1p"]] = Field(
        None,
        description="with numeric, or coordinates: the function of a value that clients perturb, for heavy "
        "tails; log1p, the logarithm of 1 + x, has 0",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> DomainModel:
        given = [self.numeric, self.edges, self.categories, self.candidates, self.keys, self.coordinates]
        if sum(part is not None for part in given) != 1:
            raise ValueError(
                "give one of numeric: [low, high], edges: [...], categories: [...], candidates: FILE, "
                "keys: [...] or coordinates: [...]"
            )
        if (self.candidates is None) != (self.places is None):
            raise ValueError("candidates: FILE and places: NUMBER go together")
        if (self.values is not None) != (self.keys is not None or self.coordinates is not None):
            raise ValueError("values: [low, high] goes with keys or coordinates, and they need it")
        if self.step is not None and self.numeric is None and self.coordinates is None:
            raise ValueError("step is for numbers: it goes with numeric, or with coordinates")
        if self.scale is not None and (self.step or (self.numeric is None and self.coordinates is None)):
            raise ValueError("scale goes with numeric, or with coordinates, and not with step")
        self.domain  # noqa: B018 - raises for an empty range or doubled names
        return self

    @property
    def domain(self) -> Domain:
        """The domain as the statistics see it."""
        if self.numeric is not None:
            return Numeric(*self.numeric, self.step, self.scale)
        if self.edges is not None:
            return Numeric(self.edges[0], self.edges[-1], scale=tuple(self.edges))
        if self.categories is not None:
            return Categories(_named(self.categories))
        if self.candidates is not None:
            return Candidates.unnamed(self.places or 0)
        assert self.values is not None
        values = Numeric(*self.values, self.step, self.scale)
        if self.keys is not None:
            return KeyValues(_named(self.keys), values)
        assert self.coordinates is not None
        return Vector(_named(self.coordinates), values)


def _each_once(names: list[str] | None) -> list[str] | None:
    if names is not None and (not names or len(set(names)) != len(names)):
        raise ValueError("name one service or more, each once")
    return names


def _ascending(levels: list[float]) -> list[float]:
    if sorted(set(levels)) != levels:
        raise ValueError("write quantiles in ascending order, each once")
    return levels


def _low_high(ends: tuple[float, float]) -> tuple[float, float]:
    if not ends[0] <= ends[1]:
        raise ValueError("a range needs low <= high")
    return ends


Quantiles = Annotated[list[Annotated[Number, Field(gt=0, lt=1)]], AfterValidator(_ascending)]


class EstimateModel(Model):
    """What to solve for. Further keys are the estimator's own options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    estimator: str = Field("auto", description="the method; auto chooses it by the data")
    services: Annotated[list[str] | None, AfterValidator(_each_once)] = Field(
        None, description="whose reports to use; by default all"
    )

    @property
    def options(self) -> Mapping[str, Any]:
        """The estimator's own options."""
        return self.model_extra or {}


class AttributeModel(Model):
    """One measured quantity."""

    domain: DomainModel
    buckets: int = Field(
        BUCKETS, ge=2, le=16384,
        description="value buckets of a numeric domain; with a step they divide the number of values, and "
        "there is by default one per value",
    )  # fmt: skip
    joint_buckets: int | None = Field(
        None, ge=2, le=4096,
        description="report buckets a service in the joint histogram; by default the finest "
        "power of two, at most buckets, whose table has at most 2^20 cells",
    )  # fmt: skip
    services: dict[Name, ServiceModel] = Field(min_length=1)
    estimates: dict[Name, EstimateModel] = Field(
        default_factory=lambda: {"auto": EstimateModel()}, min_length=1,
        description="what to solve for, by name; by default one estimate by auto, from all services",
        json_schema_extra={"default": {"auto": {"estimator": "auto"}}},
    )  # fmt: skip
    quantiles: Quantiles = Field([0.05, 0.25, 0.5, 0.75, 0.95])
    ranges: list[Annotated[tuple[Number, Number], AfterValidator(_low_high)]] = Field(
        [], description="ranges [low, high] of a number whose shares are wanted"
    )
    top: int | None = Field(
        None, ge=1, description="how many of the most frequent categories or keys to list"
    )
    field: Later[Annotated[str, Field(pattern=r"^[^\[\]]+\[[0-9]{1,3}\]$")]] = Field(
        None,
        description="the place of the payload in a list, such as values[3], if a record holds reports to all "
        "attributes",
    )
    users: Later[Users] = Field(
        None, description="whether reports of the attribute have user ids; by default as the study says"
    )


class WindowsModel(Model):
    """Event-time windows, aligned to 1970-01-01T00:00:00Z, or to the calendar of a zone."""

    size: Length = Field(gt=0)
    period: Length | None = Field(None, description="sliding windows: one starts every period")
    zone: Later[str] = Field(
        None,
        description="whose days, weeks (from Monday on), months, quarters and years the windows are, as in "
        "America/New_York; by default UTC, in which weeks begin on Thursdays",
    )
    offset: Later[Duration] = Field(
        None, description="how much later windows begin, as 6d for weeks from Sunday on"
    )
    allowed_lateness: Duration = Field(
        0, description="in a stream, how long reports may still change a window that has closed",
        json_schema_extra={"default": "0s"},
    )  # fmt: skip
    joined: Later[Length] = Field(
        None, gt=0,
        description="the size of longer windows, a multiple of size, in which a user's reports in several "
        "windows are brought together",
    )  # fmt: skip
    early_reports: int | None = Field(
        None, ge=1, description="in a stream, an early estimate each time this many more reports are in"
    )
    max_age: Later[Duration] = Field(
        None, gt=0,
        description="in a stream, how old reports may be; by default 7 days or 1,000 periods, the longer",
    )  # fmt: skip

    @model_validator(mode="after")
    def _possible(self) -> WindowsModel:
        self.windows  # noqa: B018 - raises for a period or joined windows that cannot be
        return self

    @property
    def windows(self) -> Windows:
        """The windows as the statistics see them."""
        return Windows(
            self.size,
            self.size if self.period is None else self.period,
            self.allowed_lateness,
            self.early_reports,
            self.max_age,
            self.joined,
            self.offset or 0,
            None if self.zone is None else clock_of(self.zone),
        )


class GroupsModel(Model):
    """One estimate for each value of a field of the report."""

    field: Annotated[str, AfterValidator(free_field)] = Field(
        description="the report's field, a column of the file"
    )
    at_most: int = Field(
        100, ge=1, le=10_000,
        description="groups with the most reports that get an estimate of their own; "
        "the rest are added up and counted",
    )  # fmt: skip


class PublishModel(Model):
    """Which windows and groups are estimated. The statistics of the others are written too."""

    at_least: int | None = Field(
        None, ge=1,
        description="the least number of users of a window or group (reports, where users are not counted); "
        "by default 2",
    )  # fmt: skip
    windows: int = Field(
        MOST_WINDOWS, ge=1, le=1_000_000,
        description="of more windows of an attribute than this, those with the most reports are estimated",
    )  # fmt: skip


class PanelModel(Model):
    """Of the windows of a period, a user answers one, which follows from a hash of the user id."""

    windows: int = Field(ge=2, le=100_000, description="how many windows a period has")


def _false_for_none(given: object) -> object:
    """The word false of a study file as None."""
    return None if given is False else given


def _or_false(schema: dict[str, Any]) -> None:
    """Say in a JSON Schema that the word false takes the place of null."""
    schema["anyOf"] = [{"const": False} if arm == {"type": "null"} else arm for arm in schema["anyOf"]]


def _part(given: object) -> object:
    """A text such as 1% as a number."""
    try:
        return float(given[:-1]) / 100.0 if isinstance(given, str) and given.endswith("%") else given
    except ValueError:
        return given


_Part = Annotated[
    float,
    Field(strict=True, ge=0.0, lt=0.5),
    BeforeValidator(_part),
    WithJsonSchema({
        "anyOf": [
            {"type": "number", "minimum": 0, "exclusiveMaximum": 0.5},
            {"type": "string", "pattern": "^[0-9.]+%$"},
        ]
    }),
]  # fmt: skip


class IntervalsModel(Model):
    """The confidence intervals of every estimate."""

    level: Number = Field(
        0.95, gt=0.5, lt=1, description="the share of all samples in which an interval holds the truth"
    )
    simultaneous: bool = Field(
        False, description="whether all shares of an estimate are to lie in their intervals at once"
    )
    any_look: int | None = Field(
        None,
        ge=1,
        le=10**12,
        description="near this many reports, the intervals that hold at every look are narrowest; it must "
        "not be chosen from the reports; left out: 30 times windows.early_reports, or 10,000",
    )
    named_only: Later[bool] = Field(
        None,
        description="whether only the mean of a number, and the quantiles and ranges that the study names, "
        "have certain intervals: they hold together, and are narrower",
    )
    liars: Later[_Part] = Field(
        None,
        description="the largest share of the people of an estimate who may send anything, as 1% or 0.01: "
        "certain intervals hold the numbers of the others",
    )


class LedgerModel(Model):
    """What each user spends over a period, in all windows, services and attributes."""

    period: Length = Field(gt=0, description="periods are aligned as windows are")
    cap: Number | None = Field(None, gt=0, description="users who spent more in a period are counted")


def _known_format(given: object) -> object:
    if type(given) is int and given == FORMAT:
        return given
    raise ValueError(f"this must be {FORMAT}; a later version of ldpbeam reads later formats: update ldpbeam")


class StudyModel(Model):
    """What is being estimated and how."""

    model_config = ConfigDict(title="Study")

    format: Annotated[Literal[1], BeforeValidator(_known_format)] = Field(
        FORMAT, exclude=True, description="the format of the study file"
    )
    study: Name
    attributes: dict[Name, AttributeModel] = Field(min_length=1)
    pairs: Later[dict[Name, Annotated[list[Name], Field(max_length=8)]]] = Field(
        None, description="attributes with reports joined by user; of three or more, every two form a pair"
    )
    windows: WindowsModel | None = Field(None, description="leave out for one window over everything")
    groups: GroupsModel | None = None
    publish: PublishModel = PublishModel()
    panel: Later[PanelModel] = Field(None, description="leave out if a user may answer every window")
    users: Later[Users] = Field(
        None,
        description="none: reports need no user id, and one that is there is not kept; by default ids",
    )
    duplicates: Literal["drop", "keep"] = Field(
        "drop", description="keep: no report is compared with another, and users are not grouped"
    )
    repeats: Literal["first", "all"] = Field(
        "first", description="whether a user's later reports in a window count too"
    )
    most_reports: Later[int] = Field(
        None, ge=1, le=1_000_000,
        description=f"with repeats: all, how many of a user count per service and window ({MOST_REPORTS:,})",
    )  # fmt: skip
    intervals: Annotated[IntervalsModel | None, BeforeValidator(_false_for_none)] = Field(
        IntervalsModel(level=0.95, simultaneous=False),
        description="confidence intervals of every estimate; false for none",
        json_schema_extra=_or_false,
    )
    epsilon_cap: Number | None = Field(
        None,
        gt=0,
        description="users whose reports in a window spent more are counted in the ledger",
    )
    ledger: Later[LedgerModel] = Field(
        None, description="adds up what each user spends over a period, in all windows and attributes"
    )
    events: Later[dict[str, str]] = Field(
        None, description="times that charts mark, by name, such as releases: dates, or times with a zone"
    )
    zone: Later[Annotated[str, AfterValidator(_known_zone)]] = Field(
        None, description="the zone of event times without one, as in Europe/Berlin; they are refused without"
    )
