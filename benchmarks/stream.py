"""What ``ldpbeam stream`` holds on one machine: reports a second, lag, memory at the start and the end.

    python -m benchmarks.stream [--kafka] [--seconds 600] [--rate 200000] [--single-rate 4000]
                                [--write docs/speed.md]

A Pub/Sub server or a Kafka broker, clients that report at a fixed rate (every person to two services, joined
by user), and the pipeline share the machine. The lag is from the server's receipt of a message to its being
taken up, as the pipeline says it every ten seconds; a rate is held when the lag does not grow. Memory is the
resident set of the pipeline's process and of the engine beside it, thirty seconds after the start, half way
and at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import renew
from examples.stream import broker, client, pubsub
from ldpbeam.schemas.study.yaml_file import read_study

STUDY = Path(__file__).parents[1] / "examples" / "stream" / "rides.yaml"
#: Of a topic of Kafka.
PARTITIONS = 8
#: Clients publish so often, in seconds.
EVERY = 0.25
#: Seconds after which memory is measured first: by then all is imported and the first windows have closed.
WARM = 30.0
RATE_LINE = re.compile(r"([\d,]+) reports/s, ([\d.]+) s behind")
ACCOUNTING_LINE = re.compile(r" reports in (=|is NOT) ")


@dataclass
class Held:
    """What was seen of one run."""

    sent: int = 0
    rates: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    panes: int = 0
    accounting: str = ""


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


def keep_reporting(
    server: PubSub | Kafka, name: str, rate: int, per_message: int, sent: Any, stop: Any
) -> None:
    """So many reports a second into a topic, in messages of so many."""
    study, rng = read_study(STUDY), np.random.default_rng()
    send = server.sender(name)
    people, number, due = max(1, round(rate * EVERY / 2)), 0, time.monotonic()
    while not stop.is_set():
        times = time.time_ns() // 1_000_000 - rng.integers(0, int(1000 * EVERY), people)
        users = [f"person-{number + i}" for i in range(people)]
        number += people
        for part in client.perturbed(study, "minutes", 180 * rng.beta(2, 5, people), users, times, None):
            batches = client.in_batches(part, per_message)
            messages = list(client.one_by_one(part) if per_message == 1 else batches)
            send(messages)
            sent.value += len(part.payloads)
        due += EVERY
        time.sleep(max(0.0, due - time.monotonic()))


def megabytes(process: int) -> float:
    """The resident set of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def engine_of(process: int) -> int | None:
    """The engine that a stream has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return next((int(one) for one in children if "prism" in Path(f"/proc/{one}/comm").read_text()), None)


def measure(server: PubSub | Kafka, rate: int, per_message: int, seconds: float, folder: str) -> Held:
    """Run the stream for some seconds under a load."""
    name, held = f"rates-{per_message}", Held()
    with server.topic(name) as source:
        sent, stop = multiprocessing.Value("q", 0), multiprocessing.Event()
        command = [sys.executable, "-m", "ldpbeam.command_line.main", "stream", "--study", str(STUDY)]
        command += [*source, "--output", folder, "--max-disorder", "2s"]
        stream = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        listener = threading.Thread(target=_listen, args=(stream, held))
        listener.start()
        load = (server, name, rate, per_message, sent, stop)
        clients = multiprocessing.Process(target=keep_reporting, args=load)
        clients.start()
        began = time.monotonic()
        for moment in (WARM, (WARM + seconds) / 2, seconds):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            held.memory.append(memory(stream.pid))
        stop.set()
        clients.join()
        time.sleep(5)
        held.sent = sent.value
        stream.send_signal(signal.SIGTERM)
        stream.wait(120)
        listener.join()
    return held


def memory(process: int) -> tuple[float, float]:
    """Megabytes of a stream's process, and of the engine beside it."""
    engine = engine_of(process)
    return megabytes(process), 0.0 if engine is None else megabytes(engine)


def _listen(stream: Any, held: Held) -> None:
    for line in stream.stdout:
        found = RATE_LINE.search(line)
        if found:
            held.rates.append(float(found[1].replace(",", "")))
            held.lags.append(float(found[2]))
        elif ACCOUNTING_LINE.search(line):
            held.accounting = line.strip()
        elif " on time: " in line or " late" in line.partition(": ")[0]:
            held.panes += 1


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


def page(options: argparse.Namespace) -> Iterator[str]:
    """The lines of the section."""
    yield f"## A stream of {'Kafka' if options.kafka else 'Pub/Sub'} on one machine"
    yield ""
    with running(options.kafka) as server:
        yield (
            f"Made by `python -m benchmarks.stream{' --kafka' * options.kafka}`. A row is of "
            f"{options.seconds:.0f} s. The server ({server.name}), the clients, the engine (Prism) and "
            f"the pipeline share {os.cpu_count()} cores. Windows have 10 s, and two services are joined by "
            "user, with `ule` and `ivw`. Lag is from the server's receipt of a message to its being taken "
            "up. Memory is that of the pipeline's process + the engine's, after 30 s, half way and at the "
            "end."
        )
        yield ""
        yield (
            "| reports a message | sent a second | read a second | lag: median, last, most | "
            "MB: 30 s, half way, end | windows | what became of the reports |"
        )
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for rate, per_message in ((options.rate, 1000), (options.single_rate, 1)):
            if not rate:
                continue
            with tempfile.TemporaryDirectory() as folder:
                held = measure(server, rate, per_message, options.seconds, folder)
            # The first and the last ten seconds have less of a load.
            rates, lags = held.rates[1:-1] or held.rates, held.lags[1:-1] or held.lags
            memory = ", ".join(f"{own:.0f} + {engine:.0f}" for own, engine in held.memory)
            yield (
                f"| {per_message:,} | {held.sent / options.seconds:,.0f} | "
                f"{statistics.median(rates):,.0f} | {statistics.median(lags):.1f} s, {lags[-1]:.1f} s, "
                f"{max(lags):.1f} s | {memory} | {held.panes} | {held.accounting} |"
            )


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kafka", action="store_true", help="a Kafka broker instead of a Pub/Sub server")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument(
        "--rate", type=int, default=200_000, help="reports a second, a thousand a message; 0: not"
    )
    parser.add_argument(
        "--single-rate", type=int, default=4_000, help="reports a second, one a message; 0: not"
    )
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    renew(page(options), options.write)


if __name__ == "__main__":
    main()
