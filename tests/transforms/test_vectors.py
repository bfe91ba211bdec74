"""Vectors in the stream: one report a user and service, and statistics of each coordinate."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.joined_reports import Answered, drawn, in_batches, tied_first

from ldpbeam import Answers, tally
from ldpbeam.domains import Vector
from ldpbeam.schemas.reports.payloads import payload_column
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Statistic
from ldpbeam.transforms.joining.coordinates import by_coordinate
from ldpbeam.transforms.joining.join import UserReports, join
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
        rows = join(V, batches_of(own, size))[0] if own else []
        accumulator = combine.add_input(accumulator, tallied(STUDY, V, rows))
    found = combine.extract_output(accumulator)
    assert found == expected
    assert sum(s.reports for s in found.values()) == len(standing(some))


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
