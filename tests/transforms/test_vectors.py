"""Vectors in the stream: one report a user and service, and statistics of each coordinate."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam import Answers, merge, tally
from ldpbeam.domains import Vector
from ldpbeam.runners import direct
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Statistic
from ldpbeam.transforms.joining.coordinates import by_coordinate
from ldpbeam.transforms.joining.join import UserReports, join, without_join
from ldpbeam.transforms.joining.report_ids import without_duplicate_ids
from ldpbeam.transforms.reports.batches import tagged
from ldpbeam.transforms.windows.bounded import Aggregate, FoldBatch
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

    @property
    def rank(self) -> tuple[Any, ...]:
        """What decides which of two reports stands, event time and report id (none first); else a draw."""
        return self.time, self.report_id is not None, self.report_id or b""


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
    by_version: dict[int, list[Report]] = defaultdict(list)
    for report in some:
        by_version[report.version].append(report)
    made = []
    for version, own in by_version.items():
        for start in range(0, len(own), size):
            part = own[start : start + size]
            payloads = np.array([(r.coordinate, r.value) for r in part], dtype=DTYPE)
            columns = {
                "user": pa.array([r.user for r in part], pa.binary()),
                "event_time": pa.array([r.time for r in part], pa.int64()),
                "payload": payload_column(payloads),
                "report_id": pa.array([r.report_id for r in part], pa.binary()),
                "group": pa.array([r.group for r in part], pa.string()),
            }
            made.append(tagged(pa.RecordBatch.from_pydict(columns), "v", version))
    return made


def drawn(tied: list[Report]) -> Report:
    """Which of a user's tied reports stands: the one that does when nobody sent anything else."""
    if len(tied) == 1:
        return tied[0]
    ordered = sorted(tied, key=lambda r: (r.version, r.payload, r.group or ""))
    joined = join(V, batches_of(ordered, len(tied)))
    assert (joined.used, joined.duplicates) == (1, len(tied) - 1)
    (users,) = joined.users
    (answer,) = users.answers
    place = users.group, answer.version, answer.payloads.tobytes()
    (one, *_) = [r for r in tied if (r.group, r.version, r.payload) == place]
    return one


def standing(some: Iterable[Report]) -> list[Report]:
    """One report a user and service, whatever its coordinate: the first by rank, ties drawn."""
    first: dict[tuple[bytes, str], list[Report]] = {}
    for report in some:
        best = first.setdefault((report.user, SERVICE[report.version]), [])
        if best and report.rank < best[0].rank:
            best.clear()
        if not best or report.rank == best[0].rank:
            best.append(report)
    return [drawn(tied) for tied in first.values()]


Answered = Counter[tuple[tuple[int, float], ...]]


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
            rows: dict[int, dict[int, float]] = {row: {} for row in range(part.users)}
            assert len({a.version for a in part.answers}) == len(part.answers)
            for answer in part.answers:
                assert len(set(answer.rows.tolist())) == len(answer.rows) > 0
                assert answer.payloads.dtype == np.float64
                for row, payload in zip(answer.rows.tolist(), answer.payloads.tolist(), strict=True):
                    rows[row][answer.version] = payload
            assert all(rows.values()), "no row without a report"
            found[part.attribute, part.group] = Counter(tuple(sorted(sent.items())) for sent in rows.values())
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
    # At one time a draw, by all of the payload: the coordinate is part of it, and so is what it reports.
    for changed in ({"coordinate": 2}, {"value": 1.0}):
        stood: Counter[bool] = Counter()
        for number in range(32):
            one = first._replace(user=b"user %d" % number)
            both = [one, one._replace(**changed)]
            chosen = drawn(both)
            stood[chosen == one] += 1
            for order in (both, both[::-1]):
                joined = join(V, batches_of(order, 1))
                assert (joined.used, joined.duplicates) == (1, 1)
                expected = {(f"v.{NAMES[chosen.coordinate]}", None): Counter({((2, chosen.value),): 1})}
                assert parts_of(joined.users) == expected
        assert stood[True] >= 6 and stood[False] >= 6
    # Another version of the service is the service; another service is not.
    other = first._replace(version=0, coordinate=0, value=0.25)
    joined = join(V, batches_of([first, other, other._replace(version=1, time=1)], 2))
    assert (joined.used, joined.duplicates) == (2, 1)
    assert parts_of(joined.users) == {
        ("v.east", None): Counter({((2, 0.5),): 1}),
        ("v.north", None): Counter({((0, 0.25),): 1}),
    }


def test_which_report_stands_does_not_depend_on_what_others_sent() -> None:
    # Two versions of a service at one time: a draw.
    stood: Counter[int] = Counter()
    for number in range(32):
        user = b"user %d" % number
        own = [Report(user, 0, 0, None, 1, 0.5, None), Report(user, 1, 0, None, 0, 2.0, None)]
        others = [Report(b"u2", 0, time, None, 2, value, None) for time, value in ((0, 0.0), (1, 0.25))]
        more = [Report(b"u3", 1, time, None, 2, value, None) for time, value in ((0, 0.0), (1, 0.25))]
        # The same as a tied one, but later or with an id; and what another service was sent.
        later = [one._replace(time=1) for one in own] + [own[0]._replace(report_id=b"r")]
        taxi = [own[0]._replace(version=2, coordinate=2)]
        chosen = drawn(own)
        stood[chosen.version] += 1
        east, north = ("v.east", None), ("v.north", None)
        for beside in ([], others, more, others + more, later, taxi, later + others + taxi):
            for order in (own + beside, beside + own, beside + own[::-1]):
                users = parts_of(join(V, batches_of(order)).users)
                assert users.get(east) == (Counter({((0, 0.5),): 1}) if chosen.version == 0 else None)
                assert users.get(north) == (Counter({((1, 2.0),): 1}) if chosen.version == 1 else None)
    assert min(stood[0], stood[1]) >= 6


def test_each_coordinate_and_report_stands_as_often_as_it_was_sent() -> None:
    # Five reports a user at one time: one coordinate thrice, and another twice with different values.
    five = [(0, 0.5), (0, 0.5), (0, 1.0), (2, 0.5), (2, -3.0)]
    many = 5_000
    some = [Report(b"user %d" % i, 2, 0, None, *one, None) for i in range(many) for one in five]
    (users,) = join(V, batches_of(some, len(some))).users
    stood = Counter(users.answers[0].payloads.tolist())
    assert stood.keys() == set(five)
    assert stood.total() == many
    for one, times in Counter(five).items():
        share = times / len(five)
        assert abs(stood[one] / many - share) < 4 * np.sqrt(share * (1 - share) / many), one


def test_the_same_report_id_on_another_coordinate_is_a_repeat() -> None:
    one = Report(b"u1", 2, 1, b"r", 1, 0.5, None)
    other = Report(b"u1", 2, 0, b"r", 2, 1.0, None)
    for order in ([one, other], [other, one]):
        kept, repeats = without_duplicate_ids(V, batches_of(order, 1))
        assert repeats == 1
        assert [batch.column("payload").to_pylist() for batch in kept] == [[other.payload]]


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


def test_the_stream_gives_a_snapshot_a_coordinate_and_group() -> None:
    rng = np.random.default_rng(1)
    some = [
        Report(
            f"u{rng.integers(60)}".encode(), version := int(rng.integers(3)), int(rng.integers(9)), None,
            int(rng.integers(3)), PAYLOADS[version][rng.integers(4)], ["here", "there"][rng.integers(2)],
        )
        for _ in range(200)
    ]  # fmt: skip
    assert len({(r.user, SERVICE[r.version], r.rank) for r in some}) < len(some), "some are tied"
    expected = {
        place: statistic_of(place[0], users) for place, users in by_dictionary(standing(some)).items()
    }
    assert len(expected) == 6

    def check(found: list[tuple[str, list[Any]]]) -> None:
        assert sorted(name for name, _ in found) == sorted(STUDY.estimated)
        statistics = {(name, s.group): s.statistic for name, snapshots in found for s in snapshots}
        assert all(s.attribute == name for name, snapshots in found for s in snapshots)
        assert statistics == expected

    for partitions, order in ((4, some), (1, some[::-1])):
        with test_pipeline.TestPipeline(runner=direct.runner()) as pipeline:
            users, _ = pipeline | beam.Create(batches_of(order, 16)) | FoldBatch(STUDY, partitions)
            assert_that(users | Aggregate(STUDY), check)


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
epsilon_cap: 0.5
"""


def test_a_run_has_an_estimate_a_coordinate_a_closed_accounting_and_one_ledger(
    tmp_path: Path,
    run_estimate: Callable[..., Any],
    write_lines: Callable[..., Path],
    simulate: Callable[..., Any],
) -> None:
    study = parse_study(ONE)
    rng, users = np.random.default_rng(2), 400
    names = [f"u{i}" for i in range(users)]
    (sent,) = simulate(study, "v", 10 * rng.random((users, 4)), seed=3, users=names)
    base = {"attribute": "v", "service": "a"}
    lines = [
        {**base, "user_id": name, "event_time": 1000 + i, "payload": payload.tobytes().hex()}
        for i, (name, payload) in enumerate(zip(names, sent.payloads, strict=True))
    ]
    drawn = sent.payloads["coordinate"].copy()
    # 30 users report once more, later, on the next coordinate; five sent no report at all.
    other = sent.payloads[:30].copy()
    other["coordinate"] = (other["coordinate"] + 1) % 4
    lines += [
        {**line, "event_time": 9000, "payload": o.tobytes().hex()}
        for line, o in zip(lines, other, strict=False)
    ]
    unknown = other[:1].copy()
    unknown["coordinate"] = 4
    outside = other[:1].copy()
    outside["report"] = 4.09
    bad = [unknown[0].tobytes().hex(), outside[0].tobytes().hex(), "00" * 11, 0.5, None]
    lines += [{**base, "user_id": f"bad{i}", "event_time": 1, "payload": p} for i, p in enumerate(bad)]
    ran = run_estimate(
        tmp_path / "a", ONE, [write_lines(tmp_path / "in.jsonl", lines)], "--max-bad-fraction", "1"
    )
    assert ran.code == 0, ran.err
    found = ran.accounting
    assert (found["in"], found["used"], found["duplicates"], found["dead_letters"]) == (435, 400, 30, 5)
    assert found["dead_letters_by_reason"] == {
        "payload_outside_mechanism": 2,
        "payload_wrong_length": 1,
        "payload_not_bytes": 1,
        "no_payload": 1,
    }
    assert [(e["attribute"], e["name"]) for e in ran.estimates] == [
        (f"v.{i}", name) for i in range(4) for name in ("mean", "shape")
    ]
    for estimate in ran.estimates:
        own = int((drawn == int(estimate["attribute"][2:])).sum())
        assert estimate["reports"] == estimate["users"] == own
    snapshots = {snapshot.attribute: snapshot.statistic for snapshot in ran.snapshots}
    assert len(snapshots) == len(ran.snapshots) == 4
    for i in range(4):
        own = sent.payloads[drawn == i]
        answers = [Answers(0, np.arange(len(own)), own["report"])]
        assert snapshots[f"v.{i}"] == tally(study.attribute(f"v.{i}"), len(own), answers)
        mean = next(e for e in ran.estimates if (e["attribute"], e["name"]) == (f"v.{i}", "mean"))
        assert mean["mean"] == pytest.approx(5 + 5 * own["report"].mean(), abs=1e-6)
    (entry,) = ran.json("ledger.json")
    assert entry["attribute"] == "v"
    assert entry["spent"] == [{"epsilon": 1.0, "users": 400}]
    assert entry["users_over_cap"] == 400
