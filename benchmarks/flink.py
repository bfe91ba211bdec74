"""What a Flink cluster on one machine makes of a batch: reports a second at parallelism 1 and 2.

    python -m benchmarks.flink [--users 4000000] [--write docs/flink_speed.md]

A cluster of two task managers of one slot each, and as many Python workers, share the machine; the same files
go through the local engine first. Time is that of the job as Flink has it, without the start of the command.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.pages import show
from benchmarks.throughput import STUDY, write_inputs
from ldpbeam.pipelines.main import main as ldpbeam
from ldpbeam.runners.flink.cluster import Cluster
from ldpbeam.runners.flink.parts import fetch


def page(users: int) -> Iterator[str]:
    """The page's lines."""
    yield "# What Flink makes of a batch on one machine"
    yield ""
    yield (
        f"Made by `python -m benchmarks.flink`: {3 * users:,} reports of {users:,} people to three "
        f"services in as many Avro files, joined by user; {os.cpu_count()} cores shared by the job manager, "
        "two task managers of one slot each and their Python workers. Time is that of the job as "
        "Flink has it; of the local engine, that of the whole command."
    )
    yield ""
    yield "| engine | seconds | reports a second | pieces of files read by each subtask |"
    yield "| --- | --- | --- | --- |"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder / "in", users)
        (folder / "study.yaml").write_text(STUDY)
        began = time.monotonic()
        estimate(folder, "local")
        yield row("local, one process", time.monotonic() - began, 3 * users, "")
        with Cluster(folder / "cluster", fetch(lambda line: None)) as cluster:
            for parallelism in (1, 2):
                where = ["--runner", "flink", "--flink-master", cluster.address]
                estimate(folder, f"flink-{parallelism}", *where, "--parallelism", str(parallelism))
                job = cluster.rest.jobs()[0]
                [reading] = [
                    own for name, own in cluster.rest.records(job["jid"]).items() if "Validate" in name
                ]
                read = ", ".join(str(subtask.read) for subtask in reading)
                yield row(f"Flink, parallelism {parallelism}", job["duration"] / 1000, 3 * users, read)


def estimate(folder: Path, name: str, *options: str) -> None:
    """A run of ``ldpbeam estimate`` over the files."""
    reports = f"{folder}/in/*.avro"
    told = ["--study", f"{folder}/study.yaml", "--input", reports, "--output", f"{folder}/{name}"]
    if ldpbeam(["estimate", *told, *options]):
        raise SystemExit(f"the run {name} failed")


def row(engine: str, seconds: float, reports: int, read: str) -> str:
    """A line of the table."""
    return f"| {engine} | {seconds:.1f} | {reports / seconds:,.0f} | {read} |"


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=4_000_000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    show(page(options.users), options.write)


if __name__ == "__main__":
    main()
