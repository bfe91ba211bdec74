"""The exact join against a dictionary: which reports stand, whose they are, and that order never matters."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.schemas.study_file import parse_study
from ldpbeam.statistics import tally
from ldpbeam.transforms.batches import tagged
from ldpbeam.transforms.joins import UserReports, first_of_report_ids, join, without_join

STUDY = parse_study(
    """
study: joins
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      maps:
        mechanism: piecewise
        version_field: app
        versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}
      taxi: {mechanism: laplace, epsilon: 1.0}
      survey: {mechanism: stochastic_rounding, epsilon: 1.0}
    estimates:
      all: {estimator: ule}
groups: {field: region}
"""
)
X = STUDY.attribute("x")
SERVICE = [version.service for version in X.versions]
UP = X.versions[3].mechanism.report_range[1]  # type: ignore[attr-defined]
PAYLOADS = ([-1.0, 0.0, 0.25], [-1.0, 0.0, 0.25], [-3.0, 0.0, 0.5], [-UP, UP, UP])


class Report(NamedTuple):
    user: bytes
    version: int
    time: int
    report_id: bytes | None
    payload: float
    group: str | None

    @property
    def rank(self) -> tuple[Any, ...]:
        """What decides which of two reports stands: event time, report id (none first), payload."""
        return self.time, self.report_id is not None, self.report_id or b"", self.payload


@st.composite
def reports(draw: st.DrawFn) -> Report:
    version = draw(st.integers(0, 3))
    return Report(
        draw(st.sampled_from([b"u1", b"u2", b"u3", b"a longer user id", bytes(16)])),
        version,
        draw(st.integers(-1, 1)),
        draw(st.sampled_from([None, None, b"r1", b"r2"])),
        draw(st.sampled_from(PAYLOADS[version])),
        draw(st.sampled_from([None, "north", "south"])),
    )


# Of reports alike in all that decides, only the very same one may come again: which stands is then clear.
CLEAR = st.lists(reports(), max_size=25, unique_by=lambda r: (r.user, SERVICE[r.version], r.rank)).flatmap(
    lambda some: (
        st.lists(st.sampled_from(some), max_size=5).map(lambda again: some + again) if some else st.just(some)
    )
)
ANY = st.lists(reports(), max_size=25)


def batches_of(some: list[Report], size: int) -> list[pa.RecordBatch]:
    """Batches of one channel each; columns that are null throughout are left out, as the stream does."""
    by_version: dict[int, list[Report]] = defaultdict(list)
    for report in some:
        by_version[report.version].append(report)
    made = []
    for version, own in by_version.items():
        for start in range(0, len(own), size):
            part = own[start : start + size]
            columns = {
                "user": pa.array([r.user for r in part], pa.binary()),
                "event_time": pa.array([r.time for r in part], pa.int64()),
                "payload": pa.array([r.payload for r in part], pa.float64()),
            }
            if any(r.report_id is not None for r in part):
                columns["report_id"] = pa.array([r.report_id for r in part], pa.binary())
            if any(r.group is not None for r in part):
                columns["group"] = pa.array([r.group for r in part], pa.string())
            made.append(tagged(pa.RecordBatch.from_pydict(columns), "x", version))
    return made


Answered = Counter[tuple[tuple[int, float], ...]]


def answers_by_group(joined: list[UserReports]) -> dict[str | None, Answered]:
    """Each group's users, every one as what they sent to which channel."""
    found: dict[str | None, Answered] = {}
    for users in joined:
        assert users.attribute == "x"
        assert users.group not in found, "a group comes once"
        rows: dict[int, dict[int, float]] = {row: {} for row in range(users.users)}
        for answer in users.answers:
            assert len(set(answer.rows.tolist())) == len(answer.rows), "one report a user and channel"
            for row, payload in zip(answer.rows.tolist(), answer.payloads.tolist(), strict=True):
                rows[row][answer.version] = payload
        assert all(rows.values()), "no row without a report"
        found[users.group] = Counter(tuple(sorted(sent.items())) for sent in rows.values())
    return found


def by_dictionary(some: list[Report]) -> tuple[dict[str | None, Answered], int]:
    """The join one report at a time, and how many were duplicates."""
    first: dict[tuple[bytes, str], Report] = {}
    for report in some:
        key = report.user, SERVICE[report.version]
        if key not in first or report.rank < first[key].rank:
            first[key] = report
    sent: dict[tuple[str | None, bytes], dict[int, float]] = defaultdict(dict)
    for report in first.values():
        sent[report.group, report.user][report.version] = report.payload
    found: dict[str | None, Answered] = defaultdict(Counter)
    for (group, _), answers in sent.items():
        found[group][tuple(sorted(answers.items()))] += 1
    return dict(found), len(some) - len(first)


@settings(max_examples=300, derandomize=True)
@given(CLEAR.filter(bool), st.integers(1, 8))
def test_the_join_is_the_dictionary_join(some: list[Report], size: int) -> None:
    joined, used, duplicates = join(X, batches_of(some, size))
    expected, repeated = by_dictionary(some)
    assert answers_by_group(joined) == expected
    assert (used, duplicates) == (len(some) - repeated, repeated)


@settings(max_examples=300, derandomize=True)
@given(ANY.filter(bool), st.integers(0, 2**32))
def test_the_order_and_the_size_of_batches_never_change_a_join(some: list[Report], seed: int) -> None:
    rng = random.Random(seed)
    shuffled = rng.sample(some, len(some))
    other = batches_of(shuffled, rng.randint(1, 8))
    rng.shuffle(other)
    one, *counts = join(X, batches_of(some, len(some)))
    again, *counted = join(X, other)
    assert answers_by_group(one) == answers_by_group(again)
    assert counts == counted
    tallies = [{u.group: tally(X, u.users, u.answers) for u in joined} for joined in (one, again)]
    assert tallies[0] == tallies[1]


def report(**changes: Any) -> Report:
    return Report(b"u1", 0, 0, None, 0.25, None)._replace(**changes)


@pytest.mark.parametrize(
    ("stands", "falls"),
    [
        (report(time=-5, report_id=b"r9", payload=1.0), report(time=0)),
        (report(payload=1.0), report(report_id=b"r1", payload=-1.0)),
        (report(report_id=b"r1", payload=1.0), report(report_id=b"r2", payload=-1.0)),
        (report(payload=-1.0), report(payload=0.0)),
        (report(version=1, time=-1), report(version=0, time=0)),
    ],
    ids=["earlier", "without an id", "smaller id", "smaller payload", "whatever the version"],
)
def test_the_smallest_time_then_id_then_payload_stands(stands: Report, falls: Report) -> None:
    for some in ([stands, falls], [falls, stands]):
        joined, used, duplicates = join(X, batches_of(some, 1))
        assert answers_by_group(joined) == {None: Counter([((stands.version, stands.payload),)])}
        assert (used, duplicates) == (1, 1)


@pytest.mark.parametrize("size", [1, 2])
def test_a_repeat_that_differs_in_its_group_alone_stands_in_one_group_in_any_order(size: int) -> None:
    # Nothing says which group: only that it must not depend on which report came first.
    north, south = report(group="north"), report(group="south")
    found = [
        answers_by_group(join(X, batches_of(some, size))[0]) for some in ([north, south], [south, north])
    ]
    assert found[0] == found[1]


def test_users_whose_keys_begin_alike_are_different_users() -> None:
    keys = [b"u", b"u\x00", b"u" * 8, b"u" * 9, bytes(16), bytes(17)]
    joined, _, duplicates = join(X, batches_of([report(user=key) for key in keys], 2))
    assert joined[0].users == len(keys)
    assert duplicates == 0


IDENTIFIED = reports().filter(lambda r: r.report_id is not None)


def kept_of(some: list[Report], size: int) -> tuple[Counter[Any], int]:
    """(user, version, time, payload) of what is kept of reports with ids, and how many were duplicates."""
    kept, duplicates = first_of_report_ids(X, batches_of(some, size))
    names = ("user", "event_time", "payload")
    return Counter(
        (user, int(batch.schema.metadata[b"version"]), time, payload)
        for batch in kept
        for user, time, payload in zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    ), duplicates


@settings(max_examples=100, derandomize=True)
@given(st.lists(IDENTIFIED, min_size=1, max_size=25, unique_by=lambda r: (SERVICE[r.version], r.rank)))
def test_of_a_report_id_within_a_service_the_first_report_stands(some: list[Report]) -> None:
    first: dict[tuple[bytes | None, str], Report] = {}
    for one in sorted(some, key=lambda r: r.rank):
        first.setdefault((one.report_id, SERVICE[one.version]), one)
    expected = Counter((r.user, r.version, r.time, r.payload) for r in first.values())
    assert kept_of(some, 3) == (expected, len(some) - len(first))


@settings(max_examples=100, derandomize=True)
@given(st.lists(IDENTIFIED, min_size=1, max_size=25), st.integers(0, 2**32))
def test_which_report_of_an_id_stands_does_not_depend_on_order(some: list[Report], seed: int) -> None:
    shuffled = random.Random(seed).sample(some, len(some))
    assert kept_of(some, 25) == kept_of(shuffled, 2)


def test_reports_from_a_time_on_are_joined_but_counted_elsewhere() -> None:
    # With sliding windows each report is counted in one of them.
    some = [report(time=0), report(time=5), report(user=b"u2", time=9), report(user=b"u3", time=10)]
    joined, used, duplicates = join(X, batches_of(some, 2), 10)
    assert (joined[0].users, joined[0].reports, used, duplicates) == (3, 3, 2, 1)


def test_without_a_join_every_report_counts_and_none_is_a_user() -> None:
    some = [report(), report(), report(group="north"), report(user=b"u2", group="north")]
    found = [users for batch in batches_of(some, 8) for users in without_join(batch, X)]
    assert sorted((u.group or "-", u.users, len(u.answers[0].payloads)) for u in found) == [
        ("-", 0, 2),
        ("north", 0, 2),
    ]
    assert all(np.all(u.answers[0].payloads == 0.25) for u in found)
