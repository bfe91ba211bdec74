"""Reports of studies in windows of ten seconds: real ones of many people, and ones made up for a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.answers.people import People
from ldpbeam.domains import Categories, Domain, KeyValuePairs, KeyValues, Vector
from ldpbeam.pipelines.simulated.perturb import simulate
from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.schemas.reports.columns import decoded
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.study import Study
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.reports.validation import wanted_columns
from ldpbeam.transforms.statistics import ValidateReports
from ldpbeam.windows import Span

SECOND = 1000
_NUMBERS = "{numeric: [0, 10]}"
_TWO = "{maps: {mechanism: square_wave, epsilon: 1.0}, taxi: {mechanism: piecewise, epsilon: 2.0}}"
_OLD_AND_NEW = (
    "{maps: {mechanism: square_wave, versions: {old: {epsilon: 1.0, until: 1970-01-01T00:00:14Z}, "
    "new: {epsilon: 0.5, since: 1970-01-01T00:00:14Z}}}, taxi: {mechanism: piecewise, epsilon: 2.0}}"
)
TO_JOIN = "{all: {estimator: ule}, mean: {estimator: ivw}}"
NOT_TO_JOIN = "{all: {estimator: em}, mean: {estimator: ua}}"


def study_text(
    services: str = _TWO,
    estimates: str = TO_JOIN,
    *,
    domain: str = _NUMBERS,
    windows: str = "size: 10s, allowed_lateness: 20s",
    more: str = "",
) -> str:
    """A study of one attribute, in windows of ten seconds that wait twenty for what is late."""
    return (
        f"study: panes\nattributes:\n  x:\n    domain: {domain}\n    buckets: 16\n    services: {services}\n"
        f"    estimates: {estimates}\nwindows: {{{windows}, max_age: 300000d}}\nintervals: false\n{more}\n"
    )


#: What is estimated: histograms, joins, and what else changes how reports are compared and counted.
STUDIES = {
    "one histogram": study_text("{maps: {mechanism: square_wave, epsilon: 1.0}}", "{all: {estimator: ems}}"),
    "two services joined": study_text(),
    "eleven services joined": study_text(
        f"{{{', '.join(f's{i}: {{mechanism: square_wave, epsilon: 0.5}}' for i in range(11))}}}"
    ),
    "groups, two at most": study_text(more="groups: {field: region, at_most: 2}"),
    "categories": study_text(
        "{shop: {mechanism: grr, epsilon: 1.0}, web: {mechanism: olh, epsilon: 2.0}}",
        "{all: {estimator: ule}, plain: {estimator: norm_sub}}",
        domain="{categories: [red, green, blue]}",
    ),
    "a vector": study_text(domain="{coordinates: [north, up], values: [0, 10]}"),
    "keys with values": study_text(
        "{shop: {mechanism: pckv_grr, epsilon: 2.0, padding: 2}}",
        "{all: {estimator: pckv_em}}",
        domain="{keys: [tea, milk, rum], values: [0, 10]}",
    ),
    "sliding windows": study_text(windows="size: 10s, period: 4s, allowed_lateness: 20s"),
    "repeats count": study_text(estimates=NOT_TO_JOIN, more="repeats: all"),
    "two repeats count": study_text(estimates=NOT_TO_JOIN, more="repeats: all\nmost_reports: 2"),
    "duplicates are kept": study_text(estimates=NOT_TO_JOIN, more="duplicates: keep"),
    "no users": study_text(estimates=NOT_TO_JOIN, more="users: none"),
    "no users, and duplicates are kept": study_text(
        estimates=NOT_TO_JOIN, more="users: none\nduplicates: keep\ngroups: {field: region, at_most: 2}"
    ),
    "versions of a service": study_text(_OLD_AND_NEW),
    "joined windows of numbers": study_text(
        "{maps: {mechanism: square_wave, epsilon: 1.0}}",
        "{all: {}, mean: {estimator: ivw}}",
        windows="size: 10s, joined: 30s, allowed_lateness: 20s",
    ),
    "joined windows of categories": study_text(
        "{shop: {mechanism: oue, epsilon: 1.0}}",
        "{all: {estimator: norm_sub}}",
        domain="{categories: [red, green, blue]}",
        windows="size: 10s, joined: 20s, allowed_lateness: 20s",
        more="groups: {field: region, at_most: 2}",
    ),
}


def study_of(name: str) -> Study:
    """One of :data:`STUDIES`."""
    return parse_study(STUDIES[name])


def times_of(batch: pa.RecordBatch) -> list[int]:
    """The event times of a batch's reports."""
    times: list[int] = batch.column("event_time").to_pylist()
    return times


def reports_of(
    study: Study, sent: Sequence[SentReports], ids: Sequence[str | None] = ()
) -> list[pa.RecordBatch]:
    """Batches of a channel each, as they leave validation.

    Args:
        study: the study.
        sent: what clients sent.
        ids: the report ids of each of ``sent``, by row; none by default.
    """
    columns = wanted_columns(study, None, None)
    # These reports are of the first seconds of 1970.
    validate = ValidateReports(study, span=Span(start=0)).function
    found = []
    for part in sent:
        rows = pa.array(range(len(part.payloads)))
        given = {
            "user_id": part.users,
            "event_time": pa.array(part.times),
            "payload": payload_column(part.payloads),
            **part.extras,
        }
        if ids:
            given["report_id"] = pa.array(ids, pa.string())
        names = {"ldpbeam.attribute": part.attribute, "ldpbeam.service": part.service}
        checked = validate.process(decoded(given, columns, names, rows, rows))
        found += [batch for batch in checked if isinstance(batch, pa.RecordBatch)]
    assert sum(batch.num_rows for batch in found) == sum(len(part.payloads) for part in sent)
    return found


def sent_by_people(study: Study, *, visits: int = 120, users: int = 30, seed: int = 0) -> list[SentReports]:
    """What users send who answer each service now and then, from second 0 to 50, but none from 20 to 30.

    Many report twice a window, and groups are of unequal size.
    """
    rng = np.random.default_rng(seed)
    (name,) = study.attributes
    attribute = study.attribute(name)
    sent: list[SentReports] = []
    for service in attribute.services:
        who = rng.integers(users, size=visits)
        times = rng.integers(0, 40 * SECOND, visits)
        people = People(
            values=values_of(attribute.domain, visits, rng),
            users=pa.array([f"user-{number}" for number in who]),
            times=np.where(times < 20 * SECOND, times, times + 10 * SECOND),
            groups=pa.array(np.array(["north", "north", "east", "west", "far", ""])[who % 6]),
            skipped=0,
            clipped=0,
        )
        sent += simulate(
            study, attribute, people, services=[service], versions={}, start=0, spread=1, seed=seed
        )
    return sent


def people_report(study: Study, *, visits: int = 120, users: int = 30, seed: int = 0) -> list[pa.RecordBatch]:
    """The same as batches of a channel each; every other report has an id of its own."""
    found = []
    for place, part in enumerate(sent_by_people(study, visits=visits, users=users, seed=seed)):
        ids = [f"{place}/{row}" if row % 2 else None for row in range(len(part.payloads))]
        found += reports_of(study, [part], ids)
    return found


def values_of(domain: Domain, people: int, rng: np.random.Generator) -> NDArray[Any] | KeyValuePairs:
    if isinstance(domain, Categories):
        return rng.choice(3, people, p=[0.6, 0.3, 0.1])
    if isinstance(domain, Vector):
        return rng.uniform(0, 10, (people, 2))
    if isinstance(domain, KeyValues):
        return KeyValuePairs(np.arange(people + 1), rng.integers(0, 3, people), rng.random(people))
    return rng.triangular(0, 3, 10, people)


class Report(NamedTuple):
    """A report made up for a test, of the attribute ``x``; its payload is in the mechanism's own scale."""

    user: str
    time: int
    version: int = 0
    payload: float = 0.5
    report_id: str | None = None
    group: str | None = None


def batches_of(*reports: Report) -> list[pa.RecordBatch]:
    """Batches of a channel each, in the order of versions."""
    found = []
    for version in sorted({report.version for report in reports}):
        own = [report for report in reports if report.version == version]
        columns = {
            "user": pa.array([report.user.encode() for report in own], pa.binary()),
            "event_time": pa.array([report.time for report in own], pa.int64()),
            "payload": pa.array([report.payload for report in own], pa.float64()),
        }
        if any(report.report_id is not None for report in own):
            ids = [report.report_id and report.report_id.encode() for report in own]
            columns["report_id"] = pa.array(ids, pa.binary())
        if any(report.group is not None for report in own):
            columns["group"] = pa.array([report.group for report in own], pa.string())
        found.append(tagged(pa.RecordBatch.from_pydict(columns), "x", version))
    return found
