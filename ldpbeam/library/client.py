"""``ldpbeam.Client``: reports from true values, in natural units and names."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.domains import Floats, KeyValuePairs, KeyValues
from ldpbeam.library.arrays import array_of
from ldpbeam.library.times import event_times_of
from ldpbeam.library.values import scaled_means, scaled_values
from ldpbeam.mechanisms import SecureUniforms, Uniforms
from ldpbeam.memoised import check_device_key
from ldpbeam.schemas.reports.casts import as_text, cast_column
from ldpbeam.schemas.reports.memos import memo_of
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.reports.turns import in_turn
from ldpbeam.study import Study
from ldpbeam.times import rfc3339
from ldpbeam.transforms.reports.validation import LONGEST_GROUP, LONGEST_REPORT_ID, LONGEST_USER_ID

#: A report in the form of a file's record.
Report = dict[str, Any]


class Client:
    """The client of one service: it perturbs a true value into the report that leaves the device.

    A value is a number in the unit of the domain, the name of a category, a dict of a person's keys and
    values, or a person's coordinates. Values outside the domain are refused, with a sentence that says what
    to do, before anything is drawn.

    Args:
        study: the study.
        attribute: the attribute that the values are of.
        service: the service that the reports are for.
        version: the client's version, where the service's versions are told apart by a field; by default the
            first. Where time tells them apart, each report's event time says its version.
        clip: whether numbers outside the domain are moved to its nearest end instead of being refused.
        rng: None for the operating system's secure source. A ``numpy.random.Generator`` is for tests and
            simulations only: its reports protect nobody.
        means: for PrivKVM from the second round on: each key's mean in the round before.
        device_key: for services with a ``lifetime_epsilon``: 16 random bytes or more, which the device keeps
            and never sends. The client is then of one user: the permanent answers follow from this key.

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
        self._indexes = self.attribute.versions_of([service])
        self._uniforms = SecureUniforms() if rng is None else rng
        self._version = self._own_version(version)
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
        """One report, as a record of a file. Send it once, and the same one again if sending failed.

        Args:
            value: the true value; it does not leave this method.
            user_id: who reports; None for a random id that nobody else has.
            event_time: when the value was observed; a study with windows, versions by time or a ledger
                needs it.
            group: the value of the study's group field.
            report_id: an id by which copies of the report are recognised.

        Returns:
            The fields by name. A payload is a float, an int, or bytes (in JSON, write ``payload.hex()``).

        Raises:
            ValueError: if the value is outside the domain, the event time is missing or no time, or the
                group is no text.
        """
        table = self.reports(
            [value],
            None if user_id is None else [user_id],
            event_times=event_time,
            groups=None if group is None else [group],
            report_ids=None if report_id is None else [report_id],
        )
        (record,) = table.to_pylist()
        record["user_id"] = str(uuid.UUID(bytes=record["user_id"])) if user_id is None else user_id
        if "event_time" in record:
            record["event_time"] = rfc3339(table.column("event_time").cast(pa.int64())[0].as_py())
        return {name: own for name, own in record.items() if own is not None}

    def reports(
        self,
        values: Any,
        user_ids: Any = None,
        *,
        event_times: Any = None,
        groups: Any = None,
        report_ids: Any = None,
    ) -> pa.Table:
        """One report per person, as a table that :func:`ldpbeam.estimate` and Parquet files take.

        Args:
            values: the true values of n people: an array, a series or a list of numbers or categories; a list
                of dicts of keys and values; numbers of shape (n, coordinates), or a dict, a table of pandas,
                polars or Arrow, or a list of dicts with the coordinates by name.
            user_ids: n texts, numbers or 16-byte ids; None for random ids. To join several services, give
                every service's client the same ids.
            event_times: when the values were observed, one time each or one for all: with a zone, RFC 3339
                text, or milliseconds since 1970.
            groups: n values of the study's group field; None and an empty text are no group.
            report_ids: n ids by which copies of a report are recognised.

        Returns:
            A table of n rows with the columns ``user_id``, ``attribute``, ``service``, ``payload``, and those
            that were given.

        Raises:
            ValueError: if a value is outside the domain, a group is no text, columns have different lengths,
                or the study needs event times and there are none.
        """
        scaled = scaled_values(self.attribute, values, self.clip)
        people = scaled.people if isinstance(scaled, KeyValuePairs) else len(scaled)
        times = None if event_times is None else event_times_of(event_times, people)
        if times is None and self.study.needs_time:
            raise ValueError("the study looks at event times: give when the values were observed")
        if self.study.panel is not None and user_ids is None:
            raise ValueError("the study has a panel: give user_ids, which say whose turn it is")
        users = self._user_ids(user_ids, people)
        self._check_turns(users, times)
        columns = {
            "user_id": users,
            "attribute": pa.repeat(self.attribute.name, people),
            "service": pa.repeat(self.service, people),
        }
        if times is not None:
            columns["event_time"] = pa.array(times, pa.timestamp("ms", "UTC"))
        if self._version is not None and self._described.version_field:
            named = self._described.versions[self._version].values[0]
            columns[self._described.version_field] = pa.repeat(named, people)
        if groups is not None:
            if self.study.groups is None:
                raise ValueError("the study has no groups: leave groups out")
            columns[self.study.groups.field] = _groups(_column(groups, people, "groups"))
        if report_ids is not None:
            columns["report_id"] = _column(report_ids, people, "report_ids")
            _check_longest("a report id", cast_column("report_id", columns["report_id"]), LONGEST_REPORT_ID)
        columns["payload"] = payload_column(self._payloads(scaled, people, times))
        return pa.table(columns)

    def in_turn(self, user_ids: Any, event_times: Any) -> NDArray[np.bool_]:
        """Which users answer at a time; everybody does if the study has no panel.

        Args:
            user_ids: n texts, numbers or 16-byte ids.
            event_times: one time each or one for all, as of :meth:`reports`.

        Returns:
            Shape (n,).
        """
        users = cast_column("user_id", _column(user_ids, len(user_ids), "user_ids"))
        if self.study.panel is None:
            return np.ones(len(users), dtype=np.bool_)
        times = event_times_of(event_times, len(users))
        return in_turn(self.study.panel, self.attribute.name, users, times)

    def _check_turns(self, users: pa.Array, times: NDArray[np.int64] | None) -> None:
        """Check that nobody answers in a window which the study's panel leaves out.

        Raises:
            ValueError: if somebody does.
        """
        panel = self.study.panel
        if panel is None or not len(users):
            return
        assert times is not None
        others = np.flatnonzero(~in_turn(panel, self.attribute.name, users, times))
        if not len(others):
            return
        raise ValueError(
            f"event time {others[0]} is not in this user's turn (the study has a panel): ask in_turn before "
            "you report"
        )

    def _own_version(self, version: str | None) -> str | None:
        """The version that every report is of; None if there are none, or time tells."""
        described = self._described
        if described.version_field is None:
            if version is not None:
                raise ValueError(f"version={version!r}: no field tells versions of {self.service!r} apart")
            return None
        if version is not None:
            _check_known("version", version, described.versions)
        return version or next(iter(described.versions))

    def _checked_key(self, device_key: bytes | None) -> bytes | None:
        """The device key; None if no version that the client reports to needs one."""
        versions = [self.attribute.versions[index] for index in self._indexes]
        remembers = any(
            known.lifetime is not None for known in versions if self._version in (None, known.version)
        )
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
        mechanisms = [self.attribute.versions[index].mechanism for index in self._indexes]
        later = [mechanism for mechanism in mechanisms if mechanism.round > 1]
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

    def _payloads(
        self, scaled: NDArray[Any] | KeyValuePairs, people: int, times: NDArray[np.int64] | None
    ) -> NDArray[Any]:
        """The perturbed values, shape (people,)."""
        parts = self._versions(people, times)
        kinds = {self.attribute.versions[index].mechanism.payload_dtype for index, _ in parts}
        if len(kinds) > 1:
            raise ValueError(
                f"these event times are of versions of {self.service!r} whose reports have different types: "
                "ask for the reports of one version at a time"
            )
        payloads = np.zeros(people, dtype=next(iter(kinds)))
        for index, rows in parts:
            of_rows = scaled.chosen(rows) if isinstance(scaled, KeyValuePairs) else scaled[rows]
            if self.attribute.versions[index].lifetime is not None:
                assert self._device_key is not None and not isinstance(of_rows, KeyValuePairs)
                memo = memo_of(self.study, self.attribute, index)
                payloads[rows] = memo.perturb([self._device_key] * len(rows), of_rows, self._uniforms)
                continue
            mechanism = self.attribute.versions[index].mechanism
            payloads[rows] = mechanism.perturb_with(of_rows, self._means, self._uniforms)
        return payloads

    def _versions(self, people: int, times: NDArray[np.int64] | None) -> list[tuple[int, NDArray[np.int64]]]:
        """(index of a version, the people who report to it) for each version in use.

        Raises:
            ValueError: if a time is of no version.
        """
        everyone = np.arange(people)
        if not self._described.by_time:
            named = [i for i in self._indexes if self.attribute.versions[i].version == (self._version or "")]
            return [(named[0], everyone)]
        assert times is not None
        spans = {
            index: self._described.versions[self.attribute.versions[index].version].span
            for index in self._indexes
        }
        parts = [(index, np.flatnonzero(~span.outside(times))) for index, span in spans.items()]
        claimed = np.zeros(people, dtype=np.bool_)
        for _, rows in parts:
            claimed[rows] = True
        if not claimed.all():
            raise ValueError(f"no version of {self.service!r} has event time {np.argmin(claimed)}")
        return [(index, rows) for index, rows in parts if len(rows)] or [(self._indexes[0], everyone)]

    def _user_ids(self, given: Any, people: int) -> pa.Array:
        """User ids as bytes, n values.

        Raises:
            ValueError: if there are not as many as people, or one is missing or too long.
        """
        if given is None:
            if self._device_key is not None and people > 1:
                raise ValueError("a device key is of one user: give user_ids, the same id for each report")
            # One draw gives 48 random bits and more: three draws fill 16 bytes.
            draws = self._uniforms.random(3 * people).reshape(-1, 3)
            words = (draws * 2**48).astype("<u8").view("<u2").reshape(-1, 12)[:, [0, 1, 2, 4, 5, 6, 8, 9]]
            return payload_column(np.ascontiguousarray(words).view("V16").ravel()).cast(pa.binary())
        ids = cast_column("user_id", _column(given, people, "user_ids"))
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


def _column(values: Any, people: int, name: str) -> pa.Array:
    """Values as an Arrow array of n values.

    Raises:
        ValueError: if there are not as many as people, or they are not of one type.
    """
    if isinstance(values, str | bytes):
        raise ValueError(f"{name} is one text for {people:,} values: give one each")
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
            f"group {row} is {type(given[row].as_py()).__name__}: give a text, or None for no group"
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
