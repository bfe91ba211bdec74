"""The fixture ``flink``, a real cluster, and what runs on it; its workers import this file too.

What is missing skips a test, with a sentence; ``LDPBEAM_REQUIRE_INTEGRATION=1`` fails it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from ports import NoServerError
from support.flink_cluster import Cluster
from support.waiting import PATIENCE, wait_until

from ldpbeam.runners import flink as engine
from ldpbeam.runners.flink.rest import FlinkError

REQUIRED = os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1"
#: In the environment of all processes of a cluster, whoever their parents are by now.
MARK = "LDPBEAM_TEST_CLUSTER"
#: The jobs here are short: the second compiler of Java and its parallel collector would cost a third of all.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def flink_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two task managers on free ports, which leaves no process behind."""
    here = Path(__file__).parent
    # Workers import the file of a test, and what that imports.
    paths = (here, here.parent, *(here.parents[1] / name for name in ("examples", "examples/stream")))
    environment = {
        "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
        "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
        MARK: uuid.uuid4().hex,
    }
    try:
        cluster = Cluster(tmp_path_factory.mktemp("flink"), environment=environment)
        cluster.start()
    except (NoServerError, FlinkError, OSError) as error:
        if REQUIRED:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    yield cluster
    cluster.stop()
    # A worker looks now and then whether its task manager is there.
    wait_until(lambda: not processes(cluster), lambda: processes(cluster), 60)


@pytest.fixture(name="flink")
def flink_for_a_test(flink_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster of all tests. What a test leaves there, jobs or a dead process, does not fail the next."""
    yield flink_cluster
    try:
        for job in unfinished(flink_cluster):
            print(f"left on the cluster: {job}, {problems(flink_cluster, job['jid'])}")
            flink_cluster.rest.cancel(job["jid"])
        wait_for(lambda: not unfinished(flink_cluster), "the jobs that the test left to end", 60)
        flink_cluster.wait()
    except (AssertionError, FlinkError) as error:
        print(f"the cluster starts again: {error}")
        flink_cluster.stop()
        flink_cluster.start()


def unfinished(cluster: Cluster) -> list[dict[str, Any]]:
    """The jobs on a cluster that have not ended."""
    return [job for job in cluster.rest.jobs() if job["state"] not in ("FINISHED", "CANCELED", "FAILED")]


def processes(cluster: Cluster) -> dict[int, str]:
    """The processes of a cluster that there are: their numbers and command lines, workers too."""
    mark = f"{MARK}={cluster.environment[MARK]}".encode()
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        # Others may end just now.
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def workers(cluster: Cluster) -> set[int]:
    """The numbers of a cluster's Python workers."""
    return {pid for pid, command in processes(cluster).items() if "ldpbeam-worker" in command}


def checkpoints(cluster: Cluster, job: str) -> dict[str, Any]:
    """The counts of a job's checkpoints, and the latest ones."""
    found: dict[str, Any] = cluster.rest.get(f"jobs/{job}/checkpoints")
    return found


def problems(cluster: Cluster, job: str) -> list[str]:
    """The stack traces of the errors that made a job fail or restart, the latest first."""
    history = cluster.rest.get(f"jobs/{job}/exceptions")["exceptionHistory"]["entries"]
    # What ends while the job restarts for another reason is listed with that.
    each = (one for entry in history for one in (entry, *entry.get("concurrentExceptions", ())))
    return [one["stacktrace"] for one in each]


def has_restarted(cluster: Cluster, job: str) -> bool:
    """Whether a job runs again after an error."""
    since = cluster.rest.get(f"jobs/{job}")["timestamps"]
    return bool(since["RUNNING"] > since["RESTARTING"] > 0)


def submit(cluster: Cluster, build: Callable[[beam.Pipeline], Any], *more: str) -> Any:
    """Start a pipeline on a cluster, with further options of Beam, and return its result."""
    given = [*engine.options(cluster.rest.address), *cluster.options[1:], *more]
    pipeline = beam.Pipeline(runner=engine.runner(), options=PipelineOptions(given))
    build(pipeline)
    return pipeline.run()


def wait_for(look: Callable[[], Any], what: str, patience: float = PATIENCE, every: float = 0.2) -> Any:
    """What a look gives, as soon as it is true."""
    return wait_until(look, lambda: what, patience, every)
