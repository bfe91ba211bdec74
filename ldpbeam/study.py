"""A study: what to estimate and how, in plain values that drivers and workers share."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ldpbeam.attributes import Attribute
from ldpbeam.cells import Cells, Clock
from ldpbeam.domains import Pair, Vector, as_text
from ldpbeam.intervals.answer import WantedIntervals
from ldpbeam.memoised.panels import Panel
from ldpbeam.statistics import Statistic
from ldpbeam.times import rfc3339
from ldpbeam.windows import EVERYTHING, FAR, Span, Windows

#: The default of ``publish.at_least`` in a study with windows or groups: one person is never estimated alone.
FEWEST_USERS = 2
#: The default of ``publish.windows``: a year of hours and more.
MOST_WINDOWS = 10_000
#: The default of ``most_reports``: with this many reports of epsilon 0.1, a user has spent 100 in a window.
MOST_REPORTS = 1_000


def attribute_of(name: str) -> str:
    """The attribute's name in the study: a vector's coordinate is called ``attribute.coordinate``."""
    return name.partition(".")[0]


@dataclass(frozen=True)
class Version:
    """How reports of one version of a service are recognised.

    Attributes:
        fields: the values of each field in reports of this version, texts or numbers; empty if versions are
            recognised by time.
        span: the event times of this version.
    """

    fields: Mapping[str, tuple[str | float, ...]] = field(default_factory=dict)
    span: Span = EVERYTHING

    @property
    def texts(self) -> Mapping[str, Sequence[str]]:
        """The values of each field as texts."""
        return {
            name: [value if isinstance(value, str) else as_text(value) for value in values]
            for name, values in self.fields.items()
        }


#: How reports write bits.
Payload = Literal["packed", "bits", "places"]


@dataclass(frozen=True)
class Service:
    """How the version of a service's report is recognised.

    Attributes:
        versions: the versions by name; empty if the service has only one, which has no name.
        payload: how reports write bits: ``packed`` in bytes, ``bits`` as 0 and 1, or the ``places`` of ones.
    """

    versions: Mapping[str, Version] = field(default_factory=dict)
    payload: Payload = "packed"

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a report that determine its version; none if time does, or there is only one."""
        return tuple(dict.fromkeys(name for version in self.versions.values() for name in version.fields))

    @property
    def of_records(self) -> bool:
        """Whether numbers in each report choose its channel."""
        return any(
            not isinstance(value, str)
            for version in self.versions.values()
            for values in version.fields.values()
            for value in values
        )

    @property
    def by_time(self) -> bool:
        """Whether a report's event time determines its version."""
        return bool(self.versions) and not self.fields

    def recognised_by(self, version: str) -> str:
        """How reports of a version are recognised, in words; empty if the service has only one version."""
        if not self.versions:
            return ""
        described = self.versions[version]
        if described.fields:
            fields = [f"{name!r} being {' or '.join(texts)}" for name, texts in described.texts.items()]
            return f"; recognised by {' and '.join(fields)}"
        since = f" from {rfc3339(described.span.start)} on" if described.span.start > -FAR else ""
        until = f" before {rfc3339(described.span.stop)}" if described.span.stop < FAR else ""
        return f"; recognised by an event time{since}{' and' if since and until else ''}{until}"


@dataclass(frozen=True)
class WantedEstimate:
    """One estimate that a study asks for.

    Attributes:
        estimator: the estimator's name.
        services: the services whose reports to use, one or more.
        options: the options of the estimator.
        intervals: the wanted confidence intervals; None for none.
    """

    estimator: str
    services: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    intervals: WantedIntervals | None = None


@dataclass(frozen=True)
class Summary:
    """What is written about an estimated distribution, besides its shares.

    Attributes:
        quantiles: the levels of quantiles of numbers, between 0 and 1, ascending.
        ranges: the ranges (low, high) of numbers whose shares are written.
        top: the number of most frequent categories or keys to list; None for no list.
    """

    quantiles: tuple[float, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()
    top: int | None = None


@dataclass(frozen=True)
class StudyAttribute:
    """What a study says about one attribute, besides its mechanisms.

    Attributes:
        services: the services by name, in the study's order.
        estimates: the wanted estimates by name, in the study's order.
        summary: what is written about each estimated distribution.
        candidates: the file or the folder with the names of each window's places; None for other domains.
        place: the list in a record, and the place in it, that holds the payload if a record has a report to
            every attribute; None if a record is one report.
    """

    services: Mapping[str, Service]
    estimates: Mapping[str, WantedEstimate]
    summary: Summary = Summary()
    candidates: str | None = None
    place: tuple[str, int] | None = None


#: If the users of one shard and window have more groups, those with the fewest reports are merged before they
#: are counted: each group takes memory, and a client can send a new one with each report.
MOST_GROUPS = 5_000


@dataclass(frozen=True)
class Groups:
    """Separate estimates for each value of a field.

    Attributes:
        field: the report's field.
        at_most: the number of groups with estimates: those with the most reports.
    """

    field: str
    at_most: int


@dataclass(frozen=True)
class Publish:
    """Which windows and groups are estimated; the statistics of the others are also written.

    Attributes:
        at_least: the least number of users of a window or group, or of reports if users are not counted.
        windows: the most windows of an attribute that are estimated: those with the most reports.
    """

    at_least: int = 1
    windows: int = MOST_WINDOWS

    def has_enough(self, statistic: Statistic) -> bool:
        """Whether a statistic has enough users, or enough reports if users are not counted."""
        users = statistic.users
        return (statistic.reports if users is None else users) >= self.at_least


@dataclass(frozen=True)
class LedgerPeriod:
    """The periods over which the ledger adds up what each user spends.

    Attributes:
        periods: the periods, with the clock and offset of the windows; none ends within a step of these.
        cap: the ledger counts the users who spent more than this in a period; None for no cap.
    """

    periods: Cells
    cap: float | None = None

    @property
    def period(self) -> int:
        """The length of a period in milliseconds."""
        return self.periods.length


@dataclass(frozen=True, eq=False)
class Study:
    """What to estimate and how. Two studies that say the same are equal.

    Attributes:
        name: the study's name.
        attributes: what the study says about each attribute, by name.
        compiled: the attributes as the statistics see them, by name. A vector is followed by its coordinates,
            each of which is a numeric attribute called ``attribute.coordinate``. Pairs come last.
        fingerprint: 32 hexadecimal digits of everything that the study says, except the events.
        pairs: what the study says about pairs of attributes, by name; with three attributes or more, there is
            a pair of each two, called ``name.first_second``.
        windows: the windows; None for one window over everything.
        groups: the groups; None for none.
        publish: which windows and groups are estimated.
        panel: in which window of a period a user answers; None if users may answer in every window.
        duplicates: ``drop``, or ``keep``: then no report is compared with another, and users are not grouped.
        repeats: whether only a user's ``first`` report in a window counts, or ``all``.
        most_reports: with ``all``, the most reports of a user to a service that count in a step of windows.
        epsilon_cap: the ledger counts the users whose reports in a window spent more than this; None for no
            cap.
        ledger: the periods over which the ledger adds up; None for windows alone.
        local: the clock of event times without a zone; None if such times are refused.
        clock: the clock by which windows are named; None for UTC.
        events: times that charts mark, by name, in epoch milliseconds.
        text: the study file, in JSON (which is YAML); empty for a study that was not read from one.
    """

    name: str
    attributes: Mapping[str, StudyAttribute]
    compiled: Mapping[str, Attribute]
    fingerprint: str
    pairs: Mapping[str, StudyAttribute] = field(default_factory=dict)
    windows: Windows | None = None
    groups: Groups | None = None
    publish: Publish = Publish()
    panel: Panel | None = None
    duplicates: Literal["drop", "keep"] = "drop"
    repeats: Literal["first", "all"] = "first"
    most_reports: int = MOST_REPORTS
    epsilon_cap: float | None = None
    ledger: LedgerPeriod | None = None
    local: Clock | None = None
    clock: Clock | None = None
    events: Mapping[str, int] = field(default_factory=dict)
    text: str = field(default="", repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Study) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @functools.cached_property
    def group_users(self) -> bool:
        """Whether a user's reports to an attribute are brought together."""
        return any(attribute.group_users for attribute in self.compiled.values())

    @functools.cached_property
    def without_users(self) -> tuple[str, ...]:
        """The attributes whose reports have no user ids."""
        return tuple(name for name in self.attributes if not self.attribute(name).has_users)

    @property
    def once_per_window(self) -> bool:
        """Whether a user has one report per service and window, so that an equal one is a copy."""
        return self.group_users and self.windows is not None

    @property
    def needs_time(self) -> bool:
        """Whether reports need event times: for windows, a ledger over periods, or versions by time."""
        by_time = any(
            s.by_time for described in self.attributes.values() for s in described.services.values()
        )
        return by_time or self.windows is not None or self.ledger is not None

    @property
    def windows_joined(self) -> int:
        """The number of windows in which the reports of a user are joined; 1 if they are not."""
        return 1 if self.windows is None else self.windows.each_joined

    def described(self, name: str) -> StudyAttribute:
        """What the study says about an attribute, a vector's coordinate, or a pair."""
        name = attribute_of(name)
        return self.pairs[name] if name in self.pairs else self.attributes[name]

    @functools.cached_property
    def described_names(self) -> tuple[str, ...]:
        """The names of attributes and of pairs."""
        return (*self.attributes, *filter(self.is_pair, self.compiled))

    def is_pair(self, name: str) -> bool:
        """Whether this is the name of a pair of attributes."""
        return isinstance(self.compiled[name].domain, Pair)

    @functools.cached_property
    def in_pairs(self) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """The pairs that each attribute is in, with the place there of its first channel."""
        places: dict[str, list[tuple[str, int]]] = {}
        for name in filter(self.is_pair, self.compiled):
            first, second = self.compiled[name].domain.names  # type: ignore[union-attr]
            places.setdefault(first, []).append((name, 0))
            places.setdefault(second, []).append((name, len(self.compiled[first].versions)))
        return {name: tuple(pairs) for name, pairs in places.items()}

    def attribute(self, name: str) -> Attribute:
        """An attribute, or a coordinate of a vector (``attribute.coordinate``), as the statistics see it."""
        return self.compiled[name]

    @functools.cached_property
    def estimated(self) -> tuple[str, ...]:
        """The names that have statistics: attributes, and instead of a vector its coordinates."""
        return tuple(name for name, a in self.compiled.items() if not isinstance(a.domain, Vector))

    @functools.cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each of ``estimated``, by which outputs are ordered."""
        return {name: index for index, name in enumerate(self.estimated)}
