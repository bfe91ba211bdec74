"""How fast a stream takes up reports that wait in a topic of Kafka, and whether each counts once.

    python -m benchmarks.backlog [--reports 10000000] [--per-message 1] [--engine prism|flink]
                                 [--write docs/speed.md]

A broker on this machine has a topic of eight partitions with so many reports, in the order of their event
times, before the stream starts: one in a message of JSON, or several in one of Arrow. Each person answers two
services, which are joined by user. The time is from the first report that is counted to the last. Memory is
the resident set of the command, and of the engine that Prism is beside it, when a tenth, half and all of the
reports are counted.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.pages import renew
from benchmarks.stream import ACCOUNTING_LINE, PARTITIONS, STUDY, Kafka, PubSub, memory, running
from examples.stream import client
from ldpbeam.runners.flink.cluster import Cluster
from ldpbeam.runners.flink.parts import fetch
from ldpbeam.schemas.study.yaml_file import read_study

TOPIC = "reports"
#: Milliseconds of a window of the study, and the people who answer both services in it.
WINDOW, PEOPLE = 10_000, 50_000
#: Where messages have several reports, so many times the people, lest windows be most of the work.
CROWD = 20
ENGINES = ("prism", "flink")


def fill(server: PubSub | Kafka, reports: int, per_message: int) -> None:
    """Produce so many reports, one partition after the other, window by window."""
    send, study, rng = server.sender(TOPIC), read_study(STUDY), np.random.default_rng(1)
    start = (time.time_ns() // 1_000_000 - 6 * 3_600_000) // WINDOW * WINDOW
    people = PEOPLE if per_message == 1 else PEOPLE * CROWD
    for window in range(-(-reports // (2 * people))):
        times = start + window * WINDOW + np.arange(people) * WINDOW // people
        users = [f"person-{window}-{i}" for i in range(people)]
        sent = client.perturbed(study, "minutes", 180 * rng.beta(2, 5, people), users, times, window)
        messages = [
            client.one_by_one(part) if per_message == 1 else client.in_batches(part, per_message)
            for part in sent
        ]
        pairs = itertools.chain.from_iterable(zip(*messages, strict=True))
        send(list(pairs)[: (reports - 2 * people * window) // per_message])


def counted(output: Path) -> int:
    """How many reports a run has counted."""
    for path in output.glob("runs/*/accounting.json"):
        return int(json.loads(path.read_text())["in"])
    return 0


def measure(engine: str, source: Sequence[str], reports: int, folder: Path) -> str:
    """A line of the table."""
    output, log = folder / "out", folder / "log"
    command = [sys.executable, "-m", "ldpbeam.command_line.main", "stream", "--study", str(STUDY)]
    command += [*source, "--output", str(output), "--max-disorder", "10s", "--stop-when-idle", "20s"]
    with contextlib.ExitStack() as stack:
        if engine == "flink":
            cluster = stack.enter_context(Cluster(folder / "cluster", fetch(lambda line: None)))
            command += ["--runner", "flink", "--flink-master", cluster.address]
        stream = stack.enter_context(
            subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)
        )
        began, first, used = 0.0, 0, []
        for part in (0, 0.1, 0.5, 1):
            while counted(output) < max(1, part * reports) and stream.poll() is None:
                time.sleep(0.2)
            if not part:
                began, first = time.monotonic(), counted(output)
            elif stream.poll() is None:
                used.append("{:.0f} + {:.0f}".format(*memory(stream.pid)))
        seconds = time.monotonic() - began
        code = stream.wait(600)
    closed = len(list((output / "statistics").glob("*.avro")))
    (accounting,) = [line for line in log.read_text().splitlines() if ACCOUNTING_LINE.search(line)]
    return (
        f"| {engine} | {seconds:,.0f} | {(reports - first) / seconds:,.0f} | {', '.join(used)} | {closed} | "
        f"{os.getloadavg()[0]:.0f} | {accounting} (exit code {code}) |"
    )


def page(options: argparse.Namespace) -> Iterator[str]:
    """The lines of the section."""
    many = "one report" if options.per_message == 1 else f"{options.per_message:,} reports"
    yield f"## What waits in a topic of Kafka, {many} in a message"
    yield ""
    with running(kafka=True) as server, server.topic(TOPIC) as source:
        yield (
            f"Made by `python -m benchmarks.backlog --reports {options.reports} --per-message "
            f"{options.per_message}`. {options.reports:,} reports wait in {PARTITIONS} partitions of "
            f"{server.name}. The broker, the engine and the pipeline share {os.cpu_count()} cores; on Flink "
            "there are two task managers of one slot each. Windows have 10 s, and two services are joined by "
            "user. Load is that of the machine at the end, over a minute."
        )
        yield ""
        yield (
            "| engine | seconds | reports a second | MB: a tenth, half, all | windows | load | "
            "what became of the reports |"
        )
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        fill(server, options.reports, options.per_message)
        for engine in options.engine or ENGINES:
            with tempfile.TemporaryDirectory() as folder:
                yield measure(engine, source, options.reports, Path(folder))


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--per-message", type=int, default=1)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="by default both")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    renew(page(options), options.write)


if __name__ == "__main__":
    main()
