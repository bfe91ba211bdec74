"""The same report twice: one report id of a user in a service counts once, whenever it was sent."""

from __future__ import annotations

from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that, equal_to
from support.tallied import tallied

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.windows.drop_report_ids import DropDuplicateIds
from ldpbeam.windows import Span

STUDY = parse_study(
    """
study: repeats
attributes:
  x: &numbers
    domain: {numeric: [0, 1]}
    services:
      maps: {mechanism: piecewise, version_field: app, versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}}
      taxi: {mechanism: laplace, epsilon: 1.0}
    estimates: {mean: {estimator: ivw}}
  y: *numbers
windows: {size: 1h}
"""
)
HOUR = 3_600_000


class Sent(NamedTuple):
    user: str
    report_id: str | None
    time: int = 0
    version: int = 0
    payload: float = 0.0
    attribute: str = "x"


def batch_of(some: list[Sent]) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        "user": pa.array([s.user.encode() for s in some], pa.binary()),
        "event_time": pa.array([s.time for s in some], pa.int64()),
        "payload": pa.array([s.payload for s in some], pa.float64()),
    }
    if any(s.report_id is not None for s in some):
        ids = [None if s.report_id is None else s.report_id.encode() for s in some]
        columns["report_id"] = pa.array(ids, pa.binary())
    (attribute,), (version,) = {s.attribute for s in some}, {s.version for s in some}
    return tagged(pa.RecordBatch.from_pydict(columns), attribute, version)


def rows(batch: pa.RecordBatch) -> list[Sent]:
    ids = batch.column("report_id").to_pylist() if "report_id" in batch.schema.names else [None] * len(batch)
    return [
        Sent(
            user.decode(),
            report_id and report_id.decode(),
            time,
            int(batch.schema.metadata[b"version"]),
            payload,
            batch.schema.metadata[b"attribute"].decode(),
        )
        for user, report_id, time, payload in zip(
            *(batch.column(name).to_pylist() for name in ("user",)),
            ids,
            *(batch.column(name).to_pylist() for name in ("event_time", "payload")),
            strict=True,
        )
    ]


def test_one_id_of_a_user_in_a_service_counts_once_whatever_its_windows_and_versions() -> None:
    first = Sent("u1", "r1", time=5)
    again = [Sent("u1", "r1", time=6), Sent("u1", "r1", time=9 * HOUR), Sent("u1", "r1", time=7, version=1)]
    # The same id of other users, or in another service or attribute, is another one.
    users = [Sent("u2", "r1", time=4), Sent("", "u1r1"), Sent("u1r", "1")]
    elsewhere = [Sent("u1", "r1", version=2), Sent("u1", "r1", attribute="y")]
    # Reports without an id: a batch without the column, one where some have an id, and one where all have.
    twins = [Sent("u3", None), Sent("u3", None)]
    named = [Sent("u3", "r1"), Sent("u3", "r2")]
    batches = [[first, again[0]], [again[1]], [again[2]], users, *([one] for one in elsewhere)]
    batches += [twins, [*twins, Sent("u3", "r1", time=1)], named]
    with test_pipeline.TestPipeline(runner=FnApiRunner()) as pipeline:
        reports = pipeline | beam.Create(list(map(batch_of, batches)))
        *kept, counts = reports | DropDuplicateIds(STUDY, 2)
        stand = [first, *users, *elsewhere, *twins, *twins, *named]
        assert_that(kept | beam.Flatten() | beam.FlatMap(rows), equal_to(stand), "stand")
        assert_that(counts | beam.CombinePerKey(sum), equal_to([("duplicates", 4)]), "counts")


# u1 comes twice in one hour, and r1 twice in two.
TWICE: list[dict[str, Any]] = [
    {"user_id": user, "report_id": report_id, "event_time": time, "service": "a", "payload": place / 10}
    for place, (user, report_id, time) in enumerate(
        [("u1", None, 0), ("u1", None, 1), ("u3", "r1", 2), ("u3", "r1", HOUR), ("u3", None, HOUR)]
    )
]
#: Without it, event times of 1970 are dead letters.
OLD_TIMES = Span(-10 * 365 * 24 * HOUR)


@pytest.mark.parametrize(
    ("line", "used", "users"),
    [
        ("duplicates: drop", 3, [2, 1]),
        ("repeats: all", 4, [None, None]),
        ("duplicates: keep", 5, [None, None]),
    ],
)
def test_a_study_says_whether_users_and_ids_may_come_again(
    line: str, used: int, users: list[int | None], small_text: str
) -> None:
    study = small_text.replace("{estimator: ule}", "{estimator: ems}") + f"windows: {{size: 1h}}\n{line}\n"
    found = tallied(study, TWICE, OLD_TIMES)
    assert (found.accounting["used"], found.accounting["duplicates"]) == (used, 5 - used)
    in_order = sorted(found.snapshots, key=lambda own: own.window or ())
    assert [own.statistic.users for own in in_order] == users
    assert sum(own.statistic.reports for own in found.snapshots) == used


def test_a_report_of_a_span_that_repeats_an_id_from_before_it_does_not_stand(small_text: str) -> None:
    counts = tallied(f"{small_text}windows: {{size: 1h}}\n", TWICE, Span(HOUR, 2 * HOUR)).accounting
    assert (counts["out_of_range"], counts["duplicates"], counts["used"]) == (3, 1, 1)
