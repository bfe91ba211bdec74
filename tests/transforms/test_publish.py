"""What a pane says in a line, and what its estimates are published as."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ldpbeam import tally
from ldpbeam.answers.solve import solve, sort_key
from ldpbeam.estimators import Estimate
from ldpbeam.schemas.outputs.estimates import estimate_record, json_fields
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.schemas.outputs.snapshots import Snapshot
from ldpbeam.schemas.study.yaml_file import parse_study
from ldpbeam.statistics import Answers
from ldpbeam.study import Study
from ldpbeam.transforms.outputs import publish
from ldpbeam.transforms.outputs.panes import estimate_id, pane_line
from ldpbeam.transforms.outputs.publish import ToPubSub

SECOND = 1000
FIRST_WINDOW = (0, 10 * SECOND)
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


def estimates_of(study: Study, snapshots: Sequence[Snapshot], **pane: Any) -> list[EstimateRecord]:
    """The estimates of a pane in their order, with the name of a run."""
    records = [record for own in snapshots for record in solve(study, replace(own, **pane))]
    return [replace(record, run="run-1") for record in sorted(records, key=lambda own: sort_key(study, own))]


def test_an_id_says_what_an_estimate_is_of() -> None:
    window = "1970-01-01T00:00:00Z/1970-01-01T00:00:10Z"
    assert [estimate_id(record) for record in estimates_of(GROUPED, GROUPS, pane_index=3)] == [
        f"panes/run-1/x/{name}/{window}/{group}/3"
        for group in ("group/east", "group/north", "rest")
        for name in ("all", "mean")
    ]


class Broker:
    """A publisher that keeps what it is told, and answers as a test says."""

    def __init__(self, answer: Callable[[Future[str]], None]) -> None:
        self.answer = answer
        self.told: list[tuple[str, bytes, dict[str, str]]] = []
        self.answers: list[Future[str]] = []

    def publish(self, topic: str, data: bytes, **attributes: str) -> Future[str]:
        self.told.append((topic, data, attributes))
        self.answers.append(Future())
        self.answer(self.answers[-1])
        return self.answers[-1]


def test_estimates_are_published_with_their_ids_and_again_with_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pubsub = pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    broker = Broker(lambda answer: answer.set_result("1"))
    monkeypatch.setattr(pubsub, "PublisherClient", lambda: broker)
    send = ToPubSub("projects/p/topics/estimates").open()
    estimates = estimates_of(PLAIN, PANE)
    assert len(estimates) == 2
    for _ in range(2):
        send(estimates)
    once = [
        (
            "projects/p/topics/estimates",
            json.dumps(json_fields(record)).encode(),
            {"content-type": "application/json", "id": estimate_id(record)},
        )
        for record in estimates
    ]
    assert broker.told == [*once, *once]


@pytest.mark.parametrize("refused", [True, False])
def test_a_server_that_does_not_take_an_estimate_is_named_with_its_topic(
    refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pubsub = pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    exceptions = pytest.importorskip("google.api_core.exceptions")

    def answer(future: Future[str]) -> None:
        if refused:
            future.set_exception(exceptions.NotFound("the topic is gone"))

    monkeypatch.setattr(pubsub, "PublisherClient", lambda: Broker(answer))
    monkeypatch.setattr(publish, "PATIENCE", 0.0)
    said = "the topic is gone" if refused else "no answer for 0 seconds"
    with pytest.raises(OSError, match=f"^projects/p/topics/estimates: {said}$"):
        ToPubSub("projects/p/topics/estimates").open()(estimates_of(PLAIN, PANE))


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
