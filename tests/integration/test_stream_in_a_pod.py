"""The pod of ``runners/kubernetes/stream.yaml`` as a process of this machine, with what its image starts.

Its paths are folders of the test, and its port and its broker are others; nothing here is a container.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_messages import new_topic, produce
from stream_messages import MINUTE, WEEK_AGO, by_time, evenly, one_by_one, reports_of, rides
from stream_runs import Left, Stream, statistics_of
from support.operators import image_of, object_of

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytestmark = pytest.mark.slow

STUDY = rides("size: 1m, allowed_lateness: 1m")
PARTITIONS = 3
POD = object_of("stream.yaml", "Deployment")["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


class Node:
    """A machine that runs the pod: a volume that outlives it, and an address."""

    def __init__(self, folder: Path, volume: Path, study: Path, broker: str, topic: str) -> None:
        (named,) = CONTAINER["ports"]
        with socket.create_server(("localhost", 0)) as free:
            self.port = free.getsockname()[1]
        self.volume, self.log, self.home = volume, folder / "said", folder / "home"
        (folder / "tmp").mkdir(parents=True)
        self.home.mkdir()
        self._here = {
            "/etc/commute": str(study), "/srv/commute": str(volume), "/tmp": str(folder / "tmp"),
            "--kafka=kafka:9092": f"--kafka={broker}", "--topic=reports": f"--topic={topic}",
            f"--metrics-port={named['containerPort']}": f"--metrics-port={self.port}",
        }  # fmt: skip
        # Every mount of the manifest has a folder here.
        assert {mount["mountPath"] for mount in CONTAINER["volumeMounts"]} <= self._here.keys()

    def _mapped(self, text: str) -> str:
        return re.sub("|".join(map(re.escape, self._here)), lambda there: self._here[there[0]], text)

    @contextlib.contextmanager
    def pod(self) -> Iterator[Stream]:
        """What the container starts, with its variables and no others."""
        program, *first = image_of("stream").entrypoint
        variables = {each["name"]: self._mapped(each["value"]) for each in CONTAINER["env"]}
        with self.log.open("wb") as said:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name(program)), *first, *map(self._mapped, CONTAINER["args"])],
                stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=self.home,
                env={"PATH": os.environ["PATH"], "HOME": str(self.home), **variables},
            )  # fmt: skip
        try:
            yield Stream(process, self.log, self.volume / "out", "")
        finally:
            process.kill()
            process.wait()

    def probe(self, name: str) -> bool:
        """Whether a probe succeeds."""
        url = f"http://localhost:{self.port}{CONTAINER[name]['httpGet']['path']}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return int(answer.status) == 200
        except (urllib.error.URLError, ConnectionError):
            return False


def test_a_pod_is_killed_and_the_next_node_goes_on_until_it_is_told_to_end(
    kafka: Any, batch_of: Any, tmp_path: Path
) -> None:
    topic, volume, study = new_topic(kafka.address, PARTITIONS), tmp_path / "volume", tmp_path / "study"
    volume.mkdir()
    study.mkdir()
    (study / "study.yaml").write_text(STUDY)
    # Those who come last close the windows of the others.
    sent, others, last = (
        reports_of(STUDY, who, evenly(WEEK_AGO + start * MINUTE, 3 * MINUTE, people), seed=start)
        for who, start, people in (("before", 0, 300), ("after", 4, 300), ("last", 20, 30))
    )
    produce(kafka.address, topic, by_time(one_by_one(sent)), PARTITIONS)
    first, second = (Node(tmp_path / name, volume, study, kafka.address, topic) for name in ("one", "two"))
    with first.pod() as stream:
        # From then on, SIGTERM stops it: what takes long is done.
        stream.wait_until_said('"event": "started"')
        assert (volume / "report.html").exists()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            stream.wait_until(lambda probe=probe: first.probe(probe))
        # A second pod on the folder ends, and says why.
        with Node(tmp_path / "three", volume, study, kafka.address, topic).pod() as other:
            assert other.wait() == 2
            assert "another run is writing there now" in other.said
        stream.end(signal.SIGKILL)
    produce(kafka.address, topic, by_time(one_by_one(others)), PARTITIONS)
    produce(kafka.address, topic, by_time(one_by_one(last)), PARTITIONS)
    batch = statistics_of(batch_of([*sent, *others]).snapshots)
    with second.pod() as stream:
        stream.wait_until(lambda: second.probe("readinessProbe"))
        (run,) = (volume / "out" / "runs").iterdir()
        left = Left(volume / "out", run.name)
        stream.wait_until(lambda: batch.keys() <= left.statistics.keys())
        assert stream.end(signal.SIGTERM) == 0, stream.said
    assert stream.said.count('"event": "ended"') == 1
    assert {place: left.statistics[place] for place in batch} == batch
    # The window of those who come last is open.
    assert (left.accounting["in"], left.accounting["used"]) == (2 * 630, 2 * 600)
    assert left.accounting["in_open_windows"] == 2 * 30
    # The image is read-only, and its account's home with it.
    assert not [*first.home.iterdir(), *second.home.iterdir()]
