"""Validation: decoded batches become batches of one channel, and invalid reports become dead letters.

Pure functions over batches; :mod:`ldpbeam.transforms.statistics` is the Beam transform.
"""

from __future__ import annotations

import hmac
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpbeam.attributes import Attribute
from ldpbeam.errors import meant_or_known
from ldpbeam.schemas.reports import event_times, fields, stamps
from ldpbeam.schemas.reports.casts import UNREADABLE, as_numbers, binary_of_width, is_null, without_offsets
from ldpbeam.schemas.reports.columns import (
    DELIVERY,
    LETTERS_KEY,
    MEANT_KEY,
    STAMP_KEYS,
    Columns,
    text_of,
    with_most_letters,
)
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.reports.turns import in_turn
from ldpbeam.spent import services_of
from ldpbeam.study import Service, Study
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.counts import CHECKED, IN, MEANT, OUT_OF_RANGE, REFUSED
from ldpbeam.transforms.reports.dead_letters import CODE, OF_PAYLOADS, PLAIN, Disclosure
from ldpbeam.transforms.reports.ledger_rows import received_rows
from ldpbeam.transforms.reports.payloads import checked_payloads, each_attribute
from ldpbeam.transforms.reports.refused import MOST_LISTED, refused
from ldpbeam.windows import EVERYTHING, FAR, Span

#: The most bytes of the texts of a report that are keys or reach an output: its user id, its report id, and
#: its value of the study's group field. One user id of a megabyte would make every row of its batch as wide,
#: and a group stands in every row of a table.
LONGEST_USER_ID = LONGEST_REPORT_ID = LONGEST_GROUP = 256

#: The most reports of records that are validated at once.
MOST_REPORTS = 2**19

_RowsBy = dict[str | None, NDArray[np.bool_]]
_CODES_OF_PAYLOADS = [CODE[reason] for reason in OF_PAYLOADS]


def wanted_columns(
    study: Study,
    attribute: str | None,
    service: str | None,
    *,
    whole: bool = False,
    renamed: Mapping[str, str] | None = None,
) -> Columns:
    """The columns that a study needs.

    Args:
        study: the study.
        attribute: the attribute of reports that do not name one; None for the study's, if it has only one.
        service: the service of reports that do not name one; None for the study's, if it has only one.
        whole: whether dead letters will hold whole records.
        renamed: the field of the input that has a column, by the column's name, where they differ.

    Raises:
        ValueError: if ``renamed`` cannot be, or whole records would hold user ids that are not to be kept.
    """
    without = study.without_users
    if without and "user_id" in (renamed or {}).values():
        raise ValueError(
            f"the field 'user_id' is not read, because reports of {without[0]!r} have no users (users: none)"
        )
    extras = [study.groups.field] if study.groups else []
    for model in study.attributes.values():
        extras += [field for service_model in model.services.values() for field in service_model.fields]
    users = tuple(name for name in study.attributes if name not in without) if without else None
    lists = [described.place[0] for described in study.attributes.values() if described.place]
    if lists:
        renamed = {"payload": lists[0], **(renamed or {})}
    if lists or len(study.attributes) == 1:
        attribute = attribute or next(iter(study.attributes))
    services = _services(study)
    service = service or (services[0] if len(services) == 1 else None)
    columns = Columns(attribute, service, tuple(dict.fromkeys(extras)), study.needs_time, whole, users=users)
    return replace(columns, renamed=fields.check(renamed or {}, columns.names), clock=study.local)


def checked_columns(
    study: Study,
    attribute: str | None,
    service: str | None,
    *,
    whole: bool = False,
    renamed: Mapping[str, str] | None = None,
    options: bool = False,
) -> Columns:
    """:func:`wanted_columns` for arguments of a function, or options: messages name them.

    Raises:
        ValueError: if the study has no such attribute or service, or ``renamed`` cannot be.
    """
    for what, given, known in (
        ("attribute", attribute, list(study.attributes)),
        ("service", service, _services(study)),
    ):
        if given is not None and given not in known:
            named = f"--{what} {given}" if options else f"{what}={given!r}"
            raise ValueError(f"{named}: the study has no such {what}; {meant_or_known(given, known)}")
    try:
        return wanted_columns(study, attribute, service, whole=whole, renamed=renamed)
    except ValueError as error:
        raise ValueError(f"{'--column' if options else 'columns'}: {error}") from None


def _services(study: Study) -> list[str]:
    return sorted({name for described in study.attributes.values() for name in described.services})


class Validated(NamedTuple):
    """The result of the validation of a decoded batch.

    Attributes:
        reports: batches of one channel, with the valid reports.
        letters: a dead letter for each report that is not valid, in batches of the schema
            :data:`~ldpbeam.transforms.reports.dead_letters.LETTERS` that are made as they are asked for; so
            they are read once.
        counts: valid reports outside the span, which were dropped; payloads that were checked, and refused,
            by service; and reports without a group whose field has probably another name.
        received: the rows of the ledger over periods, of all valid reports; empty without its key.
    """

    reports: list[pa.RecordBatch]
    letters: Iterator[pa.RecordBatch]
    counts: Counter[str]
    received: list[pa.RecordBatch]


class Validation:
    """Checks decoded batches of a study.

    Reports outside the span are dropped. If the study compares report ids, reports with an id pass: one may
    make a report inside the span a duplicate, and they are dropped after duplicates are.

    With the key of a ledger over periods, each valid report has a row there, wherever it lies.
    """

    def __init__(
        self,
        study: Study,
        span: Span = EVERYTHING,
        disclosure: Disclosure = PLAIN,
        ledger_key: bytes | None = None,
    ) -> None:
        self.study = study
        self.span = span
        self.key = disclosure.user_id_key
        self.ledger_key = ledger_key
        self.ledger_places = {pair: index for index, pair in enumerate(services_of(study))}
        self.services = sorted({s for model in study.attributes.values() for s in model.services})
        self.misnamed: set[str] = set()
        self.needs_time = study.needs_time or span.bounded
        self.old_times = -FAR < span.start < event_times.YEAR_1990

    def in_parts(self, batch: pa.RecordBatch) -> Iterator[Validated]:
        """:meth:`validate` for some records after the other, each of which may be many reports."""
        reports = sum(of.place is not None for of in self.study.attributes.values()) or 1
        for start in range(0, batch.num_rows, most := max(1, MOST_REPORTS // reports)):
            part = batch.slice(start, most)
            size = (batch.schema.metadata or {}).get(LETTERS_KEY.encode())
            yield self.validate(part if size is None else with_most_letters(part, batch.num_rows, int(size)))

    def validate(self, batch: pa.RecordBatch) -> Validated:
        """Sort the reports of a decoded batch into batches of one channel, and dead letters."""
        records = batch.num_rows
        batch = each_attribute(batch, self.study)
        batches: list[pa.RecordBatch] = []
        received: list[pa.RecordBatch] = []
        by_attribute = rows_by(batch, "attribute", list(self.study.attributes))
        by_service = rows_by(batch, "service", self.services)
        reasons = self._common_reasons(batch, by_attribute, by_service)
        metadata = batch.schema.metadata or {}
        stamp = {key: metadata[key.encode()].decode() for key in STAMP_KEYS if key.encode() in metadata}
        counts = self._misnamed(batch)
        counts[IN] += batch.num_rows - records
        for name, in_attribute in by_attribute.items():
            if name is None or name not in self.study.attributes:
                continue
            attribute = self.study.attribute(name)
            for service, in_service in by_service.items():
                model = self.study.attributes[name].services.get(service or "")
                if service is None or model is None:
                    continue
                unclaimed = in_attribute & in_service & (reasons == 0)
                for index, rows in _by_version(attribute, service, model, batch, unclaimed):
                    every = slice(None) if len(rows) == batch.num_rows else rows
                    unclaimed[every] = False
                    if stamp and len(rows) and stamps.differences(stamp, attribute, index):
                        reasons[every] = CODE["other_stamp"]
                        continue
                    mechanism = attribute.versions[index].mechanism
                    payloads, problems = checked_payloads(mechanism, batch, rows, model.payload)
                    reasons[every] = problems
                    good = problems == 0
                    counts[f"{CHECKED}{name}/{service}"] += len(rows)
                    of_payloads = np.isin(problems[~good], _CODES_OF_PAYLOADS)
                    counts[f"{REFUSED}{name}/{service}"] += int(np.count_nonzero(of_payloads))
                    valid, users = good, None
                    if self.ledger_key is not None and good.any():
                        users = _keyed(batch.column("user_id").take(pa.array(rows[good])), self.ledger_key)
                        ledger_place = self.ledger_places[name, index]
                        received.append(
                            self._received(batch, rows[good], users, ledger_place, payloads[good])
                        )
                    if self.study.panel is not None:
                        chosen = pa.array(rows)
                        times = batch.column("event_time").take(chosen).to_numpy(zero_copy_only=False)
                        turn = in_turn(self.study.panel, name, batch.column("user_id").take(chosen), times)
                        reasons[rows[good & ~turn]] = CODE["out_of_turn"]
                        good = good & turn
                    kept = good & ~self._left_out(batch, rows)
                    left = int(np.count_nonzero(kept))
                    counts[OUT_OF_RANGE] += int(np.count_nonzero(good)) - left
                    if left:
                        same_key = users is not None and self.key == self.ledger_key
                        hidden = users[kept[valid]] if users is not None and same_key else None
                        if left < len(rows):
                            rows, payloads = rows[kept], payloads[kept]
                        reports = self._reports(batch, attribute, rows, payloads, hidden)
                        batches.append(tagged(reports, name, index, batch.schema.metadata))
                reasons[unclaimed] = CODE["unknown_channel" if model.of_records else "unknown_version"]
        return Validated(batches, refused(self.study, batch, reasons), +counts, received)

    def _misnamed(self, batch: pa.RecordBatch) -> Counter[str]:
        """The reports of a batch without the field of groups, if another name probably means it."""
        metadata = text_of(batch.schema.metadata)
        field = self.study.groups.field if self.study.groups else ""
        if not field or field in batch.schema.names:
            return Counter()
        meant = json.loads(metadata.get(MEANT_KEY, "{}")).get(field)
        in_path = f"/{field}=" in "/" + metadata.get("file", "")
        name = f"{field}=" if in_path and meant is None else meant
        # Other names than the first are one: a client can send any number.
        if name is None or len(self.misnamed | {name}) > MOST_LISTED:
            return Counter()
        self.misnamed.add(name)
        return Counter({MEANT + name: batch.num_rows})

    def _common_reasons(
        self, batch: pa.RecordBatch, by_attribute: _RowsBy, by_service: _RowsBy
    ) -> NDArray[np.int8]:
        """The code of each row's reason before its payload is checked, shape (rows,); 0 if there is none."""
        reasons = np.zeros(batch.num_rows, dtype=np.int8)

        def refuse(rows: NDArray[np.bool_], reason: str) -> None:
            if rows.any():
                reasons[rows & (reasons == 0)] = CODE[reason]

        if "user_id" in batch.schema.names:
            without = is_null(batch.column("user_id"))
            if self.study.without_users:
                have = set(self.study.attributes).difference(self.study.without_users)
                of_users = [rows for name, rows in by_attribute.items() if name in have]
                without &= np.logical_or.reduce([np.zeros_like(without), *of_users])
            refuse(without, "no_user_id")
            refuse(_is_longer(batch, "user_id", LONGEST_USER_ID), "user_id_too_long")
        refuse(_is_longer(batch, "report_id", LONGEST_REPORT_ID), "report_id_too_long")
        if self.study.groups:
            field = self.study.groups.field
            refuse(_is_longer(batch, field, LONGEST_GROUP), "group_too_long")
            if field in batch.schema.names:
                refuse(_is_in(batch.column(field), [UNREADABLE]), "group_unreadable")
        for name, in_attribute in by_attribute.items():
            model = self.study.attributes.get(name) if name is not None else None
            if model is None:
                refuse(in_attribute, "no_attribute" if name is None else "unknown_attribute")
                continue
            for service, in_service in by_service.items():
                if service is None or service not in model.services:
                    reason = "no_service" if service is None else "unknown_service"
                    refuse(in_attribute & in_service, reason)
        if self.needs_time:
            refuse(is_null(batch.column("event_time")), "no_event_time")
            problems = event_times.problems(_times(batch.column("event_time")), old=self.old_times)
            for code in np.unique(problems[problems > 0]):
                refuse(problems == code, event_times.PROBLEMS[code - 1][0])
        return reasons

    def _left_out(self, batch: pa.RecordBatch, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which valid rows lie outside the span and are not needed to find duplicates, shape (rows,)."""
        if not self.span.bounded:
            return np.zeros(len(rows), dtype=np.bool_)
        outside = self.span.outside(batch.column("event_time").to_numpy(zero_copy_only=False)[rows])
        if self.study.duplicates == "drop" and "report_id" in batch.schema.names:
            outside &= is_null(batch.column("report_id"))[rows]
        return outside

    def _received(
        self,
        batch: pa.RecordBatch,
        rows: NDArray[np.int64],
        users: NDArray[np.uint8],
        service: int,
        payloads: NDArray[Any],
    ) -> pa.RecordBatch:
        assert self.ledger_key is not None
        times = batch.column("event_time").to_numpy(zero_copy_only=False)[rows].astype(np.int64)
        ids = batch.column("report_id").take(pa.array(rows)) if "report_id" in batch.schema.names else None
        return received_rows(self.study, self.ledger_key, users, times, ids, service, payloads)

    def _reports(
        self,
        batch: pa.RecordBatch,
        attribute: Attribute,
        rows: NDArray[np.int64],
        payloads: NDArray[Any],
        hidden: NDArray[np.uint8] | None,
    ) -> pa.RecordBatch:
        """The reports in some rows; ``hidden`` are their keyed users, where the ledger has made them."""
        every = len(rows) == batch.num_rows
        chosen = pa.array(rows)

        def column(name: str) -> pa.Array:
            return batch.column(name) if every else batch.column(name).take(chosen)

        columns: dict[str, pa.Array] = {}
        # Where no report is compared with another, nothing reads who sent it, and which report it is.
        compared = self.study.duplicates == "drop"
        if attribute.has_users and compared:
            columns["user"] = users = column("user_id")
            if self.key is not None:
                columns["user"] = binary_of_width(_keyed(users, self.key) if hidden is None else hidden)
            columns["user"] = without_offsets(columns["user"])
        columns["event_time"] = pa.array(_times(column("event_time")))
        columns["payload"] = payload_column(payloads)
        for name in ("report_id", DELIVERY):
            if compared and name in batch.schema.names:
                ids = column(name)
                if ids.null_count < len(ids):
                    columns[name] = ids
        if self.study.groups and self.study.groups.field in batch.schema.names:
            columns["group"] = column(self.study.groups.field)
        return pa.RecordBatch.from_pydict(columns)


def _times(column: pa.Array) -> NDArray[np.int64]:
    """Event times, shape (n,); 0 where there is none."""
    times: NDArray[np.int64] = (pc.fill_null(column, 0) if column.null_count else column).to_numpy()
    return times


def _is_longer(batch: pa.RecordBatch, name: str, most: int) -> NDArray[np.bool_]:
    """Which rows have more than ``most`` bytes in a column, shape (rows,); none without such a column."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, dtype=np.bool_)
    longer: NDArray[np.bool_] = _times(pc.binary_length(batch.column(name))) > most
    return longer


def rows_by(batch: pa.RecordBatch, name: str, known: Sequence[str]) -> _RowsBy:
    """A mask of rows for each known value of a column, or of the constant that replaces the column.

    Rows without a value are under None. Rows with an unknown value are under the empty text, which is no
    name: so the number of masks does not grow with the values that a broken client sends.
    """
    if name not in batch.schema.names:
        constant = (batch.schema.metadata or {}).get(name.encode(), b"").decode() or None
        every = np.ones(batch.num_rows, dtype=np.bool_)
        return {constant if constant is None or constant in known else "": every}
    column = batch.column(name)
    places = pc.fill_null(pc.index_in(column, value_set=pa.array(known, pa.string())), -1).to_numpy()
    rows_by: _RowsBy = {value: places == code for code, value in enumerate(known)}
    missing = is_null(column)
    rows_by |= {"": (places < 0) & ~missing, None: missing}
    return {value: rows for value, rows in rows_by.items() if rows.any()}


def _by_version(
    attribute: Attribute,
    service: str,
    model: Service,
    batch: pa.RecordBatch,
    chosen: NDArray[np.bool_],
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """(index of a version, the chosen rows that belong to it) for each version of a service."""
    indexes = attribute.versions_of([service])
    if not model.versions:
        yield indexes[0], np.flatnonzero(chosen)
        return
    missing = pa.nulls(batch.num_rows, pa.string())
    fields = {name: batch.column(name) if name in batch.schema.names else missing for name in model.fields}
    if model.of_records:
        fields = {name: as_numbers(column) for name, column in fields.items()}
    for index in indexes:
        version = model.versions[attribute.versions[index].version]
        recognised = chosen
        for field, values in version.fields.items():
            recognised = recognised & _is_in(fields[field], values)
        if model.by_time:
            outside = version.span.outside(batch.column("event_time").to_numpy(zero_copy_only=False))
            recognised = recognised & ~outside
        yield index, np.flatnonzero(recognised)


def _is_in(column: pa.Array, values: Sequence[str | float]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = pc.is_in(column, value_set=pa.array(values)).to_numpy(zero_copy_only=False)
    return known


def _keyed(users: pa.Array, key: bytes) -> NDArray[np.uint8]:
    """The first 128 bits of the HMAC-SHA-256 of each user id, shape (n, 16)."""
    encoded = users.dictionary_encode()
    digests = [hmac.digest(key, user, "sha256")[:16] for user in encoded.dictionary.to_pylist()]
    table = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 16)
    digests_of: NDArray[np.uint8] = table[encoded.indices.to_numpy()]
    return digests_of
