"""How fast a stream takes up reports that wait in a topic of Kafka, and whether each counts once.

    python -m benchmarks.backlog [--reports 10000000] [--per-message 1] [--avro] [--pubsub]
                                 [--write docs/measured]

A broker on this machine has a topic of eight partitions with so many reports, in the order of their event
times, before the stream starts: one in a message of JSON or in an Avro single object, or several in one of
Arrow. Each person answers two services, which are joined by user. The rate is that of the reports after the
first tenth, so that neither start nor end are in it. Processor time is that of the command and of the
process that solves beside it, for the same reports. Memory is the resident set of both, when a tenth, half
and all of the reports are counted.
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
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import fastavro
import numpy as np
import psutil

from benchmarks.pages import HELP, show, table
from ldpbeam.pipelines.simulated.report_files import SentReports
from ldpbeam.schemas.encodings import avro
from ldpbeam.schemas.messages.binary import OBJECT_MAGIC
from ldpbeam.schemas.study.yaml_file import read_study

# The module of the broker imports one beside it, as a program does.
sys.path.append(str(Path(__file__).parents[1] / "examples" / "stream"))

from examples.stream import broker, client, pubsub

TOPIC = "reports"
#: Milliseconds of a window of the study, and the people who answer both services in it.
WINDOW, PEOPLE = 10_000, 50_000
#: Where messages have several reports, so many times the people, lest windows be most of the work.
CROWD = 20
STUDY = Path(__file__).parents[1] / "examples" / "stream" / "rides.yaml"
#: Of a topic of Kafka.
PARTITIONS = 8
#: Memory is of the command, and of the process that solves.
COLUMNS = (
    "what", "seconds", "reports a second", "microseconds a report", "MB: a tenth, half, all", "windows",
    "what became of the reports",
)  # fmt: skip
ACCOUNTING_LINE = re.compile(r" reports in (=|is NOT) ")
#: Sends messages, and waits until the server has them.
Send = Callable[[Sequence[client.Outgoing]], None]


@dataclass(frozen=True)
class PubSub:
    """A Pub/Sub server, which ``PUBSUB_EMULATOR_HOST`` names."""

    name: str

    @contextlib.contextmanager
    def topic(self, name: str) -> Iterator[list[str]]:
        """The options of the stream that reads a new topic."""
        from google.cloud import pubsub_v1

        topic, subscription = (
            f"projects/{pubsub.PROJECT}/{kind}/{name}" for kind in ("topics", "subscriptions")
        )
        pubsub_v1.PublisherClient().create_topic(name=topic)
        pubsub_v1.SubscriberClient().create_subscription(name=subscription, topic=topic)
        yield ["--subscription", subscription]
        pubsub_v1.SubscriberClient().delete_subscription(subscription=subscription)
        pubsub_v1.PublisherClient().delete_topic(topic=topic)

    def sender(self, name: str) -> Send:
        """A client of this process."""
        from google.cloud import pubsub_v1

        publisher = pubsub_v1.PublisherClient(pubsub_v1.types.BatchSettings(max_messages=500))
        topic = f"projects/{pubsub.PROJECT}/topics/{name}"
        return lambda messages: client.publish(publisher, topic, messages)


@dataclass(frozen=True)
class Kafka:
    """A Kafka broker."""

    name: str
    address: str

    @contextlib.contextmanager
    def topic(self, name: str) -> Iterator[list[str]]:
        """The options of the stream that reads a new topic."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(60)
        yield ["--kafka", self.address, "--topic", name]

    def sender(self, name: str) -> Send:
        """A producer of this process."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True})

        def send(messages: Sequence[client.Outgoing]) -> None:
            for number, message in enumerate(messages):
                headers = [("content-type", message.content_type.encode())]
                while True:
                    try:
                        partition = number % PARTITIONS
                        producer.produce(name, message.data, partition=partition, headers=headers)
                        break
                    except BufferError:  # librdkafka's queue is full until some are delivered
                        producer.poll(0.1)
            if producer.flush(60):
                raise OSError("the broker did not take all messages")

        return send


@contextlib.contextmanager
def running(kafka: bool) -> Iterator[PubSub | Kafka]:
    """The server, for as long as the block lasts."""
    if kafka:
        with broker.running_broker() as started:
            yield Kafka(f"Apache Kafka {broker.VERSION}", started.address)
    else:
        with pubsub.running_server() as server:
            os.environ["PUBSUB_EMULATOR_HOST"] = server.address
            yield PubSub(server.name)


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


def family(process: int) -> list[psutil.Process]:
    """A process and those that it started, such as the one that solves."""
    this = psutil.Process(process)
    return [this, *this.children(recursive=True)]


def processor_seconds(process: int) -> float:
    """The processor time so far of a process and of those that it started."""
    return float(sum(sum(each.cpu_times()[:2]) for each in family(process)))


def megabytes(process: int) -> str:
    """The resident set of a process, and that of all that it started."""
    own, *others = (each.memory_info().rss / 2**20 for each in family(process))
    return f"{own:.0f} + {sum(others):.0f}"


def bare(label: str, subscription: str, reports: int, per_message: int) -> list[str]:
    """A row of the table, under a label: a client that pulls messages and acknowledges them."""
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
    return [label, *_rates(seconds, processor, counted), "", "", "nothing"]


def measure(label: str, source: Sequence[str], reports: int, folder: Path) -> list[str]:
    """A row of the table, under a label."""
    output, log = folder / "out", folder / "log"
    command = [sys.executable, "-m", "ldpbeam.command_line.main", "stream", "--study", str(STUDY)]
    command += [*source, "--output", str(output), "--max-disorder", "10s", "--stop-when-idle", "20s"]
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(
            subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)
        )
        used: list[str] = []
        moments: list[tuple[float, float, int]] = []
        for part in (0.1, 0.5, 1):
            while counted(output) < part * reports:
                if stream.poll() is not None:
                    raise OSError(f"the stream has ended: {log.read_text()}")
                time.sleep(0.2)
            moments.append((time.monotonic(), processor_seconds(stream.pid), counted(output)))
            used.append(megabytes(stream.pid))
        code = stream.wait(600)
    seconds, processor, taken = (moments[-1][i] - moments[0][i] for i in range(3))
    closed = len(list((output / "statistics").glob("*.avro")))
    (accounting,) = [line for line in log.read_text().splitlines() if ACCOUNTING_LINE.search(line)]
    what = f"{accounting} (exit code {code})"
    return [label, *_rates(seconds, processor, taken), ", ".join(used), str(closed), what]


def _rates(seconds: float, processor: float, reports: float) -> list[str]:
    """Seconds, reports a second, microseconds of processors a report."""
    return [f"{seconds:,.0f}", f"{reports / seconds:,.0f}", f"{1e6 * processor / reports:.1f}"]


def rows(options: argparse.Namespace) -> Iterator[list[str]]:
    """The rows of a stream, and of a bare client of Pub/Sub before it."""
    contents = "Arrow" if options.per_message > 1 else "Avro" if options.avro else "JSON"
    contents += " of Pub/Sub" if options.pubsub else ""
    with running(kafka=not options.pubsub) as server, server.topic(TOPIC) as source:
        fill(server, options.reports, options.per_message, options.avro)
        if options.pubsub:
            yield bare(f"bare client, {contents}", source[-1], options.reports, options.per_message)
            fill(server, options.reports, options.per_message, options.avro)
        with tempfile.TemporaryDirectory() as folder:
            yield measure(f"stream, {contents}", source, options.reports, Path(folder))


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--per-message", type=int, default=1)
    parser.add_argument("--avro", action="store_true", help="one report in an Avro single object")
    parser.add_argument("--pubsub", action="store_true", help="in place of Kafka")
    parser.add_argument("--write", type=Path, help=HELP)
    options = parser.parse_args()
    name = f"backlog_{'pubsub' if options.pubsub else 'kafka'}_{options.per_message}"
    show([table(name, COLUMNS, rows(options))], options.write)


if __name__ == "__main__":
    main()
