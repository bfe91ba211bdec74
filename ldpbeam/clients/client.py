"""``ldpbeam.Client``: reports from true values, in natural units and names."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute, ServiceVersion
from ldpbeam.clients.arrays import array_of
from ldpbeam.clients.times import event_times_of
from ldpbeam.clients.values import scaled_means, scaled_values
from ldpbeam.domains import Floats, KeyValuePairs, KeyValues
from ldpbeam.mechanisms import SecureUniforms, Uniforms
from ldpbeam.memoised import check_device_key
from ldpbeam.schemas.reports.casts import as_text, cast_column
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.reports.stamps import memo_of
from ldpbeam.schemas.reports.turns import in_turn
from ldpbeam.study import Study
from ldpbeam.times import rfc3339
from ldpbeam.transforms.reports.validation import LONGEST_GROUP, LONGEST_REPORT_ID, LONGEST_USER_ID

#: A report in the form of a file's record.
Report = dict[str, Any]


class Payloads(NamedTuple):
    """Reports of one payload type.

    Attributes:
        versions: the indexes of the service's versions to which people report.
        rows: the people who report, ascending, shape (n,).
        payloads: their reports, shape (n,).
    """

    versions: list[int]
    rows: NDArray[np.int64]
    payloads: NDArray[Any]


class Client:
    """The client of one service: it perturbs a true value into the report that leaves the device.

    A value is a number in the unit of the domain, the name of a category, a dict of a person's keys and
    values, or a person's coordinates. A value outside the domain is refused before anything is drawn, and the
    message says what to do.

    Args:
        study: the study.
        attribute: the attribute of the values.
        service: the service that the reports are for.
        version: the client's version, if a field determines a report's version; by default the first. If time
            does, each report has the version of its event time.
        clip: whether numbers outside the domain are moved to its nearest end instead of being refused.
        rng: None for the operating system's secure source. A ``numpy.random.Generator`` is for tests and
            simulations only: its reports protect nobody.
        means: for PrivKVM from the second round on: each key's mean in the round before.
        device_key: for services with a ``lifetime_epsilon``: 16 random bytes or more, which the device keeps
            and never sends. The client then belongs to one user: permanent answers depend on this key.

    Raises:
        ValueError: if the study has no such attribute, service or version, the mechanism needs means, or
            clients of the service remember their noise and there is no device key of 16 bytes or more.
    """

    def __init__(
        self,
        study: Study,
        attribute: str,
        service: str,
        *,
        version: str | None = None,
        clip: bool = False,
        rng: Uniforms | None = None,
        means: Mapping[str, float] | None = None,
        device_key: bytes | None = None,
    ) -> None:
        _check_known("attribute", attribute, study.attributes)
        self.study = study
        self.attribute = study.attribute(attribute)
        _check_known("service", service, self.attribute.services)
        self.service = service
        self.clip = clip
        self._described = study.attributes[attribute].services[service]
        if version is not None:
            if not self._described.fields:
                raise ValueError(f"version={version!r}: no field tells versions of {service!r} apart")
            _check_known("version", version, self._described.versions)
        self._versions = versions_of_clients(study, self.attribute, service, version)
        self._uniforms = SecureUniforms() if rng is None else rng
        self._device_key = self._checked_key(device_key)
        self._means = self._round_means(means)

    def report(
        self,
        value: Any,
        user_id: str | bytes | None = None,
        *,
        event_time: datetime | str | int | None = None,
        group: str | None = None,
        report_id: str | bytes | None = None,
    ) -> Report:
        """One report, as a record of a file. Send it once; if that fails, send the same report again.

        Args:
            value: the true value; it does not leave this method.
            user_id: the user's id; None for a random id that nobody else has. Reports of an attribute without
                users (``users: none``) have none.
            event_time: the time of the observation, for a study with windows, versions by time or a ledger.
            group: the value of the study's group field, which a study with groups needs; an empty text means
                no group.
            report_id: an id that identifies copies of the report.

        Returns:
            The fields by name. A payload is a float, an int, or bytes (in JSON, write ``payload.hex()``).

        Raises:
            ValueError: if the value is outside the domain, the event time is missing or is not a time, the
                group is not a text, or an id is given for a report without users.
        """
        table = self.reports(
            [value],
            None if user_id is None else [user_id],
            event_times=event_time,
            groups=None if group is None else [group],
            report_ids=None if report_id is None else [report_id],
        )
        (record,) = records_of(table, None if user_id is None else [user_id])
        return {name: cell for name, cell in record.items() if cell is not None}

    def reports(
        self,
        values: Any,
        user_ids: Any = None,
        *,
        event_times: Any = None,
        groups: Any = None,
        report_ids: Any = None,
    ) -> pa.Table:
        """One report per person, as a table for :func:`ldpbeam.estimate` or a Parquet file.

        Args:
            values: the true values of n people: an array, a series or a list of numbers or categories; a list
                of dicts of keys and values; numbers of shape (n, coordinates), or a dict, a table of pandas,
                polars or Arrow, or a list of dicts with the coordinates by name.
            user_ids: n texts, numbers or 16-byte ids; None for random ids. To join several services, give
                every service's client the same ids.
            event_times: the times of the observations, one each or one for all: with a zone, RFC 3339 text,
                or milliseconds since 1970.
            groups: n values of the study's group field, which a study with groups needs; a missing or empty
                one means no group.
            report_ids: n ids that identify copies of a report.

        Returns:
            A table of n rows with the columns ``user_id`` (where reports have users: texts where texts were
            given, otherwise bytes), ``attribute``, ``service``, ``payload``, and those that were given.

        Raises:
            ValueError: if a value is outside the domain, a group is not a text, columns have different
                lengths,
                or the study needs event times and there are none.
        """
        scaled = scaled_values(self.attribute, values, self.clip)
        people = len(scaled)
        times = None if event_times is None else event_times_of(event_times, people)
        if times is None and self.study.needs_time:
            raise ValueError("the study uses event times: give when the values were observed")
        if self.study.panel is not None and user_ids is None:
            raise ValueError("the study has a panel: give user_ids, which say whose turn it is")
        columns: dict[str, pa.Array] = {}
        if self.attribute.has_users:
            given = None if user_ids is None else _column(user_ids, people, "user_ids")
            ids = self._user_ids(given, people)
            if self.study.panel is not None and people and not (turns := self.in_turn(ids, times)).all():
                raise ValueError(
                    f"event time {np.argmin(turns)} is not in this user's turn (the study has a panel): ask "
                    "in_turn before you report"
                )
            columns["user_id"] = given if given is not None and pa.types.is_string(given.type) else ids
        elif user_ids is not None:
            raise ValueError(
                f"reports of {self.attribute.name!r} have no users (users: none): leave user ids out"
            )
        columns["attribute"] = pa.repeat(self.attribute.name, people)
        columns["service"] = pa.repeat(self.service, people)
        if times is not None:
            columns["event_time"] = pa.array(times, pa.timestamp("ms", "UTC"))
        for field, named in self.version_fields.items():
            columns[field] = pa.repeat(named, people)
        if self.study.groups is None and groups is not None:
            raise ValueError("the study has no groups: leave groups out")
        if self.study.groups is not None:
            if groups is None:
                raise ValueError(
                    f"the study has groups, by the field {self.study.groups.field!r} of reports: give each "
                    "report's group, an empty text for none"
                )
            columns[self.study.groups.field] = _groups(_column(groups, people, "groups"))
        if report_ids is not None:
            columns["report_id"] = _column(report_ids, people, "report_ids")
            _check_longest("a report id", cast_column("report_id", columns["report_id"]), LONGEST_REPORT_ID)
        keys = [] if self._device_key is None else [self._device_key] * people
        perturbed = self.payloads(scaled, times, keys)
        used = [part for part in perturbed if len(part.rows)] or perturbed[:1]
        if len(used) > 1:
            raise ValueError(
                f"these event times are of versions of {self.service!r} whose reports have different types: "
                "ask for the reports of one version at a time"
            )
        if len(used[0].rows) < people:
            row = int(np.setdiff1d(np.arange(people), used[0].rows)[0])
            raise ValueError(f"no version of {self.service!r} has event time {row}")
        columns["payload"] = payload_column(used[0].payloads)
        return pa.table(columns)

    @property
    def version_fields(self) -> dict[str, str]:
        """The fields that determine the client's version, and their values; empty if there are none."""
        if not self._described.fields:
            return {}
        (version,) = self._versions.values()
        texts = self._described.versions[version.version].texts
        return {field: values[0] for field, values in texts.items()}

    def payloads(
        self,
        scaled: NDArray[Any] | KeyValuePairs,
        times: NDArray[np.int64] | None,
        device_keys: Sequence[bytes],
    ) -> list[Payloads]:
        """Perturb checked and scaled values, each for the version of its time.

        Args:
            scaled: the values of n people as mechanisms take them.
            times: event times in epoch milliseconds, shape (n,); None if the study needs none.
            device_keys: the key of each person's device, n values, if clients remember their noise.

        Returns:
            The reports of each payload type that the service has, without those whose time belongs to no
            version.
        """
        by_type: dict[np.dtype[Any], list[tuple[int, NDArray[np.int64], NDArray[Any]]]] = {}
        for index, rows in self._rows(len(scaled), times):
            version = self._versions[index]
            values = scaled[rows]
            if version.lifetime is None:
                payloads = version.mechanism.perturb_with(values, self._means, self._uniforms)
            else:
                assert not isinstance(values, KeyValuePairs)
                keys = [device_keys[row] for row in rows.tolist()]
                payloads = memo_of(self.study, self.attribute, index).perturb(keys, values, self._uniforms)
            by_type.setdefault(payloads.dtype, []).append((index, rows, payloads))
        parts = []
        for alike in by_type.values():
            rows = np.concatenate([rows for _, rows, _ in alike])
            order = np.argsort(rows)
            versions = [index for index, rows, _ in alike if len(rows)]
            parts.append(Payloads(versions, rows[order], np.concatenate([p for _, _, p in alike])[order]))
        return parts

    def _rows(self, people: int, times: NDArray[np.int64] | None) -> list[tuple[int, NDArray[np.int64]]]:
        """(index of a version, the people who report to it) for each version."""
        if not self._described.by_time:
            (index,) = self._versions
            return [(index, np.arange(people))]
        assert times is not None
        spans = {index: self._described.versions[v.version].span for index, v in self._versions.items()}
        return [(index, np.flatnonzero(~span.outside(times))) for index, span in spans.items()]

    def in_turn(self, user_ids: Any, event_times: Any) -> NDArray[np.bool_]:
        """Whether each user answers at a time; everybody does if the study has no panel.

        Args:
            user_ids: n texts, numbers or 16-byte ids.
            event_times: one time each or one for all, as for :meth:`reports`.

        Returns:
            An array of shape (n,).
        """
        users = cast_column("user_id", _column(user_ids, len(user_ids), "user_ids"))
        if self.study.panel is None:
            return np.ones(len(users), dtype=np.bool_)
        times = event_times_of(event_times, len(users))
        return in_turn(self.study.panel, self.attribute.name, users, times)

    def _checked_key(self, device_key: bytes | None) -> bytes | None:
        """The device key; None if no version that the client reports to needs one."""
        remembers = any(version.lifetime is not None for version in self._versions.values())
        if remembers and device_key is None:
            raise ValueError(
                f"service {self.service!r}: its clients remember their noise (lifetime_epsilon): give "
                "device_key, 16 random bytes or more that the device keeps"
            )
        if not remembers and device_key is not None:
            raise ValueError(
                f"service {self.service!r}: device_key is for services with a lifetime_epsilon: leave it out"
            )
        return check_device_key(device_key) if remembers else None

    def _round_means(self, means: Mapping[str, float] | None) -> Floats | None:
        later = [v.mechanism for v in self._versions.values() if v.mechanism.round > 1]
        if later and means is None:
            raise ValueError(
                f"round {later[0].round} of {later[0].name} needs the means of the round before: estimate "
                "it, and give means={key: mean}"
            )
        if means is None:
            return None
        if not later:
            raise ValueError("means are for privkvm from its second round on: leave them out")
        assert isinstance(self.attribute.domain, KeyValues)
        return scaled_means(self.attribute.domain, means)

    def _user_ids(self, given: pa.Array | None, people: int) -> pa.Array:
        """User ids as bytes, n values; random ones if none are given.

        Raises:
            ValueError: if one is missing or too long, or there are several for one device key.
        """
        if given is None:
            if self._device_key is not None and people > 1:
                raise ValueError("a device key is of one user: give user_ids, the same id for each report")
            return payload_column(random_ids(people, self._uniforms)).cast(pa.binary())
        ids = cast_column("user_id", given)
        if self._device_key is not None and people > 1 and len(ids.unique()) > 1:
            raise ValueError(
                "a device key is of one user, and user_ids names several: make a client for each"
            )
        if ids.null_count:
            raise ValueError(
                f"user id {ids.is_null().index(True).as_py()} is missing: every report needs one"
            )
        _check_longest("a user id", ids, LONGEST_USER_ID)
        return ids


def versions_of_clients(
    study: Study, attribute: Attribute, service: str, version: str | None = None
) -> dict[int, ServiceVersion]:
    """The versions of a service to which its clients report, by index: the one that a field names, or all.

    Args:
        study: the study.
        attribute: the attribute.
        service: one of its services.
        version: a version, if a field determines it; None for the first.
    """
    described = study.attributes[attribute.name].services[service]
    named = (version or next(iter(described.versions))) if described.fields else None
    versions = {index: attribute.versions[index] for index in attribute.versions_of([service])}
    return {index: candidate for index, candidate in versions.items() if named in (None, candidate.version)}


def records_of(table: pa.Table, users: Sequence[Any] | None = None) -> list[Report]:
    """Reports as records of JSON lines; payloads are numbers or bytes.

    Args:
        table: the reports; event times are milliseconds since 1970, or have that type.
        users: the user ids in their original form; None for those of the table, with 16 bytes as a UUID.
    """
    columns = table.to_pydict()
    if "user_id" in columns:
        columns["user_id"] = users or [
            str(uuid.UUID(bytes=user)) if isinstance(user, bytes) else user for user in columns["user_id"]
        ]
    if "event_time" in columns:
        columns["event_time"] = list(map(rfc3339, table.column("event_time").cast(pa.int64()).to_pylist()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def random_ids(people: int, uniforms: Uniforms) -> NDArray[Any]:
    """Random user ids of 16 bytes, shape (people,)."""
    # One draw gives 48 random bits and more: three draws fill 16 bytes.
    words = (uniforms.random(3 * people).reshape(-1, 3) * 2**48).astype("<u8").view("<u2").reshape(-1, 12)
    return np.ascontiguousarray(words[:, [0, 1, 2, 4, 5, 6, 8, 9]]).view("V16").ravel()


def _column(values: Any, people: int, name: str) -> pa.Array:
    """Values as an Arrow array of n values.

    Raises:
        ValueError: if there are not as many as people, or they are not of one type.
    """
    if isinstance(values, str | bytes):
        raise ValueError(f"{name} is one text for {people:,} values: give one for each")
    column = array_of(values)
    if column is None:
        raise ValueError(
            f"{name} are not values of one type: give a list of texts that UTF-8 can write, or of numbers of "
            "64 bits"
        )
    if len(column) != people:
        raise ValueError(f"{len(column):,} {name} for {people:,} values: give one each")
    return column


def _groups(given: pa.Array) -> pa.Array:
    """Groups as texts; a missing one and an empty text are none.

    Raises:
        ValueError: if one is given that is no text, or is too long.
    """
    groups = as_text(given)
    row = pc.and_(groups.is_null(), given.is_valid()).index(True).as_py()
    if row >= 0:
        raise ValueError(
            f"group {row} is {type(given[row].as_py()).__name__}: give a text, which is empty for no group"
        )
    _check_longest("a group", groups, LONGEST_GROUP)
    return cast_column("group", groups)


def _check_longest(what: str, texts: pa.Array, most: int) -> None:
    """Check that no text is too long for the readers of reports.

    Raises:
        ValueError: if one has more than ``most`` bytes.
    """
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > most:
        raise ValueError(f"{what} has at most {most} bytes; one has {longest:,}")


def _check_known(what: str, name: str, known: Iterable[str]) -> None:
    names: Sequence[str] = list(known)
    if name not in names:
        raise ValueError(f"{what} {name!r} is not in the study; there are: {', '.join(names)}")
