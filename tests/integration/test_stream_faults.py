"""What goes wrong with a stream: a stop, a kill."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
import pytest
from listeners import listeners
from stream_messages import (
    MINUTE,
    WEEK_AGO,
    by_time,
    evenly,
    in_batches,
    one_by_one,
    publish,
    pulled,
    reports_of,
    rides,
)
from stream_runs import Left, answers, closes, statistics_of, streaming
from support.waiting import wait_until

from ldpbeam.schemas.outputs.checked import record_of
from ldpbeam.schemas.outputs.records import EstimateRecord
from ldpbeam.transforms.outputs.panes import estimate_id

if TYPE_CHECKING:
    from pubsub_server import PubSubServer

pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
pytestmark = pytest.mark.slow

#: Long enough that no window closes by the clock alone.
STUDY = rides("size: 10m, allowed_lateness: 10m")
SIZE = 10 * MINUTE
IDLE = ("--stop-when-idle", "3s")


def window(number: int) -> tuple[int, int]:
    return WEEK_AGO + number * SIZE, WEEK_AGO + (number + 1) * SIZE


def count(sent: Sequence[Any]) -> int:
    return sum(len(part.times) for part in sent)


def timings(left: Left) -> dict[tuple[int, int], tuple[str, bool]]:
    """Of each window, in which pane it stands and whether it is complete."""
    return {s.window: (s.pane_timing, s.complete) for s in left.snapshots.values() if s.window is not None}


def test_a_stream_that_is_asked_to_stop_gives_back_what_it_did_not_take_and_goes_on(
    own_pubsub: PubSubServer, topic_and_subscription: Any, batch_of: Any, tmp_path: Path
) -> None:
    # With so long a deadline the next process finds what was given back, and nothing else.
    names = topic_and_subscription(own_pubsub.address, ack_deadline_seconds=600)
    half = WEEK_AGO + 2 * SIZE + SIZE // 2
    first = reports_of(STUDY, "first", evenly(WEEK_AGO, half - WEEK_AGO, 3_000), seed=1)
    burst = reports_of(STUDY, "burst", evenly(half, SIZE // 4, 5_000), seed=2)
    after = reports_of(STUDY, "after", evenly(half, SIZE // 2, 200), seed=3)
    options = ["--subscription", names.subscription, "--max-disorder", "10s"]
    publish(names.topic, by_time(in_batches(first)))
    with streaming(tmp_path, STUDY, *options) as stream:
        stream.wait_until_said(" on time: ", times=2)
        publish(names.topic, one_by_one(burst))
        assert stream.end(signal.SIGTERM) == 0, stream.said
        one = stream.left
        wait_until(lambda: stream.processes() == [])
        stopped = one.accounting
    assert own_pubsub.counts(names.subscription).outstanding == 0
    assert timings(one) == {window(0): ("on_time", True), window(1): ("on_time", True)}
    assert closes(stopped) and stopped["in_open_windows"] > 0
    assert "run the same command to continue" in " ".join(stream.said.split())
    publish(names.topic, one_by_one(after))
    with streaming(tmp_path, STUDY, *options, *IDLE) as again:
        assert again.wait() == 0, again.said
        two = again.left
    assert own_pubsub.counts(names.subscription).unacked == 0
    assert two.run == one.run and f"run {one.run} continues" in again.said
    assert timings(two) == {window(number): ("on_time", True) for number in range(3)}
    sent = [*first, *burst, *after]
    assert two.accounting["in"] == two.accounting["used"] == count(sent)
    batch = batch_of(sent)
    assert two.statistics == statistics_of(batch.snapshots)
    assert two.estimates == answers(batch.estimates)


def test_a_stream_that_is_killed_loses_nothing_and_publishes_nothing_else_again(
    own_pubsub: PubSubServer, topic_and_subscription: Any, batch_of: Any, tmp_path: Path
) -> None:
    names = topic_and_subscription(own_pubsub.address, ack_deadline_seconds=10)
    told = topic_and_subscription(own_pubsub.address)
    # With 30 minutes of disorder, reports up to 55 minutes close two windows of ten and leave four open.
    middle, end = WEEK_AGO + 25 * MINUTE, WEEK_AGO + 55 * MINUTE
    first = reports_of(STUDY, "first", evenly(WEEK_AGO, end - WEEK_AGO, 3_300), seed=1)
    burst = reports_of(STUDY, "burst", evenly(middle, end - middle, 3_000), seed=2)
    after = reports_of(STUDY, "after", evenly(WEEK_AGO + 7 * SIZE, SIZE, 100), seed=3)
    options = ["--subscription", names.subscription, "--max-disorder", "30m", "--publish-to", told.topic]

    def counts() -> Any:
        return own_pubsub.counts(names.subscription)

    publish(names.topic, by_time(in_batches(first)))
    with streaming(tmp_path, STUDY, *options) as stream:
        stream.wait_until_said(" on time: ", times=2)
        published = pulled(told.subscription, 4)
        stream.wait_until(lambda: counts().unacked == 0)
        publish(names.topic, one_by_one(burst))
        stream.end(signal.SIGKILL)
        one = stream.left
    assert_whole(one.output)
    of_first = statistics_of(batch_of(first).snapshots)
    closed = [window(0), window(1)]
    assert timings(one) == dict.fromkeys(closed, ("on_time", True))
    assert one.statistics == {place: own for place, own in of_first.items() if place[1] in closed}
    # Nobody holds them any more, but the server only knows when their deadlines have passed.
    wait_until(lambda: counts().outstanding == 0)
    publish(names.topic, one_by_one(after))
    with streaming(tmp_path, STUDY, *options, *IDLE) as again:
        assert again.wait() == 0, again.said
        two = again.left
    assert counts().unacked == 0 and two.run == one.run
    sent = [*first, *burst, *after]
    batch = batch_of(sent)
    assert (two.accounting["used"], closes(two.accounting)) == (count(sent), True)
    assert two.statistics == statistics_of(batch.snapshots)
    assert two.estimates == answers(batch.estimates)
    assert set(timings(two).values()) == {("on_time", True)}
    assert_whole(two.output)
    # What no manifest says was published is published again: the same id has the same bytes.
    while len({message.attributes["id"] for message in published}) < len(two.records):
        more = pulled(told.subscription, 1)
        assert more, "an estimate was not published"
        published += more
    said = {(message.attributes["id"], message.data) for message in published}
    assert len(said) == len(two.records)
    assert {name: json.loads(data) for name, data in said} == {
        estimate_id(record_of(EstimateRecord, record)): record for record in two.records
    }


def assert_whole(output: Path) -> None:
    """Whatever a reader could take for an output can be read."""
    for path in output.rglob("*"):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.suffix == ".avro":
            with path.open("rb") as stream:
                assert list(fastavro.reader(stream))
        elif path.suffix == ".parquet":
            assert pq.read_table(path).num_rows
        elif path.suffix in (".arrow", ".panes"):
            assert path.stat().st_size
        else:
            assert path.suffix in (".json", ".jsonl"), path
            by_line = path.suffix == ".jsonl" or path.name == "manifest.json"
            lines = path.read_text().splitlines() if by_line else [path.read_text()]
            assert all(map(json.loads, lines))


def test_a_stream_listens_on_nothing_and_leaves_no_process_when_it_is_killed(
    own_pubsub: PubSubServer, topic_and_subscription: Any, tmp_path: Path
) -> None:
    names = topic_and_subscription(own_pubsub.address)
    with streaming(tmp_path, STUDY, "--subscription", names.subscription) as stream:
        stream.wait_until_said("^run .* reading ")
        # The one that solves.
        stream.wait_until(lambda: len(stream.processes()) > 1)
        assert listeners(stream.processes()) == set()
        stream.end(signal.SIGKILL)
        wait_until(lambda: stream.processes() == [])
