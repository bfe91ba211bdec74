"""The fixture ``flink``, a real cluster, and what runs on it; its workers import this file too.

What is missing skips a test, with a sentence; ``LDPBEAM_REQUIRE_INTEGRATION=1`` fails it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from support.flink_cluster import Cluster
from support.waiting import PATIENCE, wait_until

from ldpbeam.runners import flink as engine
from ldpbeam.runners.flink.parts import FlinkError, fetch

#: Tests and their workers import its files.
EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.append(str(EXAMPLES))
REQUIRED = os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1"
#: In the environment of all processes of a cluster, whoever their parents are by now.
MARK = "LDPBEAM_TEST_CLUSTER"
#: The jobs here are short: the second compiler of Java and its parallel collector would cost a third of all.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start_cluster(folder: Path, **settings: Any) -> Cluster:
    """A cluster that is not started yet; without Java or Maven the test is skipped, or fails."""
    try:
        parts = fetch()
    except FlinkError as error:
        if REQUIRED:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    here = Path(__file__).parent
    environment = {
        # Workers import the file of a test, and what that imports.
        "PYTHONPATH": os.pathsep.join(
            map(str, (here, here.parent, EXAMPLES, os.environ.get("PYTHONPATH", "")))
        ),
        "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
        MARK: uuid.uuid4().hex,
    }
    return Cluster(folder, parts, environment=environment, **settings)


@pytest.fixture(name="flink")
def flink_for_a_test(flink_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster of all tests. What a test leaves there, jobs or a dead process, does not fail the next."""
    yield flink_cluster
    for job in unfinished(flink_cluster):
        print(f"left on the cluster: {job}, {flink_cluster.rest.problems(job['jid'])}")
        flink_cluster.rest.cancel(job["jid"])
    try:
        wait_for(lambda: not unfinished(flink_cluster), "the jobs that the test left to end", 60)
        flink_cluster.wait()
    except (AssertionError, FlinkError) as error:
        print(f"the cluster starts again: {error}")
        flink_cluster.stop()
        flink_cluster.start()


@pytest.fixture(scope="session")
def flink_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two task managers on free ports, which leaves no process behind."""
    cluster = start_cluster(tmp_path_factory.mktemp("flink"))
    with cluster:
        yield cluster
    # A worker looks now and then whether its task manager is there.
    wait_until(lambda: not processes(cluster), lambda: processes(cluster), 60)


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


def options_of(
    cluster: Cluster, *, streaming: bool = False, savepoint: str | None = None, **options: Any
) -> PipelineOptions:
    """Beam's options for a pipeline on a cluster; a stream has checkpoints, and may go on from one."""
    given = engine.options(cluster.address, **options)
    if streaming:
        # All stages run as long as the job, so workers need not outlive them.
        given = [option for option in given if not option.startswith("--environment_cache_millis")]
        # Without the last one the first bundle may never finish, so that the source is never opened.
        given += ["--streaming", "--checkpointing_interval=2000", "--finish_bundle_before_checkpointing"]
    if savepoint is not None:
        given.append(f"--savepoint_path={savepoint}")
    return PipelineOptions(given)


def submit(cluster: Cluster, build: Callable[[beam.Pipeline], Any], **options: Any) -> None:
    """Start a pipeline on a cluster; the options are those of :func:`options_of`."""
    pipeline = beam.Pipeline(runner=engine.runner(), options=options_of(cluster, **options))
    build(pipeline)
    pipeline.run()


def wait_for(look: Callable[[], Any], what: str, patience: float = PATIENCE, every: float = 0.2) -> Any:
    """What a look gives, as soon as it is true."""
    return wait_until(look, lambda: what, patience, every)


def pause(seconds: float) -> None:
    """Work for so long."""
    time.sleep(seconds)


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        # Processes end while we look.
        with contextlib.suppress(OSError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.name))
    found: set[int] = set()
    new = [pid]
    while new:
        one = new.pop()
        found.add(one)
        new += children.get(one, [])
    return found
