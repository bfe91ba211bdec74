"""The fixture ``flink``, a real cluster, and what runs on it; its workers import this file too.

What is missing skips a test, with a sentence; ``LDPBEAM_REQUIRE_INTEGRATION=1`` fails it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.unbounded_source import (
    CheckpointMark,
    UnboundedReader,
    UnboundedSource,
)
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from ldpbeam.runners import flink as engine
from ldpbeam.runners.flink.cluster import Cluster
from ldpbeam.runners.flink.parts import FlinkError, fetch

REQUIRED = os.environ.get("LDPBEAM_REQUIRE_INTEGRATION") == "1"
#: In the environment of all processes of a cluster, whoever their parents are by now.
MARK = "LDPBEAM_TEST_CLUSTER"
#: Where event times of the counted source begin, and how many of its elements are a second.
START, A_SECOND = 1_700_000_000, 100
PATIENCE = 300.0


def start_cluster(folder: Path, **settings: Any) -> Cluster:
    """A cluster that is not started yet; without Java or Maven the test is skipped, or fails."""
    try:
        parts = fetch()
    except FlinkError as error:
        if REQUIRED:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    environment = {"PYTHONPATH": str(Path(__file__).parent), MARK: uuid.uuid4().hex}
    return Cluster(folder, parts, environment=environment, **settings)


@pytest.fixture(name="flink", scope="session")
def flink_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two task managers on free ports, which leaves no process behind."""
    cluster = start_cluster(tmp_path_factory.mktemp("flink"))
    with cluster:
        yield cluster
    left = processes(cluster)
    assert not left, left


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


def submit(cluster: Cluster, build: Callable[[beam.Pipeline], Any], **options: Any) -> tuple[str, Any]:
    """Start a pipeline on a cluster: the job's id there, and Beam's result."""
    before = {job["jid"] for job in cluster.rest.jobs()}
    pipeline = beam.Pipeline(
        runner=engine.runner(), options=PipelineOptions(engine.options(cluster.address, **options))
    )
    build(pipeline)
    result = pipeline.run()

    def started() -> str | None:
        new = [job["jid"] for job in cluster.rest.jobs() if job["jid"] not in before]
        return new[0] if new else None

    return wait_for(started, "the job to start"), result


def stop_with_savepoint(cluster: Cluster, job: str, folder: Path) -> str:
    """Cancel a job and keep its state; gives where."""
    asked = json.dumps({"cancel-job": True, "target-directory": folder.as_uri()}).encode()
    place = f"{cluster.rest.url}/jobs/{job}/savepoints"
    request = urllib.request.Request(place, asked, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        trigger = json.load(answer)["request-id"]

    def done() -> str | None:
        found = cluster.rest.get(f"jobs/{job}/savepoints/{trigger}")
        return found["operation"]["location"] if found["status"]["id"] == "COMPLETED" else None

    return str(wait_for(done, "the savepoint"))


def wait_for(look: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """What a look finds, as soon as it does."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"waited {patience:.0f} s for {what}")


def spread(number: int) -> Iterator[int]:
    """A hundred numbers, in the range of a number."""
    yield from range(100 * number, 100 * number + 100)


def keyed(number: int, pause: float, progress: str) -> tuple[int, int]:
    """A number by its last digit, after a pause and a note that it was reached."""
    if pause:
        with (Path(progress) / uuid.uuid4().hex).open("w"):
            time.sleep(pause)
    return number % 10, number


def one(number: int) -> tuple[str, int]:
    """A number, counted."""
    return "count", 1


def write(element: tuple[Any, int], folder: str, window: Any = beam.DoFn.WindowParam) -> None:
    """A file of what was found of a key and window, each pane a line."""
    key, found = element
    end = "all" if window == beam.window.GlobalWindow() else str(int(window.start))
    with (Path(folder) / f"{key}-{end}").open("a") as stream:
        stream.write(f"{found}\n")


def written(folder: Path) -> dict[str, list[int]]:
    """What :func:`write` wrote, by key and window."""
    return {path.name: [int(line) for line in path.read_text().split()] for path in folder.iterdir()}


class Counted(UnboundedSource):
    """The numbers 1 to ``count``, so many a second since it was made; tells in a folder what is finalised."""

    def __init__(self, count: int, rate: float, folder: str) -> None:
        self.count = count
        self.rate = rate
        self.folder = folder
        self.began = time.time()

    def split(self, desired_num_splits: int, options: Any = None) -> Iterable[UnboundedSource]:
        return [self]

    def create_reader(self, options: Any, checkpoint_mark: CheckpointMark | None) -> UnboundedReader:
        return _Reader(self, checkpoint_mark.number if isinstance(checkpoint_mark, _Mark) else 0)

    def get_checkpoint_mark_coder(self) -> beam.coders.Coder:
        return beam.coders.PickleCoder()


class _Mark(CheckpointMark):
    def __init__(self, number: int, folder: str) -> None:
        self.number = number
        self.folder = folder

    def finalize_checkpoint(self) -> None:
        (Path(self.folder) / str(self.number)).touch()


class _Reader(UnboundedReader):
    def __init__(self, source: Counted, number: int) -> None:
        self.source = source
        self.number = number

    def start(self) -> bool:
        return self.advance()

    def advance(self) -> bool:
        due = (time.time() - self.source.began) * self.source.rate
        if self.number >= min(self.source.count, due):
            return False
        self.number += 1
        return True

    def get_current(self) -> int:
        return self.number

    def get_current_timestamp(self) -> Timestamp:
        return Timestamp(START + (self.number - 1) / A_SECOND)

    def get_watermark(self) -> Timestamp:
        if self.number >= self.source.count:
            return MAX_TIMESTAMP
        return Timestamp(START + self.number / A_SECOND)

    def get_checkpoint_mark(self) -> CheckpointMark:
        return _Mark(self.number, self.source.folder)


def finalised(folder: Path) -> int:
    """The furthest number that a checkpoint was finalised for."""
    return max((int(path.name) for path in folder.iterdir()), default=0)


def said(cluster: Cluster, job: str) -> str:
    """What a job's failures were, for messages of tests."""
    return json.dumps([problem[:2000] for problem in cluster.rest.problems(job)], indent=1)
