"""Vectors in the stream: statistics of each coordinate."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa

from ldpbeam import Answers, tally
from ldpbeam.domains import Vector
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.transforms.joining.join import UserReports, join
from ldpbeam.transforms.joining.pairs import by_coordinate
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.windows.coders import CombineGroups
from ldpbeam.transforms.windows.groups import tallied

TEXT = """
study: vectors
attributes:
  v:
    domain: {coordinates: [north, east, up], values: [-1, 1]}
    buckets: 8
    services:
      maps: {mechanism: piecewise, version_field: app, versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}}
      taxi: {mechanism: laplace, epsilon: 1.0}
    estimates: {all: {estimator: ule}}
groups: {field: region}
"""
STUDY = parse_study(TEXT)
V = STUDY.attribute("v")
NAMES = ("north", "east", "up")
DTYPE = np.dtype([("coordinate", "<u4"), ("report", "<f8")])


def test_statistics_of_a_coordinate_are_those_of_the_users_who_were_asked_for_it() -> None:
    # Which report of a user stands: test_join. Here each user has one to a service.
    rng = np.random.default_rng(1)
    sent: defaultdict[tuple[str, str], defaultdict[int, dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    batches: list[list[pa.RecordBatch]] = [[], []]
    for version in (1, 2):
        for partition in (0, 1):
            users = np.arange(partition, 60, 2)
            payloads = np.zeros(len(users), DTYPE)
            payloads["coordinate"] = rng.integers(0, 3, len(users))
            payloads["report"] = rng.choice([-1.0, 0.25, 1.0], len(users))
            columns = {
                "user": pa.array([b"u%d" % user for user in users]),
                "event_time": pa.array(np.zeros(len(users), np.int64)),
                "payload": payload_column(payloads),
                "group": pa.array([f"g{user % 3}" for user in users]),
            }
            batches[partition].append(tagged(pa.RecordBatch.from_pydict(columns), "v", version))
            for user, payload in zip(users.tolist(), payloads, strict=True):
                place = f"v.{NAMES[payload['coordinate']]}", f"g{user % 3}"
                sent[place][user][version] = float(payload["report"])
    # Partitions of users: each is joined by itself, and their statistics are merged.
    combine = CombineGroups()
    accumulator = combine.create_accumulator()
    for own in batches:
        accumulator = combine.add_input(accumulator, tallied(STUDY, V, join(V, own)[0]))
    expected = {}
    for place, by_user in sent.items():
        rows, answers = list(by_user.values()), []
        for version in (1, 2):
            of = [row for row, own in enumerate(rows) if version in own]
            answers.append(Answers(version, np.array(of), np.array([rows[row][version] for row in of])))
        expected[place] = tally(STUDY.attribute(place[0]), len(rows), answers)
    assert combine.extract_output(accumulator) == expected


def test_what_is_no_vector_passes_as_it_is() -> None:
    users = UserReports("v.up", "here", 2, (Answers(0, np.arange(2), np.array([0.5, 0.25])),))
    (same,) = by_coordinate(STUDY.attribute("v.up"), users)
    assert same is users


def test_coordinates_are_attributes_of_their_own() -> None:
    assert isinstance(V.domain, Vector)
    assert STUDY.estimated == ("v.north", "v.east", "v.up")
    prints = {STUDY.attribute(name).fingerprint for name in (*STUDY.estimated, "v")}
    assert len(prints) == 4, "no statistic of one is ever merged with another's"
    for name in STUDY.estimated:
        attribute = STUDY.attribute(name)
        assert (attribute.domain.low, attribute.domain.high) == (-1.0, 1.0)  # type: ignore[union-attr]
        assert attribute.joint_services == ("maps", "taxi")
        assert [v.mechanism for v in attribute.versions] == [
            v.mechanism.inner
            for v in V.versions  # type: ignore[attr-defined]
        ]
