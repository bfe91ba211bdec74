"""The exact join against a dictionary: which reports stand, whose they are, and that order never matters."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.joined_reports import Answered, answers_of, drawn, in_batches, in_order, tied_first

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.joining.join import UserReports, join, without_join
from ldpbeam.transforms.joining.report_ids import without_duplicate_ids

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


@st.composite
def reports(draw: st.DrawFn) -> Report:
    version = draw(st.integers(0, 3))
    return Report(
        draw(st.sampled_from([b"u1", b"u1\x00", b"u1" * 4, b"u1" * 5, bytes(16), bytes(17)])),
        version,
        draw(st.integers(-1, 1)),
        draw(st.sampled_from([None, None, b"r1", b"r1\x00", b"r2"])),
        draw(st.sampled_from(PAYLOADS[version])),
        draw(st.sampled_from([None, "north", "south"])),
    )


# Many of few users, so that several are tied and some are alike in everything.
ANY = st.lists(reports(), min_size=1, max_size=25)
TIED = st.lists(
    st.builds(
        Report,
        st.sampled_from([b"u1", b"u2"]),
        st.just(3),
        st.integers(0, 1),
        st.sampled_from([None, b"r1"]),
        st.sampled_from([-UP, UP]),
        st.sampled_from([None, "north"]),
    ),
    min_size=1,
    max_size=12,
)


def batches_of(some: list[Report], size: int) -> list[pa.RecordBatch]:
    return in_batches(some, size, "x", lambda part: pa.array([r.payload for r in part], pa.float64()))


def answers_by_group(joined: list[UserReports]) -> dict[str | None, Answered]:
    """Each group's users, every one as what they sent to which channel."""
    found: dict[str | None, Answered] = {}
    for users in joined:
        assert users.attribute == "x"
        assert users.group not in found, "a group comes once"
        found[users.group] = answers_of(users)
    return found


Key = tuple[bytes | None, str]


def of_user(report: Report) -> Key:
    return report.user, SERVICE[report.version]


def of_id(report: Report) -> Key:
    return report.user, report.report_id, SERVICE[report.version]


def by_dictionary(some: list[Report]) -> tuple[dict[str | None, Answered], int]:
    """The join one report at a time, ties drawn a user alone, and how many were duplicates."""
    first = [drawn(X, tied, batches_of) for tied in tied_first(some, of_user).values()]
    sent: dict[tuple[str | None, bytes], dict[int, float]] = defaultdict(dict)
    for report in first:
        sent[report.group, report.user][report.version] = report.payload
    found: dict[str | None, Answered] = defaultdict(Counter)
    for (group, _), answers in sent.items():
        found[group][tuple(sorted(answers.items()))] += 1
    return dict(found), len(some) - len(first)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(ANY | TIED, st.integers(1, 8), st.integers(0, 2**32))
def test_the_join_is_the_dictionary_join(some: list[Report], size: int, seed: int) -> None:
    # The list and its batches are in any order, and what is expected of them does not depend on that.
    batches = batches_of(some, size)
    random.Random(seed).shuffle(batches)
    joined, used = join(X, batches)
    expected, repeated = by_dictionary(some)
    assert answers_by_group(joined) == expected
    assert used == len(some) - repeated


def report(**changes: Any) -> Report:
    return Report(b"u1", 0, 0, None, 0.25, None)._replace(**changes)


IDENTIFIED = reports().filter(lambda r: r.report_id is not None)


def kept_of(some: list[Report], size: int) -> tuple[Counter[Any], int]:
    """(user, version, time, payload, group) of what is kept of reports with ids; how many were duplicates."""
    kept, duplicates = without_duplicate_ids(X, batches_of(some, size))
    names = ("user", "event_time", "payload")
    return Counter(
        (user, int(batch.schema.metadata[b"version"]), time, payload, group)
        for batch in kept
        for user, time, payload, group in zip(
            *(batch.column(name).to_pylist() for name in names),
            batch.column("group").to_pylist() if "group" in batch.schema.names else [None] * len(batch),
            strict=True,
        )
    ), duplicates


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(IDENTIFIED, min_size=1, max_size=25), st.integers(1, 25))
def test_of_a_users_report_id_within_a_service_the_first_report_stands(some: list[Report], size: int) -> None:
    # The list is in any order, and what is expected of it does not depend on that.
    expected: Counter[Any] = Counter()
    ties = tied_first(some, of_id)
    for tied in ties.values():
        # The draw is that of these reports alone, and one of them.
        one, repeats = kept_of(in_order(tied), len(tied))
        assert (one.total(), repeats) == (1, len(tied) - 1)
        assert set(one) <= {(r.user, r.version, r.time, r.payload, r.group) for r in tied}
        expected += one
    assert kept_of(some, size) == (expected, len(some) - len(ties))


def test_reports_from_a_time_on_are_joined_but_counted_elsewhere() -> None:
    # With sliding windows each report is counted in one of them.
    some = [report(time=0), report(time=5), report(user=b"u2", time=9), report(user=b"u3", time=10)]
    joined, used = join(X, batches_of(some, 2), 10)
    assert (joined[0].users, joined[0].reports, used) == (3, 3, 2)


def test_without_a_join_every_report_counts_and_none_is_a_user() -> None:
    some = [report(), report(), report(group="north"), report(user=b"u2", group="north")]
    found = [users for batch in batches_of(some, 8) for users in without_join(batch, X)]
    assert sorted((u.group or "-", u.users, len(u.answers[0].payloads)) for u in found) == [
        ("-", 0, 2),
        ("north", 0, 2),
    ]
    assert all(np.all(u.answers[0].payloads == 0.25) for u in found)
