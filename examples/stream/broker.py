"""A Kafka broker on this machine, for the demonstration and the integration tests.

It is Apache's own, a single node without ZooKeeper, from Maven's artifacts, which are downloaded once into
the cache.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import maven
from ports import NoServerError, held_port, port_of

POM = Path(__file__).with_name("broker.xml")
VERSION = "3.9.1"  # as there
PATIENCE = 180.0  # seconds; a broker is ready after about five
#: The second compiler of Java would cost a start more than it gives back.
JAVA_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Broker:
    """One broker, with its data in a folder; it may be ended and started again on the same ports.

    Args:
        folder: an empty folder.
        settings: further settings of the broker, by their names in Kafka's ``server.properties``.
        listener: the name of a second listener, of which the settings say how it is secured; None for none.

    Raises:
        NoServerError: it cannot be had, or does not start.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, listener: str | None = None
    ) -> None:
        java = shutil.which("java")
        if java is None:
            raise NoServerError("there is no java on PATH (on Debian: apt-get install default-jre-headless)")
        self._java = [java, *JAVA_OPTIONS, "-cp", f"{maven.jars(POM)}/*"]
        self._settings = folder / "server.properties"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._held = [held_port() for _ in range(3)]
        port, controller, second = map(port_of, self._held)
        #: Where clients reach it, as ``host:port``.
        self.address = f"localhost:{port}"
        #: Where clients reach the second listener.
        self.second = f"localhost:{second}"
        listeners = f"PLAINTEXT://{self.address},CONTROLLER://localhost:{controller}"
        self._settings.write_text(
            "".join(
                f"{name}={value}\n"
                for name, value in {
                    "process.roles": "broker,controller",
                    "node.id": "1",
                    "controller.quorum.voters": f"1@localhost:{controller}",
                    "listeners": listeners if listener is None else f"{listeners},{listener}://{self.second}",
                    "controller.listener.names": "CONTROLLER",
                    "inter.broker.listener.name": "PLAINTEXT",
                    "log.dirs": str(folder / "data"),
                    "offsets.topic.replication.factor": "1",
                    "offsets.topic.num.partitions": "1",
                    "transaction.state.log.replication.factor": "1",
                    "transaction.state.log.min.isr": "1",
                    "group.initial.rebalance.delay.ms": "0",
                    "auto.create.topics.enable": "false",
                    "log.retention.check.interval.ms": "500",
                    **(settings or {}),
                }.items()
            )
        )
        # Twenty-two characters of base 64, as Kafka names a cluster.
        self._run("kafka.tools.StorageTool", "format", "-t", "bGRwYmVhbS1sZHBiZWFtMQ", "-c", self._settings)

    def __enter__(self) -> "Broker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for held in self._held:
            held.close()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert self._process is None
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._settings)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for whoever started it, who may need it until the last message.
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        end = time.monotonic() + PATIENCE
        while not _answers(self.address):
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                said = self._log.read_text(errors="replace").strip()[-3000:]
                raise NoServerError(f"the broker did not start; its log ends:\n{said}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a power failure does; its data stay."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _run(self, *arguments: object) -> None:
        command = [*self._java, *map(str, arguments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise NoServerError(f"{arguments[0]}: {(done.stdout + done.stderr).strip()[-500:]}")


@contextlib.contextmanager
def running_broker() -> Iterator[Broker]:
    """A broker for as long as the block lasts.

    Raises:
        NoServerError: it cannot be had, or does not start.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-broker-") as folder, Broker(Path(folder)) as broker:
        yield broker


def _answers(address: str) -> bool:
    """Whether a broker answers with its metadata."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        return bool(
            AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=5).brokers
        )
    except (OSError, KafkaException):
        return False
