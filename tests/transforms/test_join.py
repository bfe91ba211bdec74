"""The exact join against a dictionary: which reports stand, whose they are, and that order never matters."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kept_one_by_one import Sent, batches_of, cut, first_of_users

from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.joining.join import UserReports, join, without_join
from ldpbeam.transforms.joining.kept import MOST_TIED

STUDY = parse_study(
    """
study: joins
attributes:
  x:
    domain: {numeric: [0, 1]}
    buckets: 8
    services:
      maps: {mechanism: piecewise, version_field: app, versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}}
      taxi: {mechanism: laplace, epsilon: 1.0}
      survey: {mechanism: stochastic_rounding, epsilon: 1.0}
    estimates: {all: {estimator: ule}}
groups: {field: region}
"""
)
X = STUDY.attribute("x")
#: Of few users, so that several are tied and some are alike in everything.
REPORTS = st.lists(
    st.builds(
        Sent, user=st.sampled_from([b"u1", b"u1\x00", b"u1" * 5, bytes(16), bytes(17)]),
        time=st.integers(-1, 1), version=st.integers(0, 3), payload=st.sampled_from([-1.0, 0.0, 0.25]),
        report_id=st.sampled_from([None, None, b"r1", b"r1\x00"]),
        group=st.sampled_from([None, "north", "south"]),
    ),
    min_size=1,
    max_size=25,
)  # fmt: skip


def answers_of(users: UserReports) -> list[list[tuple[int, float]]]:
    """What each user of a group sent, as (channel, payload), in order."""
    rows: list[list[tuple[int, float]]] = [[] for _ in range(users.users)]
    for answer in users.answers:
        assert len(set(answer.rows.tolist())) == len(answer.rows) > 0, "one report a user and channel"
        for row, payload in zip(answer.rows.tolist(), answer.payloads.tolist(), strict=True):
            rows[row].append((answer.version, payload))
    return sorted(map(sorted, rows))


@settings(max_examples=300, derandomize=True, deadline=None)
@given(REPORTS, st.randoms(use_true_random=False))
def test_the_join_is_the_dictionary_join(reports: list[Sent], order: random.Random) -> None:
    joined, used = join(X, cut(reports, order))
    kept = first_of_users(reports, lambda version: X.versions[version].service, MOST_TIED)
    sent: defaultdict[Any, defaultdict[Any, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for report in kept:
        sent[report.group][report.user].append((report.version, report.payload))
    assert Counter(users.group for users in joined) == Counter(sent.keys()), "a group comes once"
    assert {users.group: answers_of(users) for users in joined} == {
        group: sorted(map(sorted, users.values())) for group, users in sent.items()
    }
    assert used == len(kept)


def test_reports_from_a_time_on_are_joined_but_counted_elsewhere() -> None:
    # With sliding windows each report is counted in one of them.
    some = [Sent(b"u1", 0), Sent(b"u1", 5), Sent(b"u2", 9), Sent(b"u3", 10)]
    joined, used = join(X, batches_of(some), 10)
    assert (joined[0].users, joined[0].reports, used) == (3, 3, 2)


def test_without_a_join_every_report_counts_and_none_is_a_user() -> None:
    some = [Sent(b"u1", 0), Sent(b"u1", 0), Sent(b"u1", 0, group="north"), Sent(b"u2", 0, group="north")]
    found = [users for batch in batches_of(some) for users in without_join(batch, X)]
    assert sorted((u.group or "-", u.users, len(u.answers[0].payloads)) for u in found) == [
        ("-", 0, 2),
        ("north", 0, 2),
    ]
    assert all(np.all(u.answers[0].payloads == 0.5) for u in found)
