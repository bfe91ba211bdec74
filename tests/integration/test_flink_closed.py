"""Flink on this machine serves the account that started it, and nobody else; each other account is nobody."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import flink as jobs
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from listeners import NOBODY, Listener, listeners, tried_as
from support.flink_cluster import Cluster

from ldpbeam.runners import flink as engine

pytestmark = pytest.mark.slow

#: Seconds that tasks last, more than it takes to try everything.
WORKING = 600.0
#: A program for Flink's REST API.
MARKING = """
public class Marking {
  public static void main(String[] arguments) throws Exception {
    java.nio.file.Files.writeString(java.nio.file.Paths.get("%s"), "here");
  }
}
"""


class Tried(NamedTuple):
    """What happened while a job ran.

    Attributes:
        listening: on what the job's processes listened.
        worked: what a stranger succeeded in, by kind.
        marks: the marks that what the stranger sent has left.
        ours: what the account succeeded in that the job belongs to.
    """

    listening: set[Listener]
    worked: dict[str, list[Any]]
    marks: list[str]
    ours: dict[str, list[Any]]


@pytest.fixture(scope="module", params=["cluster", "local"])
def tried(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """A job that runs on a cluster, or in a job server's own, while another account tries everything."""
    if os.geteuid() != 0:
        sentence = "only root can become another account; run the tests as root"
        pytest.fail(sentence, pytrace=False) if jobs.REQUIRED else pytest.skip(sentence)
    folder = tmp_path_factory.mktemp("tried")
    began = folder / "began"
    began.mkdir()
    on_cluster = request.param == "cluster"
    cluster: Cluster | None = request.getfixturevalue("flink_cluster") if on_cluster else None
    pipeline = beam.Pipeline(
        runner=engine.runner(),
        options=PipelineOptions(engine.options(cluster.address if cluster else engine.LOCAL)),
    )
    _ = pipeline | beam.Create([str(began)]) | beam.Map(_work)
    result = pipeline.run()
    try:
        jobs.wait_for(lambda: list(began.iterdir()), "a worker")
        listening = listeners(jobs.family(os.getpid()))
        private = [str(cluster.folder)] if cluster else []
        private += sorted({str(Path(found.place).parent) for found in listening if found.port is None})
        yield _try_everything(folder, listening, private)
    finally:
        (began / "stop").touch()
        if cluster is not None:
            # A batch job that is cancelled while its worker is busy may leave the worker behind.
            jobs.wait_for(lambda: _ended(cluster), "the job to end")
        with contextlib.suppress(Exception):  # however it ends: it is ours no more
            result.cancel()
        if cluster is not None:
            jobs.wait_for(lambda: not jobs.workers(cluster), "the workers to end")


def _ended(cluster: Cluster) -> bool:
    return all(job["state"] in ("CANCELED", "FINISHED", "FAILED") for job in cluster.rest.jobs())


def _work(folder: str) -> None:
    import time

    Path(folder, str(os.getpid())).touch()
    end = time.monotonic() + WORKING
    while time.monotonic() < end and not Path(folder, "stop").exists():
        time.sleep(0.2)


def _try_everything(folder: Path, listening: set[Listener], private: list[str]) -> Tried:
    marks = folder / "marks"
    marks.mkdir()
    # Whoever runs it may leave a mark.
    marks.chmod(0o777)
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(parent.stat().st_mode | 0o055)
    command = folder / "command"
    command.write_text(f"#!/bin/sh\ntouch {marks}/command\n")
    command.chmod(0o755)
    told = {
        "ports": sorted({found.port for found in listening if found.port is not None}),
        "sockets": sorted({found.place for found in listening if found.port is None}),
        "folders": private,
        "command": str(command),
        "jar": str(_jar(folder, marks / "jar")),
    }
    worked = tried_as(NOBODY, **told)
    found = sorted(path.name for path in marks.iterdir())
    # No job is tried: its workers would be marks, not workers.
    ours = tried_as(os.geteuid(), **{**told, "ports": [], "command": None})
    return Tried(listening, worked, found, ours)


def _jar(folder: Path, mark: Path) -> Path:
    source = folder / "Marking.java"
    source.write_text(MARKING % mark)
    subprocess.run([shutil.which("javac") or "javac", "--release", "11", "-d", folder, source], check=True)
    with zipfile.ZipFile(folder / "marking.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\nMain-Class: Marking\r\n")
        jar.write(folder / "Marking.class", "Marking.class")
    return folder / "marking.jar"


def test_nothing_listens_beyond_this_machine(tried: Tried) -> None:
    assert any(found.port for found in tried.listening)
    assert all(found.loopback for found in tried.listening)


def test_nobody_submits_a_job(tried: Tried) -> None:
    assert tried.worked["jobs"] == []
    assert "command" not in tried.marks


def test_nobody_runs_a_jar(tried: Tried) -> None:
    assert tried.worked["jars"] == []
    assert "jar" not in tried.marks


def test_nobody_is_told_of_a_job_or_given_its_work(tried: Tried) -> None:
    assert tried.worked["options"] == []
    assert tried.worked["work"] == []


def test_nobody_is_lent_a_worker(tried: Tried) -> None:
    assert tried.worked["lent"] == []


def test_nobody_reads_files_of_a_job(tried: Tried) -> None:
    assert tried.worked["artifacts"] == []
    assert tried.worked["files"] == []


def test_what_a_stranger_tries_works_for_the_account_itself(tried: Tried) -> None:
    assert all(tried.ours[kind] for kind in ("jobs", "options", "work", "artifacts", "files"))
