"""``values | Perturb(study, service)``: the clients of one service, in a pipeline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.beam.elements import fields_of, milliseconds_of
from ldpbeam.clients.client import Client, records_of
from ldpbeam.library.study import study_of
from ldpbeam.study import Study
from ldpbeam.transforms.reports.validation import checked_columns

#: Values are gathered until there are this many, or the bundle ends.
GATHERED_VALUES = 10_000


class Perturb(beam.PTransform):
    """Perturb true values into reports, as :class:`ldpbeam.Client` does.

    The elements are dicts or Beam Rows. If the study has groups, each has its group field, which is empty or
    None for no group. They may have a ``report_id``. The reports are dicts with the fields of a file of
    reports; each has the timestamp and the window of its value. If the study has a panel, values of users who
    are not to answer now are left out.

    The draws come from the operating system's secure source, so a pipeline that runs again draws again. Write
    the reports once and estimate from what was written: a person's values must not be perturbed twice.

    Args:
        study: as for :class:`Estimate`.
        service: the service that the reports are for; None for the only one.
        attribute: the attribute of the values; None for the only one.
        value: the field with the true value, in the unit of the domain, or the name of a category.
        user_id: the field with the user's id; elements without it get random ids. It is not read if reports
            have no users.
        event_time: the field with the time of the observation; None to use each element's timestamp.
        version: the client's version, if a field determines it.
        clip: whether numbers outside the domain are moved to its nearest end; if not, they end the pipeline.

    Raises:
        ldpbeam.StudyError: if the study is invalid.
        ValueError: if the study has no such attribute, service or version, has several and none is named, or
            clients of the service remember their noise.
    """

    def __init__(
        self,
        study: Study | str | os.PathLike[str] | Mapping[str, Any],
        service: str | None = None,
        *,
        attribute: str | None = None,
        value: str = "value",
        user_id: str = "user_id",
        event_time: str | None = "event_time",
        version: str | None = None,
        clip: bool = False,
    ) -> None:
        super().__init__()
        study = study_of(study)
        columns = checked_columns(study, attribute, service)
        for what, name in (("attribute", columns.attribute), ("service", columns.service)):
            if name is None:
                raise ValueError(f"the study has several {what}s: name one with {what}=...")
        assert columns.attribute is not None and columns.service is not None
        compiled = study.attribute(columns.attribute)
        if any(
            compiled.versions[index].lifetime is not None for index in compiled.versions_of([columns.service])
        ):
            raise ValueError(
                f"service {columns.service!r}: its clients remember their noise (lifetime_epsilon), and "
                "Perturb has no keys of devices: use ldpbeam.Client, or ldpbeam perturb --device-key-file"
            )
        # A mistake in the options must fail before the pipeline runs.
        client = partial(Client, study, columns.attribute, columns.service, version=version, clip=clip)
        client()
        self.function = _Perturb(client, value, user_id, event_time)

    def expand(self, values: beam.PCollection[Any]) -> beam.PCollection[dict[str, Any]]:
        """Perturb the values of each bundle together."""
        return values | "Perturb" >> beam.ParDo(self.function).with_output_types(dict[str, Any])


@dataclass(eq=False)
class _Perturb(beam.DoFn):
    """The fields are those of :class:`Perturb`; ``client()`` makes the client of a worker."""

    client: Callable[[], Client]
    value: str
    user_id: str
    event_time: str | None

    def setup(self) -> None:
        """Make the client of this worker."""
        self._client = self.client()

    def start_bundle(self) -> None:
        self._waiting: list[tuple[Mapping[str, Any], Timestamp, Any]] = []

    def process(
        self,
        element: Any,
        time: Timestamp = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterable[Any]:
        self._waiting.append((fields_of(element), time, window))
        if len(self._waiting) >= GATHERED_VALUES:
            yield from self.finish_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """The reports of the values gathered so far, which are then forgotten."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        if self._client.study.panel is not None:
            waiting = self._in_turn(waiting)
            if not waiting:
                return
        records = [record for record, _, _ in waiting]
        groups = self._client.study.groups
        users = _column(records, self.user_id) if self._client.attribute.has_users else None
        table = self._client.reports(
            _needed(records, self.value),
            users,
            event_times=self._times(waiting),
            groups=_needed(records, groups.field) if groups else None,
            report_ids=_column(records, "report_id"),
        )
        for report, (_, time, window) in zip(records_of(table, users), waiting, strict=True):
            yield WindowedValue(report, time, [window])

    def _in_turn(
        self, waiting: list[tuple[Mapping[str, Any], Timestamp, Any]]
    ) -> list[tuple[Mapping[str, Any], Timestamp, Any]]:
        """The values of those whose turn it is; the others send nothing."""
        users = _column([record for record, _, _ in waiting], self.user_id)
        times = self._times(waiting)
        if users is None or times is None:
            return waiting  # the client says what is missing
        return [waiting[row] for row in np.flatnonzero(self._client.in_turn(users, times))]

    def _times(self, waiting: list[tuple[Mapping[str, Any], Timestamp, Any]]) -> list[Any] | None:
        if self.event_time is None:
            return [milliseconds_of(time) for _, time, _ in waiting]
        given = _column([record for record, _, _ in waiting], self.event_time)
        return given and [milliseconds_of(time) if isinstance(time, Timestamp) else time for time in given]


def _needed(records: list[Mapping[str, Any]], name: str) -> list[Any]:
    """A field that all records have.

    Raises:
        ValueError: if one has not.
    """
    if not all(name in record for record in records):
        raise ValueError(f"an element has no field {name!r}: give it to all of them")
    return [record[name] for record in records]


def _column(records: list[Mapping[str, Any]], name: str) -> list[Any] | None:
    """A field of all records; None if no record has it."""
    values = [record.get(name) for record in records]
    return None if all(value is None for value in values) else values
