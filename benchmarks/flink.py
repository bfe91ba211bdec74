"""What a Flink cluster on one machine makes of a batch, beside the local engine, and where its time goes.

    python -m benchmarks.flink [--users 4000000] [--rounds 5] [--write docs/speed.md]

A cluster of two task managers of one slot each, and as many Python workers, share the machine. In each round,
the same files go through the local engine, and through Flink at parallelism 1 and 2.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from benchmarks.contenders import STUDY, Input, run_ldpbeam, write_inputs
from benchmarks.pages import renew
from ldpbeam.command_line.main import main as ldpbeam
from ldpbeam.runners.flink.cluster import Cluster
from ldpbeam.runners.flink.parts import fetch

PAGE = """\
## A batch on Flink on one machine
Made by `python -m benchmarks.flink`. {users:,} people send {reports:,} reports to three services, in as many
Avro files; they are joined by user. The job manager, two task managers of one slot each and their Python
workers share {cores} cores. Figures are medians of {rounds} rounds. A round runs the local engine and both
kinds of Flink job one after the other, and ratios are of the rounds.

A Flink job begins with the start of its Python workers, which import Beam. Rates count from when the workers
have listed the files, as the local engine's count from after its imports. Processor seconds are of the
cluster and its workers, whose start is in them.

| engine | seconds | start of workers | reports a second | beside local | processor seconds | pieces read |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

The last column has the pieces of files that each subtask read.

### Where the time goes
The stages are of the last job at parallelism 1, in seconds from the start of the workers. A stage that
ended less than 0.1 seconds after the one above it is left out.

| from | to | stage |
| --- | --- | --- |
{stages}

Reports are spilled, as on the local engine, so Flink shuffles only where they are
([decision](decisions/59-spill.md)). Reading and folding take the time that they take on the local engine.
The rest is Flink's: it starts stages one after the other, each of which waits for the workers' answer, and
its task managers want a part of the cores. It does not grow with the reports.

With more cores, both stages get as many subtasks as there are slots, and these share nothing. The rest stays
as it is.
"""


class Job(NamedTuple):
    """A Flink job that has ended: its seconds, those until its workers ran, and the subtasks' records."""

    seconds: float
    starting: float
    processor: float
    pieces: str
    stages: list[str]


def page(users: int, rounds: int) -> Iterator[str]:
    """The page, once all is measured."""
    given = Input(users, kind="avro")
    reports = given.reports
    local: list[float] = []
    jobs: dict[int, list[Job]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder / "in", given)
        (folder / "study.yaml").write_text(STUDY)
        with Cluster(folder / "cluster", fetch(lambda line: None)) as cluster:
            run_ldpbeam(folder / "in", given)  # imports
            for number in range(rounds):
                began = time.monotonic()
                run_ldpbeam(folder / "in", given)
                local.append(time.monotonic() - began)
                for parallelism, ended in jobs.items():
                    ended.append(run(cluster, folder, f"flink-{parallelism}-{number}", parallelism))
    seconds = median(local)
    rows = [f"| local, one process | {seconds:.1f} |  | {reports / seconds:,.0f} | 1 |  |  |"]
    for parallelism, ended in jobs.items():
        after = [job.seconds - job.starting for job in ended]
        beside = median(here / there for here, there in zip(local, after, strict=True))
        numbers = [median(column) for column in zip(*(job[:3] for job in ended), strict=True)]
        rows.append(
            f"| Flink, parallelism {parallelism} | {numbers[0]:.1f} | {numbers[1]:.1f} "
            f"| {reports / median(after):,.0f} | {beside:.2f} | {numbers[2]:.0f} | {ended[-1].pieces} |"
        )
    yield PAGE.format(
        reports=reports,
        users=users,
        cores=os.cpu_count(),
        rounds=rounds,
        rows="\n".join(rows),
        stages="\n".join(jobs[1][-1].stages),
    ).rstrip()


def run(cluster: Cluster, folder: Path, name: str, parallelism: int) -> Job:
    """Run a job on the cluster, and read from the REST API what became of its time."""
    before = processor_seconds()
    master = ["--runner", "flink", "--flink-master", cluster.address]
    estimate(folder, name, *master, "--parallelism", str(parallelism))
    job = cluster.rest.jobs()[0]["jid"]
    processor = processor_seconds() - before
    about = cluster.rest.job(job)
    vertices = sorted(about["vertices"], key=lambda vertex: vertex["end-time"])
    [listing] = [vertex for vertex in vertices if "SplitFiles" in vertex["name"]]
    [reading] = [
        vertex
        for vertex in vertices
        if vertex["name"].startswith("MapPartition") and "Read" in vertex["name"]
    ]
    began = listing["end-time"]
    stages, last = [], began
    for vertex in vertices:
        if vertex["end-time"] > last + 100:
            first, last = vertex["start-time"], vertex["end-time"]
            stages.append(
                f"| {(first - began) / 1000:.1f} | {(last - began) / 1000:.1f} | {vertex['name']} |"
            )
    pieces = ", ".join(str(subtask.read) for subtask in cluster.rest.records(job)[reading["name"]])
    return Job(about["duration"] / 1000, (began - about["start-time"]) / 1000, processor, pieces, stages)


def processor_seconds() -> float:
    """The processor seconds of the cluster's processes and of all that they have started so far."""
    return sum(sum(process.cpu_times()[:4]) for process in psutil.Process().children(recursive=True))


def estimate(folder: Path, name: str, *options: str) -> None:
    """A run of ``ldpbeam estimate`` over the files."""
    files = [
        "--study",
        f"{folder}/study.yaml",
        "--input",
        f"{folder}/in/*.avro",
        "--output",
        f"{folder}/{name}",
    ]
    if ldpbeam(["estimate", *files, *options]):
        raise SystemExit(f"the run {name} failed")


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    renew(page(options.users, options.rounds), options.write)


if __name__ == "__main__":
    main()
