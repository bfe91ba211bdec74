"""``Estimate(study)`` of a stream of Kafka on a Flink cluster, beside ``ldpbeam estimate``."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beam_stream as example
import flink as jobs
import pytest
from flink import REQUIRED, submit
from kafka_io import expansion_service
from kafka_messages import new_topic, produce, remove_before
from ports import NoServerError
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from support.beam_reports import rows_of
from support.flink_cluster import Cluster

import ldpbeam as ldp

pytestmark = pytest.mark.slow

#: Beam's reader of Kafka takes the clock for the watermark once it has read everything: then reports of last
#: week are late, and change panes that have fired.
STUDY = rides("size: 10m, allowed_lateness: 30d")
PARTITIONS = 2
#: All stages of a stream run as long as the job, so workers need not outlive them. Without the last option
#: the first bundle may never finish, so that the source is never opened.
STREAMING = (
    "--streaming", "--checkpointing_interval=2000", "--environment_cache_millis=0",
    "--finish_bundle_before_checkpointing",
)  # fmt: skip
KEY = ("attribute", "window_start", "group", "estimate")


def rows(folder: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The last row that was written of each estimate, without its pane."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    found = {tuple(row[name] for name in KEY): row for row in map(json.loads, lines)}
    return {key: row | {"pane_index": 0, "pane_timing": "on_time"} for key, row in found.items()}


def expected(run: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a run of ``ldpbeam estimate``."""
    dicts = [json.loads(json.dumps(ldp.beam.as_dict(row))) for row in rows_of(run.estimates)]
    return {tuple(row[name] for name in KEY): row for row in dicts}


@pytest.fixture(scope="module")
def java() -> Iterator[str]:
    """The address of an expansion service for Beam's reader of Kafka."""
    try:
        with expansion_service() as address:
            yield address
    except NoServerError as error:
        if REQUIRED:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def newest_checkpoint(cluster: Cluster) -> str:
    """The folder of the newest complete checkpoint of a cluster's only stream."""
    paths = (cluster.folder / "checkpoints").glob("*/chk-*/_metadata")
    return max(paths, key=lambda path: path.stat().st_mtime_ns).parent.as_uri()


def test_a_stream_of_kafka_loses_and_repeats_nothing_when_a_task_and_a_job_manager_are_killed(
    flink: Cluster, kafka: Any, java: str, batch_of: Any, tmp_path: Path
) -> None:
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text(STUDY)
    # Brokers take the times of messages for their age.
    topic = new_topic(kafka.address, PARTITIONS, retention_ms="-1")
    given = Namespace(
        study=str(study), kafka=kafka.address, topic=topic, expansion_service=java, output=str(out)
    )
    sent = reports_of(STUDY, "people", evenly(WEEK_AGO, 30 * MINUTE, 900), seed=1)
    messages = by_time(one_by_one(sent))
    # Windows of ten minutes: each part has some of the reports of one of them.
    parts = [messages[:500], messages[500:1_000], messages[1_000:]]

    def send(part: list[Any]) -> None:
        times = {id(message): json.loads(message.data)["event_time"] for message in part}
        produce(kafka.address, topic, part, PARTITIONS, time_of=lambda message: times[id(message)])

    def start(*more: str) -> str:
        submit(flink, lambda pipeline: example.build(pipeline, given), *STREAMING, *more)
        return jobs.wait_for(lambda: jobs.unfinished(flink), "the job")[0]["jid"]

    def wait(job: str, reports: int) -> None:
        """Wait until so many reports are estimated, and the state that says so is safe."""

        def counted() -> bool:
            assert flink.rest.get(f"jobs/{job}")["state"] != "FAILED", jobs.problems(flink, job)
            means = [row for row in rows(out / "estimates").values() if row["estimate"] == "mean"]
            return sum(row["reports"] for row in means) == reports

        jobs.wait_for(counted, f"{reports} reports")
        begun = max((each["id"] for each in jobs.checkpoints(flink, job)["history"]), default=0)

        def safe() -> bool:
            completed = jobs.checkpoints(flink, job)["latest"]["completed"]
            return completed is not None and completed["id"] > begun

        jobs.wait_for(safe, "a checkpoint")
        # A job that begins anew could not read them again.
        for partition in range(PARTITIONS):
            remove_before(kafka.address, topic, reports // PARTITIONS, partition)

    send(parts[0])
    job = start()
    wait(job, 500)
    send(parts[1])
    flink.kill_task_manager()
    flink.start_task_manager()
    wait(job, 1_000)
    assert jobs.checkpoints(flink, job)["counts"]["restored"] >= 1
    flink.kill_job_manager()
    checkpoint = newest_checkpoint(flink)
    flink.start_job_manager()
    flink.wait()
    send(parts[2])
    wait(start(f"--savepoint_path={checkpoint}"), 1_800)
    assert rows(out / "estimates") == expected(batch_of(sent))
    assert not (out / "dead_letters").exists()
