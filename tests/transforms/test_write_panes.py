"""The last stage of a stream: what a pane leaves in files, says in a line, and is published as."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam import tally
from ldpbeam.answers.solve import solve, sort_key
from ldpbeam.beam.solve_windows import SolveWindow
from ldpbeam.estimators import Estimate
from ldpbeam.schemas.outputs.estimates import estimate_record, json_fields
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot, read_snapshots
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.study import Study
from ldpbeam.transforms.outputs import panes
from ldpbeam.transforms.outputs.panes import (
    PANES,
    Publish,
    WritePaneEstimates,
    WritePaneStatistics,
    estimate_id,
    pane_line,
)
from ldpbeam.transforms.reports.counts import COUNTS, NOT_BEGUN
from ldpbeam.transforms.state.journal import Journal
from ldpbeam.transforms.state.records import Incomplete, OpenWindow

SECOND = 1000
FIRST_WINDOW, SECOND_WINDOW = (0, 10 * SECOND), (10 * SECOND, 20 * SECOND)
TEXT = """\
study: panes
attributes:
  x:
    domain: %s
    buckets: 16
    services: {maps: {mechanism: piecewise, epsilon: 2.0}}
    estimates: {all: {estimator: ems}, mean: {estimator: ivw}}
windows: {size: 10s}
intervals: false
"""
PLAIN = parse_study(TEXT % "{numeric: [0, 10]}")
GROUPED = parse_study(TEXT % "{numeric: [0, 10]}" + "groups: {field: region, at_most: 2}\n")
VECTOR = parse_study(TEXT % "{coordinates: [north, up], values: [0, 10]}")


def snapshot(
    study: Study,
    name: str = "x",
    window: tuple[int, int] = FIRST_WINDOW,
    group: str | None = None,
    other_groups: int = 0,
    people: int = 40,
) -> Snapshot:
    attribute, rng = study.attribute(name), np.random.default_rng(people)
    reports = attribute.versions[0].mechanism.perturb(rng.triangular(0, 3, 10, people), rng)
    statistic = tally(attribute, people, [Answers(0, np.arange(people), reports)])
    return Snapshot(name, window, group, other_groups, statistic)


PANE = [snapshot(PLAIN)]
GROUPS = [
    snapshot(GROUPED, group="east"),
    snapshot(GROUPED, group="north", people=30),
    snapshot(GROUPED, other_groups=3, people=20),
]


class Writing:
    """The stage of one run, and what it leaves in the output folder."""

    def __init__(self, output: Path, study: Study, run: str, incomplete: Sequence[OpenWindow]) -> None:
        self.output, self.study, self.run = output, study, run
        self.statistics = WritePaneStatistics(study, str(output), run, Incomplete(frozenset(incomplete)))
        self.estimates = WritePaneEstimates(study, str(output), run)
        self.solver = SolveWindow(study)
        self.solver.setup()

    def write(self, snapshots: Sequence[Snapshot], **pane: Any) -> list[dict[str, Any]]:
        """What is handed on of a pane."""
        own = [replace(snapshot, **pane) for snapshot in snapshots]
        return [json_fields(record) for record in self.process((own[0].attribute, own))]

    def process(self, element: tuple[str, list[Snapshot]]) -> Iterator[EstimateRecord]:
        """What the three stages, one after the other, hand on of a pane."""
        for judged in self.statistics.process(element):
            for solved in self.solver.process(judged):
                yield from self.estimates.process(solved)

    def stop(self, second: float | None, reader: int = 0) -> None:
        """The run is asked to stop, with its watermark at that second."""
        journal = Journal(str(self.output), self.run, reader, 0)
        journal.stop(None if second is None else round(second * SECOND))

    @property
    def names(self) -> set[str]:
        """Of all files, without the journals."""
        paths = (path.relative_to(self.output) for path in self.output.rglob("*") if path.is_file())
        return {str(path) for path in paths if path.parts[0] != "runs"}

    def records(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.output / "estimates" / name).read_text().splitlines()]

    def snapshots(self, name: str) -> list[Snapshot]:
        with (self.output / "statistics" / name).open("rb") as stream:
            return list(read_snapshots(stream))


Write = Callable[..., Writing]


@pytest.fixture
def writing(tmp_path: Path) -> Write:
    """The stage of a run: (study, run, incomplete windows)."""

    def make(study: Study = PLAIN, run: str = "run-1", incomplete: Sequence[OpenWindow] = ()) -> Writing:
        return Writing(tmp_path, study, run, incomplete)

    return make


NAME = "panes-x-19700101T000000Z-19700101T000010Z.run-1"


def files_of(name: str) -> set[str]:
    """The files of a window."""
    tables = (f"tables/{kind}/{name}.parquet" for kind in ("estimates", "distribution"))
    return {f"statistics/{name}.avro", f"estimates/{name}.jsonl", *tables}


def test_all_files_are_there_before_an_estimate_is_handed_on(writing: Write) -> None:
    own = writing()
    given = own.process(("x", PANE))
    assert own.names == set()
    first = json_fields(next(iter(given)))
    assert own.names == files_of(NAME)
    assert own.records(f"{NAME}.jsonl")[0] == first
    assert own.snapshots(f"{NAME}.avro") == PANE


def test_the_records_are_those_of_a_batch_run_with_the_runs_name(writing: Write) -> None:
    own = writing(GROUPED)
    given = own.write(list(reversed(GROUPS)))
    expected = [record for snapshot in GROUPS for record in solve(GROUPED, snapshot)]
    expected.sort(key=lambda record: sort_key(GROUPED, record))
    assert len(given) == 2 * 3
    assert given == [json_fields(replace(record, run="run-1")) for record in expected]
    assert {record["run"] for record in given} == {"run-1"}
    assert own.records(f"{NAME}.jsonl") == given


def test_what_cannot_be_written_is_not_handed_on(writing: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError("no space")

    own = writing()
    monkeypatch.setattr("ldpbeam.transforms.outputs.estimates.write_json_lines", full_disk)
    given = own.process(("x", PANE))
    with pytest.raises(OSError, match="no space"):
        next(iter(given))
    assert own.names == {f"statistics/{NAME}.avro"}


def test_each_pane_replaces_the_one_before_it(writing: Write) -> None:
    own = writing()
    own.write(PANE, pane_timing="early")
    own.write(PANE, pane_index=1)
    given = own.write(PANE, pane_index=2, pane_timing="late")
    assert own.names == files_of(NAME)
    assert own.records(f"{NAME}.jsonl") == given
    assert {(record["pane_index"], record["pane_timing"]) for record in given} == {(2, "late")}
    assert own.snapshots(f"{NAME}.avro") == [
        replace(snapshot, pane_index=2, pane_timing="late") for snapshot in PANE
    ]


def test_a_pane_leaves_other_windows_attributes_and_runs_alone(writing: Write) -> None:
    own = writing(VECTOR)
    for name in ("x.north", "x.up"):
        for window in (FIRST_WINDOW, SECOND_WINDOW):
            own.write([snapshot(VECTOR, name, window)])
    assert len(own.names) == len(files_of("")) * 4
    before = own.names
    other = writing(VECTOR, "run-2")
    other.write([snapshot(VECTOR, "x.up")])
    name = "panes-x.up-19700101T000000Z-19700101T000010Z.run-2"
    assert other.names - before == files_of(name)
    assert {record["run"] for record in other.records(f"{name}.jsonl")} == {"run-2"}


@pytest.mark.parametrize("timing", ["on_time", "late"])
def test_windows_that_an_earlier_run_left_open_are_incomplete(timing: str, writing: Write) -> None:
    left = [OpenWindow("x", *FIRST_WINDOW), OpenWindow("y", *SECOND_WINDOW)]
    own = writing(GROUPED, incomplete=left)
    given = own.write(GROUPS, pane_timing=timing)
    assert {(record["pane_timing"], record["complete"]) for record in given} == {(timing, False)}
    assert {(s.pane_timing, s.complete) for s in own.snapshots(f"{NAME}.avro")} == {(timing, False)}
    later = own.write([snapshot(GROUPED, window=SECOND_WINDOW, group="east")])
    assert {record["complete"] for record in later} == {True}


def test_the_coordinates_of_a_vector_are_in_the_windows_of_its_attribute(writing: Write) -> None:
    own = writing(VECTOR, incomplete=[OpenWindow("x", *FIRST_WINDOW)])
    for name in ("x.north", "x.up"):
        for window in (FIRST_WINDOW, SECOND_WINDOW):
            given = own.write([snapshot(VECTOR, name, window)])
            assert {record["attribute"] for record in given} == {name}
            assert {record["complete"] for record in given} == {window != FIRST_WINDOW}


@pytest.mark.parametrize("timing", ["early", "on_time", "late"])
@pytest.mark.parametrize(
    ("stopped", "closed"), [(9.999, False), (10, True), (10.001, True), (None, False), (-5, False)]
)
def test_windows_that_had_not_closed_when_the_run_was_stopped_are_early_and_incomplete(
    stopped: float | None, closed: bool, timing: str, writing: Write
) -> None:
    own = writing()
    own.stop(stopped)
    given = own.write(PANE, pane_timing=timing)
    expected = (timing, timing != "early") if closed else ("early", False)
    assert {(record["pane_timing"], record["complete"]) for record in given} == {expected}
    assert {(s.pane_timing, s.complete) for s in own.snapshots(f"{NAME}.avro")} == {expected}


def test_a_window_that_had_not_begun_when_the_run_ended_is_counted_and_not_published(
    writing: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panes.time, "time", lambda: 5.0)
    writer = writing()
    tomorrow = replace(PANE[0], window=SECOND_WINDOW)
    # While the run goes on, only early panes come of such a window.
    assert list(writer.statistics.process(("x", [replace(tomorrow, pane_timing="early")]))) == []
    Journal(str(writer.output), writer.run, 0, 0).end(5 * SECOND)
    (counted,) = writer.statistics.process(("x", [tomorrow]))
    assert (counted.tag, counted.value) == (COUNTS, (NOT_BEGUN, tomorrow.statistic.reports))
    assert writer.names == set()
    # One that has begun, however little of it is over, is published.
    monkeypatch.setattr(panes.time, "time", lambda: 9.0)
    Journal(str(writer.output), writer.run, 1, 0).end(10 * SECOND)
    assert len(writer.write([tomorrow])) == 2


def test_a_window_that_began_before_messages_were_found_to_be_lost_is_incomplete(writing: Write) -> None:
    own = writing()
    journal = Journal(str(own.output), own.run, 0, 0)
    journal.begin({0: 0})
    journal.lose(SECOND_WINDOW[0])
    judged = [
        snapshots[0].complete
        for window in (PANE[0].window, SECOND_WINDOW)
        for _, snapshots in own.statistics.process(("x", [replace(PANE[0], window=window)]))
    ]
    assert judged == [False, True]


def test_an_id_says_what_an_estimate_is_of(writing: Write) -> None:
    given = writing(GROUPED).process(("x", [replace(own, pane_index=3) for own in GROUPS]))
    window = "1970-01-01T00:00:00Z/1970-01-01T00:00:10Z"
    assert [estimate_id(record) for record in given] == [
        f"panes/run-1/x/{name}/{window}/{group}/3"
        for group in ("group/east", "group/north", "rest")
        for name in ("all", "mean")
    ]


class Broker:
    """A publisher that keeps what it is told, and answers as a test says."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes, dict[str, str]]] = []
        self.answers: list[Future[str]] = []

    def publish(self, topic: str, data: bytes, **attributes: str) -> Future[str]:
        self.told.append((topic, data, attributes))
        self.answers.append(Future())
        return self.answers[-1]


def test_estimates_are_published_with_their_ids_and_a_bundle_waits_for_them(
    writing: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    pubsub = pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    broker = Broker()
    monkeypatch.setattr(pubsub, "PublisherClient", lambda: broker)
    own = writing()
    publish = Publish("projects/p/topics/estimates")
    publish.setup()
    estimates = list(own.process(("x", PANE)))
    texts = (own.output / "estimates" / f"{NAME}.jsonl").read_text().splitlines()
    publish.start_bundle()
    for solved in estimates:
        assert publish.process(solved) is None
    assert [(topic, data.decode()) for topic, data, _ in broker.told] == [
        ("projects/p/topics/estimates", text) for text in texts
    ]
    assert [attributes for _, _, attributes in broker.told] == [
        {"content-type": "application/json", "id": estimate_id(record)} for record in estimates
    ]
    first, *rest = broker.answers
    first.set_exception(OSError("the topic is gone"))
    for answer in rest:
        answer.set_result("1")
    with pytest.raises(OSError, match="the topic is gone"):
        publish.finish_bundle()
    # The bundle is done again: the same ids, with the same bytes.
    publish.start_bundle()
    for solved in estimates:
        publish.process(solved)
    for answer in broker.answers[len(texts) :]:
        answer.set_result("1")
    publish.finish_bundle()
    assert broker.told[len(texts) :] == broker.told[: len(texts)]


@pytest.mark.parametrize("refused", [True, False])
def test_a_server_that_does_not_take_an_estimate_is_named_with_its_topic(
    refused: bool, writing: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    pubsub = pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    exceptions = pytest.importorskip("google.api_core.exceptions")
    broker = Broker()
    monkeypatch.setattr(pubsub, "PublisherClient", lambda: broker)
    monkeypatch.setattr(panes, "PATIENCE", 0.0)
    publish = Publish("projects/p/topics/estimates")
    publish.setup()
    publish.start_bundle()
    publish.process(next(iter(writing().process(("x", PANE)))))
    if refused:
        broker.answers[0].set_exception(exceptions.NotFound("the topic is gone"))
    said = "the topic is gone" if refused else "no answer for 0 seconds"
    with pytest.raises(OSError, match=f"^projects/p/topics/estimates: {said}$"):
        publish.finish_bundle()


def told(name: str, mean: float | None, group: str | None = None) -> EstimateRecord:
    return estimate_record(
        PLAIN, replace(PANE[0], group=group), name, Estimate("em", ("maps",), 40, 40, mean=mean)
    )


def line(*snapshots: Snapshot, **pane: Any) -> str:
    own = [replace(snapshot, **pane) for snapshot in snapshots]
    return pane_line(own, [told("mean", 4.1234567), told("shares", None), told("all", 2.0)])


def test_a_pane_is_told_in_a_line() -> None:
    span, means = "x 1970-01-01T00:00:00Z to 1970-01-01T00:00:10Z", ": mean 4.12346, all 2"
    counted = "40 reports of 40 users"
    assert line(*PANE) == f"{span} on time: {counted}{means}"
    assert line(*PANE, pane_index=2) == f"{span} on time 2: {counted}{means}"
    assert line(*PANE, pane_timing="late", pane_index=1) == f"{span} late 1: {counted}{means}"
    assert line(*PANE, complete=False) == f"{span} on time (incomplete): {counted}{means}"
    # An early pane is never complete, which its name says.
    assert line(*PANE, pane_timing="early", complete=False) == f"{span} early: {counted}{means}"
    assert pane_line(PANE, []) == f"{span} on time: {counted}"
    large = replace(PANE[0].statistic, reports=1_234_567, users=None)
    assert line(replace(PANE[0], statistic=large)) == f"{span} on time: 1,234,567 reports{means}"
    single = replace(PANE[0].statistic, reports=1, users=1)
    assert line(replace(PANE[0], statistic=single)) == f"{span} on time: 1 report of 1 user{means}"


def test_the_line_of_a_pane_adds_up_its_groups_and_leaves_their_means_out() -> None:
    assert pane_line(GROUPS, [told("mean", 1.0, "north")]).endswith(" on time: 90 reports of 90 users")


def test_the_line_is_told_when_the_files_are_there(writing: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    own, lines = writing(), []

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((record.getMessage(), own.names))

    teller = Teller()
    monkeypatch.setattr(PANES, "handlers", [teller])
    monkeypatch.setattr(PANES, "level", logging.INFO)
    PANES.manager._clear_cache()
    given = list(own.process(("x", PANE)))
    ((text, names),) = lines
    assert text == pane_line(PANE, given)
    assert names == files_of(NAME)
