"""Vectors in the stream: one report a user and service, and statistics of each coordinate."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.joined_reports import Answered, answers_of, drawn, in_batches, tied_first
from support.tallied import tallied as tallied_of

from ldpbeam import Answers, merge, tally
from ldpbeam.domains import Vector
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Statistic
from ldpbeam.transforms.joining.coordinates import by_coordinate
from ldpbeam.transforms.joining.join import UserReports, join, without_join
from ldpbeam.transforms.windows.combine import CombineGroups
from ldpbeam.transforms.windows.groups import tallied

TEXT = """
study: vectors
attributes:
  v:
    domain: {coordinates: [north, east, up], values: [-1, 1]}
    buckets: 8
    services:
      maps:
        mechanism: piecewise
        version_field: app
        versions: {old: {epsilon: 1.0}, new: {epsilon: 2.0}}
      taxi: {mechanism: laplace, epsilon: 1.0}
    estimates:
      all: {estimator: ule}
groups: {field: region}
"""
STUDY = parse_study(TEXT)
ALONE = parse_study(TEXT.replace("{estimator: ule}", "{estimator: ems}") + "duplicates: keep\n")
V = STUDY.attribute("v")
NAMES = ("north", "east", "up")
SERVICE = [version.service for version in V.versions]
PAYLOADS = ([-1.0, 0.0, 0.25, 4.0], [-1.0, 0.0, 0.25, 2.0], [-3.0, 0.0, 0.5, 1.0])
DTYPE = np.dtype([("coordinate", "<u4"), ("report", "<f8")])


class Report(NamedTuple):
    user: bytes
    version: int
    time: int
    report_id: bytes | None
    coordinate: int
    value: float
    group: str | None

    @property
    def payload(self) -> bytes:
        return self.coordinate.to_bytes(4, "little") + np.float64(self.value).tobytes()


@st.composite
def reports(draw: st.DrawFn) -> Report:
    version = draw(st.integers(0, 2))
    return Report(
        draw(st.sampled_from([b"u1", b"u2", b"u3", b"u4", bytes(16)])),
        version,
        draw(st.integers(0, 1)),
        draw(st.sampled_from([None, None, b"r1", b"r2"])),
        draw(st.integers(0, 2)),
        draw(st.sampled_from(PAYLOADS[version])),
        draw(st.sampled_from([None, "here", "there"])),
    )


MANY = st.lists(reports(), max_size=25)
reproducibly = settings(derandomize=True, deadline=None, max_examples=80)


def batches_of(some: Iterable[Report], size: int = 4) -> list[pa.RecordBatch]:
    def payloads(part: list[Report]) -> pa.Array:
        return payload_column(np.array([(r.coordinate, r.value) for r in part], dtype=DTYPE))

    return in_batches(some, size, "v", payloads)


def standing(some: Iterable[Report]) -> list[Report]:
    """One report a user and service, whatever its coordinate: the first by rank, ties drawn."""
    first = tied_first(some, lambda report: (report.user, SERVICE[report.version]))
    return [drawn(V, tied, batches_of) for tied in first.values()]


def by_dictionary(some: Iterable[Report]) -> dict[tuple[str, str | None], Answered]:
    """Coordinate and group to users, every one as what they sent to which channel."""
    sent: dict[tuple[str, str | None], dict[bytes, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for report in some:
        place = f"v.{NAMES[report.coordinate]}", report.group
        sent[place][report.user][report.version] = report.value
    return {
        place: Counter(tuple(sorted(answers.items())) for answers in users.values())
        for place, users in sent.items()
    }


def parts_of(users: Iterable[UserReports]) -> dict[tuple[str, str | None], Answered]:
    """The same from rows of users, by coordinate."""
    found: dict[tuple[str, str | None], Answered] = {}
    for whole in users:
        total = 0
        for part in by_coordinate(V, whole):
            assert (part.attribute, part.group) not in found, "a coordinate comes once"
            assert len({answer.version for answer in part.answers}) == len(part.answers)
            assert all(answer.payloads.dtype == np.float64 for answer in part.answers)
            found[part.attribute, part.group] = answers_of(part)
            total += part.reports
        assert total == whole.reports
    return found


def statistic_of(name: str, users: Answered) -> Statistic:
    """The statistic of users one by one."""
    attribute = STUDY.attribute(name)
    rows = [sent for sent, times in users.items() for _ in range(times)]
    answers = []
    for version in range(3):
        own = [(row, dict(sent)[version]) for row, sent in enumerate(rows) if version in dict(sent)]
        if own:
            answers.append(
                Answers(version, np.array([row for row, _ in own]), np.array([value for _, value in own]))
            )
    return tally(attribute, len(rows), answers)


@reproducibly
@given(some=MANY, size=st.integers(1, 9), seed=st.integers(0, 99))
def test_reports_are_grouped_by_coordinate_as_by_a_dictionary(
    some: list[Report], size: int, seed: int
) -> None:
    batches = batches_of(some, size)
    random.Random(seed).shuffle(batches)
    joined = join(V, batches) if batches else None
    expected = standing(some)
    assert parts_of(joined.users if joined else []) == by_dictionary(expected)
    if joined is not None:
        assert (joined.used, joined.duplicates) == (len(expected), len(some) - len(expected))


@reproducibly
@given(some=MANY, size=st.integers(1, 9))
def test_statistics_of_a_coordinate_are_those_of_its_reports_however_batches_are_cut(
    some: list[Report], size: int
) -> None:
    expected = {
        place: statistic_of(place[0], users) for place, users in by_dictionary(standing(some)).items()
    }
    # Partitions of users: each is joined by itself, and their statistics are merged.
    combine = CombineGroups()
    accumulator = combine.create_accumulator()
    for partition in range(2):
        own = [report for report in some if report.user[-1] % 2 == partition]
        rows = join(V, batches_of(own, size)).users if own else []
        accumulator = combine.add_input(accumulator, tallied(STUDY, V, rows))
    found = combine.extract_output(accumulator)
    assert found == expected
    assert sum(s.reports for s in found.values()) == len(standing(some))


def test_a_second_report_on_another_coordinate_is_a_duplicate() -> None:
    first = Report(b"u1", 2, 0, None, 1, 0.5, None)
    again = first._replace(coordinate=0, time=1)
    for order in ([first, again], [again, first]):
        joined = join(V, batches_of(order, 1))
        assert (joined.used, joined.duplicates) == (1, 1)
        assert parts_of(joined.users) == {("v.east", None): Counter({((2, 0.5),): 1})}
    # Another version of the service is the service; another service is not.
    other = first._replace(version=0, coordinate=0, value=0.25)
    joined = join(V, batches_of([first, other, other._replace(version=1, time=1)], 2))
    assert (joined.used, joined.duplicates) == (2, 1)
    assert parts_of(joined.users) == {
        ("v.east", None): Counter({((2, 0.5),): 1}),
        ("v.north", None): Counter({((0, 0.25),): 1}),
    }


def test_answers_of_several_services_on_one_coordinate_are_joined_and_on_two_are_not() -> None:
    some = [
        Report(b"u1", 0, 0, None, 1, 0.25, None),
        Report(b"u1", 2, 0, None, 1, 0.5, None),
        Report(b"u2", 1, 0, None, 0, 2.0, None),
        Report(b"u2", 2, 0, None, 1, -3.0, None),
    ]
    found = parts_of(join(V, batches_of(some)).users)
    assert found == {
        ("v.east", None): Counter({((0, 0.25), (2, 0.5)): 1, ((2, -3.0),): 1}),
        ("v.north", None): Counter({((1, 2.0),): 1}),
    }
    statistic = statistic_of("v.east", found["v.east", None])
    assert {mask: moments.users for mask, moments in statistic.moments.items()} == {0b101: 1, 0b100: 1}
    assert statistic.joint_counts.tolist() == [1, 1]
    assert (statistic.users, statistic.reports) == (2, 3)


@reproducibly
@given(some=MANY, size=st.integers(1, 9))
def test_where_users_are_not_grouped_every_report_is_its_coordinates(some: list[Report], size: int) -> None:
    attribute = ALONE.attribute("v")
    found: dict[tuple[str, str | None], list[Statistic]] = defaultdict(list)
    for batch in batches_of(some, size):
        for users in without_join(batch, attribute):
            for part in by_coordinate(attribute, users):
                assert part.users == 0
                own = tally(ALONE.attribute(part.attribute), part.users, part.answers)
                found[part.attribute, part.group].append(own)
    expected: dict[tuple[str, str | None], Counter[tuple[int, float]]] = defaultdict(Counter)
    for report in some:
        expected[f"v.{NAMES[report.coordinate]}", report.group][report.version, report.value] += 1
    assert found.keys() == expected.keys()
    for place, parts in found.items():
        whole = merge(parts)
        assert (whole.users, whole.reports) == (None, sum(expected[place].values()))
        for version, histogram in enumerate(whole.histograms):
            mechanism = ALONE.attribute(place[0]).versions[version].mechanism
            values = [v for (index, v), n in expected[place].items() for _ in range(n) if index == version]
            counts = np.bincount(
                mechanism.bucketise(np.array(values, dtype=float), 8), minlength=mechanism.cells(8)
            )
            np.testing.assert_array_equal(histogram, counts)


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


ONE = """
study: one
attributes:
  v:
    domain: {coordinates: 4, values: [0, 10]}
    buckets: 16
    services:
      a: {mechanism: piecewise, epsilon: 1.0}
    estimates:
      mean: {estimator: ivw}
      shape: {estimator: ems}
"""


def test_reports_of_no_coordinate_are_dead_letters_and_a_users_second_is_a_duplicate() -> None:
    rng, users = np.random.default_rng(3), np.array([f"u{place}" for place in range(400)])
    (version,) = parse_study(ONE).attribute("v").versions
    sent = version.mechanism.perturb(rng.random((400, 4)), rng)
    # 30 users report once more, later, on the next coordinate; five sent no report at all.
    other, unknown, outside = sent[:30].copy(), sent[:1].copy(), sent[:1].copy()
    other["coordinate"] = (other["coordinate"] + 1) % 4
    unknown["coordinate"] = 4
    outside["report"] = 4.09
    bad = [unknown[0].tobytes(), outside[0].tobytes(), bytes(11), None]
    tables: list[dict[str, Any]] = [
        {"user_id": users, "payload": [payload.tobytes() for payload in sent], "event_time": [1000] * 400},
        {"user_id": users[:30], "payload": [own.tobytes() for own in other], "event_time": [9000] * 30},
        {"user_id": [f"bad{place}" for place in range(4)], "payload": bad},
        {"user_id": ["bad4"], "payload": [0.5]},
    ]
    found = tallied_of(ONE, tables)
    assert found.accounting["dead_letters_by_reason"] == {
        "payload_outside_mechanism": 2,
        "payload_wrong_length": 1,
        "payload_not_bytes": 1,
        "no_payload": 1,
    }
    assert (found.accounting["used"], found.accounting["duplicates"]) == (400, 30)
    for place, snapshot in enumerate(found.snapshots):
        own = sent[sent["coordinate"] == place]
        answers = [Answers(0, np.arange(len(own)), own["report"])]
        attribute = parse_study(ONE).attribute(f"v.{place}")
        assert (snapshot.attribute, snapshot.statistic) == (f"v.{place}", tally(attribute, len(own), answers))
