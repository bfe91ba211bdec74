"""How fast a stream takes up reports that wait in a topic of Kafka, and whether each counts once.

    python -m benchmarks.backlog [--reports 10000000] [--per-message 1] [--avro] [--pubsub]
                                 [--engine prism|flink] [--write docs/speed.md]

A broker on this machine has a topic of eight partitions with so many reports, in the order of their event
times, before the stream starts: one in a message of JSON or in an Avro single object, or several in one of
Arrow. Each person answers two services, which are joined by user. The rate is that of the reports after the
first tenth, so that neither start nor end are in it. Processor time is that of all Python processes of the
stream, for the same reports. Memory is the resident set of the command, and of the engine that Prism is
beside it, when a tenth, half and all of the reports are counted.
With ``--pubsub`` the reports wait in a subscription, and a bare client comes first: it pulls messages and
acknowledges them, and does nothing with them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import fastavro
import numpy as np
import psutil

from benchmarks.pages import renew
from benchmarks.stream import ACCOUNTING_LINE, PARTITIONS, STUDY, Kafka, PubSub, memory, running
from examples.stream import client
from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.runners.flink.cluster import Cluster
from ldpbeam.runners.flink.parts import fetch
from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.messages.binary import OBJECT_MAGIC
from ldpbeam.schemas.study.yaml_file import read_study

TOPIC = "reports"
#: Milliseconds of a window of the study, and the people who answer both services in it.
WINDOW, PEOPLE = 10_000, 50_000
#: Where messages have several reports, so many times the people, lest windows be most of the work.
CROWD = 20
ENGINES = ("prism", "flink")


def objects(sent: SentReports) -> Iterator[client.Outgoing]:
    """A message a report, as an Avro single object of the project's own schema."""
    schema = fastavro.parse_schema(avro.schema("report"))
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    start = OBJECT_MAGIC + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    for message in client.one_by_one(sent):
        with io.BytesIO() as stream:
            fastavro.schemaless_writer(stream, schema, json.loads(message.data))
            yield client.Outgoing(start + stream.getvalue(), "application/avro", 1)


def fill(server: PubSub | Kafka, reports: int, per_message: int, in_avro: bool) -> None:
    """Produce so many reports, one partition after the other, window by window."""
    alone = objects if in_avro else client.one_by_one
    send, study, rng = server.sender(TOPIC), read_study(STUDY), np.random.default_rng(1)
    start = (time.time_ns() // 1_000_000 - 6 * 3_600_000) // WINDOW * WINDOW
    people = PEOPLE if per_message == 1 else PEOPLE * CROWD
    for window in range(-(-reports // (2 * people))):
        times = start + window * WINDOW + np.arange(people) * WINDOW // people
        users = [f"person-{window}-{i}" for i in range(people)]
        sent = client.perturbed(study, "minutes", 180 * rng.beta(2, 5, people), users, times, window)
        messages = [
            alone(part) if per_message == 1 else client.in_batches(part, per_message) for part in sent
        ]
        pairs = itertools.chain.from_iterable(zip(*messages, strict=True))
        send(list(pairs)[: (reports - 2 * people * window) // per_message])


def counted(output: Path) -> int:
    """How many reports a run has counted."""
    for path in output.glob("runs/*/accounting.json"):
        return int(json.loads(path.read_text())["in"])
    return 0


def processor_seconds() -> float:
    """The processor time so far of all Python processes of a stream, wherever an engine started them."""
    seconds = 0.0
    for process in psutil.process_iter(["cmdline", "cpu_times"]):
        command, times = process.info["cmdline"] or [""], process.info["cpu_times"]
        ours = "python" in Path(command[0]).name and any("ldpbeam" in word for word in command)
        if times is not None and ours:
            seconds += times.user + times.system
    return seconds


def bare(label: str, subscription: str, reports: int, per_message: int) -> str:
    """A line of the table, under a label: a client that pulls messages and acknowledges them."""
    from google.api_core.exceptions import DeadlineExceeded
    from google.cloud import pubsub_v1

    subscriber, moments = pubsub_v1.SubscriberClient(), list[tuple[float, float, int]]()
    taken = 0
    for part in (0.1, 1):
        while taken < part * reports:
            with contextlib.suppress(DeadlineExceeded):
                answer = subscriber.pull(subscription=subscription, max_messages=1_000, timeout=5)
                receipts = [message.ack_id for message in answer.received_messages]
                subscriber.acknowledge(subscription=subscription, ack_ids=receipts)
                taken += len(receipts) * per_message
        moments.append((time.monotonic(), time.process_time(), taken))
    seconds, processor, counted = (moments[1][i] - moments[0][i] for i in range(3))
    cells = f"{seconds:,.0f} | {counted / seconds:,.0f} | {1e6 * processor / counted:.1f}"
    return f"| {label} | {cells} |  |  | {os.getloadavg()[0]:.0f} | nothing |"


def measure(engine: str, label: str, source: Sequence[str], reports: int, folder: Path) -> str:
    """A line of the table, under a label."""
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
        used: list[str] = []
        moments: list[tuple[float, float, int]] = []
        for part in (0.1, 0.5, 1):
            while counted(output) < part * reports and stream.poll() is None:
                time.sleep(0.2)
            moments.append((time.monotonic(), processor_seconds(), counted(output)))
            if stream.poll() is None:
                used.append("{:.0f} + {:.0f}".format(*memory(stream.pid)))
        code = stream.wait(600)
    seconds, processor, taken = (moments[-1][i] - moments[0][i] for i in range(3))
    closed = len(list((output / "statistics").glob("*.avro")))
    (accounting,) = [line for line in log.read_text().splitlines() if ACCOUNTING_LINE.search(line)]
    return (
        f"| {label} | {seconds:,.0f} | {taken / seconds:,.0f} | {1e6 * processor / taken:.1f} | "
        f"{', '.join(used)} | {closed} | "
        f"{os.getloadavg()[0]:.0f} | {accounting} (exit code {code}) |"
    )


def page(options: argparse.Namespace) -> Iterator[str]:
    """The lines of the section."""
    many = "one report" if options.per_message == 1 else f"{options.per_message:,} reports"
    contents = "Arrow" if options.per_message > 1 else "Avro" if options.avro else "JSON"
    contents += " of Pub/Sub" if options.pubsub else ""
    where = "in a subscription of Pub/Sub" if options.pubsub else "in a topic of Kafka"
    yield f"## What waits {where}, {many} in a message{', Avro single objects' if options.avro else ''}"
    yield ""
    asked = "".join(f" --{name}" for name in ("avro", "pubsub") if getattr(options, name))
    with running(kafka=not options.pubsub) as server, server.topic(TOPIC) as source:
        yield (
            f"Made by `python -m benchmarks.backlog --reports {options.reports} --per-message "
            f"{options.per_message}{asked}`. {options.reports:,} reports wait {where}, the server is "
            f"{server.name}; a topic of Kafka has {PARTITIONS} partitions. The server, the engine and the "
            f"pipeline share {os.cpu_count()} cores; on Flink there are two task managers of one slot each. "
            "Windows have 10 s, and two services are joined by user. Rate and processor time are of the "
            "reports after the first tenth. Load is that of the machine at the end, over a minute."
        )
        yield ""
        yield (
            "| engine | seconds | reports a second | microseconds of Python a report | "
            "MB: a tenth, half, all | windows | load | what became of the reports |"
        )
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        fill(server, options.reports, options.per_message, options.avro)
        if options.pubsub:
            yield bare(f"bare client, {contents}", source[-1], options.reports, options.per_message)
            fill(server, options.reports, options.per_message, options.avro)
        for engine in options.engine or ENGINES[: 1 if options.pubsub else 2]:
            with tempfile.TemporaryDirectory() as folder:
                yield measure(engine, f"{engine}, {contents}", source, options.reports, Path(folder))


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--per-message", type=int, default=1)
    parser.add_argument("--avro", action="store_true", help="one report in an Avro single object")
    parser.add_argument("--pubsub", action="store_true", help="in place of Kafka, on Prism alone")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="by default both")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    renew(page(options), options.write)


if __name__ == "__main__":
    main()
