"""An attribute as the statistics use it: its domain, and the mechanism of each service that asks about it."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ldpbeam.channels import Channel, stacked, with_ends
from ldpbeam.domains import (
    Candidates,
    Categories,
    Domain,
    Floats,
    Integers,
    Pair,
    domain_of_numbers,
    number_of_values,
)
from ldpbeam.mechanisms import Mechanism
from ldpbeam.mechanisms.at_values import by_bucket, channel_at_values, check_at_values
from ldpbeam.memoised import Lifetime
from ldpbeam.resolution import least_kept

#: The most cells of a joint histogram that is a dense table; a larger one keeps a row per user.
MOST_JOINT_CELLS = 2**22
#: The most channels of an attribute: a set of them is a mask of 64 bits.
MOST_CHANNELS = 62


@dataclass(frozen=True)
class ServiceVersion:
    """One channel of an attribute: a service, or one of its versions if its epsilon has changed.

    Attributes:
        service: the service's name.
        version: the version's name; empty if the service has only one.
        mechanism: the mechanism of the service's clients; if these remember their noise, the one that
            describes the reports of a single window.
        lifetime: what the clients remember; None if each report has fresh noise.
        values_at_most: the most different values of a user in a period of the ledger, if clients remember
            their noise; None if there is no limit.
    """

    service: str
    version: str
    mechanism: Mechanism
    lifetime: Lifetime | None = None
    values_at_most: int | None = None

    @property
    def label(self) -> str:
        """``service``, or ``service@version``."""
        return f"{self.service}@{self.version}" if self.version else self.service

    @property
    def named(self) -> Mechanism:
        """The mechanism that the study names."""
        return self.mechanism.in_study if self.lifetime is None else self.lifetime.named

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters of the mechanism that the study names, and of what clients remember."""
        remembered = {} if self.lifetime is None else self.lifetime.options
        return {**self.named.parameters, **remembered}

    def explain(self) -> str:
        """The mechanism, its budgets and its reports, in words."""
        return self.mechanism.explain() if self.lifetime is None else self.lifetime.explain()


class OnAxis(NamedTuple):
    """The cells of ``versions[version]`` on the axis of its service: from ``first`` to before ``end``."""

    version: int
    first: int
    end: int


@functools.lru_cache(maxsize=64)
def _at_ends(mechanism: Mechanism, resolution: int, of_histogram: bool) -> Floats:
    """The result of :meth:`Attribute.at_ends`, cached: some mechanisms take a tenth of a second."""
    at_ends = channel_at_values(mechanism, 2, resolution, of_histogram=of_histogram).dense()
    at_ends.setflags(write=False)
    return at_ends


@dataclass(frozen=True)
class Attribute:
    """One measured quantity, and all channels of its reports.

    Attributes:
        name: the attribute's name in the study.
        domain: the domain of true values.
        buckets: the number of report buckets of a service's histogram, and of value buckets of an estimate
            of numbers without a step.
        versions: the channels, with services in the study's order, and the versions of a service together.
        joint_services: the services whose reports are joined by user into a joint histogram; may be empty.
        joint_buckets: the resolution of the joint histogram: the number of report buckets of each service
            whose reports are numbers, or one number per channel, in the order of ``versions``.
        group_users: whether reports are grouped by user; if not, reports are counted, and users are not.
        stepped_buckets: the number of value buckets if the domain has a step, which divides the number of
            values; None for one per value.
        has_users: whether reports have user ids; if not, ids are not read, and reports are not grouped.

    Raises:
        ValueError: if the attribute has more channels than MOST_CHANNELS, services are joined but reports
            are not grouped by user, ``joint_buckets`` does not have one number per channel, or the values of
            a domain with a step do not fit these buckets, or are fewer than a mechanism's bins.
    """

    name: str
    domain: Domain
    buckets: int
    versions: tuple[ServiceVersion, ...]
    joint_services: tuple[str, ...] = ()
    joint_buckets: int | tuple[int, ...] = 256
    group_users: bool = True
    stepped_buckets: int | None = None
    has_users: bool = True

    def __post_init__(self) -> None:
        if len(self.versions) > MOST_CHANNELS:
            raise ValueError(
                f"{len(self.versions)} services and versions; at most {MOST_CHANNELS} are joined"
            )
        if self.joint_services and not self.group_users:
            raise ValueError("services can only be joined where users are grouped")
        if isinstance(self.joint_buckets, tuple) and len(self.joint_buckets) != len(self.versions):
            raise ValueError(f"{len(self.joint_buckets)} joint_buckets for {len(self.versions)} channels")
        values = number_of_values(self.domain)
        if values and values % self.value_buckets:
            raise ValueError(
                f"this step makes {values} values, and buckets must divide that, found {self.value_buckets}"
            )
        for version in self.versions if values else ():
            check_at_values(version.mechanism, values)

    @functools.cached_property
    def value_buckets(self) -> int:
        """The length of an estimated distribution: the number of categories, or of buckets of numbers."""
        if isinstance(self.domain, Categories):
            return self.domain.size
        values = number_of_values(domain_of_numbers(self.domain))
        return (self.stepped_buckets or values) if values else self.buckets

    def with_value_buckets(self, buckets: int) -> Attribute:
        """The same attribute, estimated in another number of value buckets."""
        stepped = bool(number_of_values(self.domain))
        return replace(self, stepped_buckets=buckets) if stepped else replace(self, buckets=buckets)

    def with_domain(self, domain: Domain | None) -> Attribute:
        """The same attribute, with the candidates of a window; the attribute itself with None."""
        return self if domain is None else replace(self, domain=domain)

    @functools.cached_property
    def sides(self) -> tuple[Attribute, Attribute]:
        """The two attributes of a pair, each with its own channels and the pair's report buckets."""
        assert isinstance(self.domain, Pair)
        halves = []
        for name, domain in zip(self.domain.names, self.domain.sides, strict=True):
            start = f"{name}/"
            versions = tuple(
                replace(version, service=version.service.removeprefix(start))
                for version in self.versions
                if version.service.startswith(start)
            )
            halves.append(Attribute(name, domain, self.buckets, versions))
        return halves[0], halves[1]

    @functools.cached_property
    def services(self) -> tuple[str, ...]:
        """The distinct names of the services, in the study's order."""
        return tuple(dict.fromkeys(version.service for version in self.versions))

    def versions_of(self, services: Sequence[str]) -> tuple[int, ...]:
        """The indexes into ``versions`` of all versions of the given services."""
        return tuple(i for i, version in enumerate(self.versions) if version.service in services)

    def newest(self, service: str) -> int:
        """The index into ``versions`` of the last version of a service."""
        return self.versions_of([service])[-1]

    def mechanisms_of(
        self, services: Sequence[str], kind: type[Any] = Mechanism, problem: str = ""
    ) -> list[Any]:
        """The mechanisms of all versions of the given services, which must be of one kind.

        Args:
            services: the services.
            kind: the class of which each mechanism must be.
            problem: the message about one that is not, after the name of its service.

        Raises:
            ValueError: if a mechanism is of another class.
        """
        versions = [self.versions[index] for index in self.versions_of(services)]
        for version in versions:
            if not isinstance(version.mechanism, kind):
                raise ValueError(f"service {version.label} ({version.mechanism.name}) {problem}")
        return [version.mechanism for version in versions]

    @property
    def remembering(self) -> list[str]:
        """The labels of the channels whose clients remember their noise."""
        return [version.label for version in self.versions if version.lifetime is not None]

    def channel(self, index: int, value_buckets: int | None = None) -> Channel:
        """The channel of ``versions[index]``'s histogram, by default over the value buckets of estimates."""
        return self._channel(index, value_buckets, self.buckets, of_histogram=True)

    def report_channel(self, index: int, resolution: int, value_buckets: int | None = None) -> Channel:
        """The channel of single reports of ``versions[index]``, by default over the same value buckets."""
        return self._channel(index, value_buckets, resolution, of_histogram=False)

    def at_ends(self, index: int, resolution: int | None = None) -> Floats:
        """P(report bucket | value) at the low end of a domain of numbers, and at the high end.

        Args:
            index: the index into ``versions``.
            resolution: the resolution of single reports; None for the histogram.

        Returns:
            An array of shape (report buckets, 2).
        """
        return _at_ends(self.versions[index].mechanism, resolution or self.buckets, resolution is None)

    def _channel(
        self, index: int, value_buckets: int | None, resolution: int, *, of_histogram: bool
    ) -> Channel:
        mechanism, buckets = self.versions[index].mechanism, value_buckets or self.value_buckets
        if values := number_of_values(self.domain):
            at_values = channel_at_values(mechanism, values, resolution, of_histogram=of_histogram)
            return by_bucket(at_values, buckets)
        return (mechanism.histogram_channel if of_histogram else mechanism.channel)(buckets, resolution)

    def stacked_channel(self, indexes: Sequence[int]) -> Channel:
        """The stacked channels of several versions; the rows of the first come first."""
        return stacked([self.channel(index) for index in indexes])

    def joint_resolution(self, index: int) -> int:
        """The resolution of ``versions[index]``'s reports in the joint histogram."""
        return self.joint_buckets if isinstance(self.joint_buckets, int) else self.joint_buckets[index]

    @functools.cached_property
    def joint_shape(self) -> tuple[int, ...]:
        """The length of each joined service's axis in the joint histogram."""
        return tuple(self.axis(service)[-1].end for service in self.joint_services)

    def axis(self, service: str) -> list[OnAxis]:
        """The cells of each version on a joined service's axis of the joint histogram, after "no report"."""
        parts, end = [], 1
        for index in self.versions_of([service]):
            first = end
            end += self.versions[index].mechanism.cells(self.joint_resolution(index))
            parts.append(OnAxis(index, first, end))
        return parts

    @property
    def keeps_rows(self) -> bool:
        """Whether most users are alone in their cell, because the joint histogram has very many cells.

        It then grows with the number of users, and holds what each sent to all joined services.
        """
        return math.prod(self.joint_shape) > MOST_JOINT_CELLS if self.joint_services else False

    @functools.cached_property
    def least_information(self) -> dict[str, float]:
        """The share of each joined channel's information that the joint histogram keeps, by label.

        It is the least share over a few populations (:mod:`ldpbeam.resolution`), before any reports.
        """
        return {
            self.versions[index].label: least_kept(
                self.versions[index].mechanism, self.value_buckets, self.joint_resolution(index)
            )
            for index in self.versions_of(self.joint_services)
        }

    def joint_likelihood(self, service: str, cells: Integers, *, ends: bool = False) -> Floats:
        """P(axis cell | value bucket) for some cells of a joined service's axis.

        The row of cell 0, "no report", has ones: it gives no information about the value.

        Args:
            service: one of ``joint_services``.
            cells: indexes along the service's axis, ascending, shape (n,).
            ends: whether the first and the last value bucket are the ends of a range of numbers.

        Returns:
            An array of shape (n, ``value_buckets``), or (n, ``value_buckets`` + 2) with the ends.
        """
        rows = np.ones((len(cells), self.value_buckets + 2 * ends))
        for index, first, end in self.axis(service):
            of_version = np.flatnonzero((cells >= first) & (cells < end))
            if len(of_version):
                resolution, chosen = self.joint_resolution(index), cells[of_version] - first
                of_cells = self.report_channel(index, resolution).rows(chosen)
                rows[of_version] = (
                    with_ends(of_cells, self.at_ends(index, resolution)[chosen]) if ends else of_cells
                )
        return rows

    @functools.cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, equal for two attributes if their statistics may be merged.

        They are a hash of the domain, the resolutions and every channel, so reports of different epsilons
        never count in one channel.
        """
        description = {
            "name": self.name,
            "domain": _described(self.domain),
            "buckets": self.domain.size if isinstance(self.domain, Categories) else self.buckets,
            "channels": [
                [v.service, v.version, v.mechanism.parameters if v.lifetime is None else v.parameters]
                for v in self.versions
            ],
            "joint": [list(self.joint_services), self.joint_buckets if self.joint_services else 0],
            "group_users": self.group_users,
        }
        canonical = json.dumps(description, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _described(domain: Domain) -> dict[str, Any]:
    """A domain in a fingerprint: without the names of candidates, which change, but with their number."""
    if isinstance(domain, Candidates):
        return {"type": "Candidates", "places": domain.places}
    return {"type": type(domain).__name__, **asdict(domain, dict_factory=_as_given)}


def _as_given(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a domain without a step that it does not have."""
    return {name: value for name, value in fields if value is not None}
