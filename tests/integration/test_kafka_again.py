"""A topic of Kafka that was read for an hour with the name of a field that no report has."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import new_topic, produce, remove_before
from stream_messages import MINUTE, WEEK_AGO, client, evenly, in_batches, one_by_one, reports_of, rides
from stream_runs import Left, answers, statistics_of, streaming

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 10m, allowed_lateness: 10m")
SIZE = 10 * MINUTE
IDLE = ("--stop-when-idle", "3s")
WRONG = ("--column", "user_id=uid", "--keep-bad-records")


def test_dead_letters_of_an_hour_count_once_beside_the_windows_of_other_runs(
    kafka: Any, batch_of: Any, command: Any, run_estimate: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka.address)
    options = ["--kafka", kafka.address, "--topic", topic, "--max-disorder", "1h"]
    # The names are mended within a window, in which people of both times are.
    starts, lasts = (0.0, 6.0, 12.5), (6.0, 6.5, 3.5)
    hours = [
        reports_of(STUDY, f"at-{hour}", evenly(WEEK_AGO + int(start * SIZE), int(last * SIZE), 1_200), hour)
        for hour, (start, last) in enumerate(zip(starts, lasts, strict=True))
    ]
    sent: list[Any] = []
    for hour, names in enumerate(((), WRONG, ())):
        # One service in messages of one report, and the other in Arrow streams.
        messages = [*one_by_one(hours[hour][:1]), *in_batches(hours[hour][1:])]
        produce(kafka.address, topic, messages)
        sent += messages
        if names:
            with streaming(tmp_path, STUDY, *options, *names) as killed:
                killed.wait_until_said("^run .* reading ")
                killed.wait_until(lambda stream=killed: len(stream.left.dead_letters) > 0)
                killed.end(signal.SIGKILL)
            produce(kafka.address, topic, bad := [client.Outgoing(b"{", "application/json", 1)] * 3)
            sent += bad
        with streaming(tmp_path, STUDY, *options, *names, *IDLE) as stream:
            assert stream.wait() == 0, stream.said
            left = stream.left
        assert left.accounting["dead_letters"] == (2_403 if names else 0)
        if names:
            wrong = left
    # The topic has lost them.
    remove_before(kafka.address, topic, len(sent))
    study, output = tmp_path / "study.yaml", left.output
    asked = ("estimate", "--study", study, "--again", output, "--output", output, "--max-bad-fraction", 0.1)
    ran = command(*asked)
    assert ran.code == 0, ran.err
    again = Left(output, next(path.name for path in (output / "runs").glob("again-*")))
    assert again.accounting["used"] == 2_400
    assert again.accounting["dead_letters_by_reason"] == {"not_json": 3}
    assert {letter["position"] for letter in again.dead_letters} == {
        letter["position"] for letter in wrong.dead_letters if letter["reason"] == "not_json"
    }
    of_hour = batch_of(hours[1])
    assert again.statistics == statistics_of(of_hour.snapshots)
    # Whole windows are those of a study that was right from the start.
    right = batch_of([part for hour in hours for part in hour])
    expected, estimates = answers(right.estimates), again.estimates
    assert len(estimates) == 2 * 7
    assert estimates == {key: expected[key] for key in estimates}
    rolled = tmp_path / "rolled"
    summed = command(
        "rollup", "--study", study, "--statistics", output / "statistics" / "*.avro", "--window", "10m",
        "--output", rolled,
    )  # fmt: skip
    assert summed.code == 0, summed.err
    assert statistics_of(type(right)(0, "", "", rolled).snapshots) == statistics_of(right.snapshots)
    # Again twice changes nothing.
    before = {path: path.read_bytes() for path in sorted(output.rglob("*")) if path.is_file()}
    assert command(*asked).code == 0
    assert {path: path.read_bytes() for path in sorted(output.rglob("*")) if path.is_file()} == before
    # A later run of the stream goes on as if there were no such run.
    more = reports_of(STUDY, "more", evenly(WEEK_AGO + 30 * SIZE, SIZE, 100), seed=9)
    produce(kafka.address, topic, in_batches(more))
    with streaming(tmp_path, STUDY, *options, *IDLE) as stream:
        assert stream.wait() == 0, stream.said
        assert stream.left.accounting["in"] == 200
        assert {snapshot.complete for snapshot in stream.left.snapshots.values()} == {True}
