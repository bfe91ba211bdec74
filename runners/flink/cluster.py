"""A Flink cluster on this machine: a job manager and some task managers, as processes of their own.

``python -m ldpbeam.runners.flink.cluster up`` starts one and ``down`` ends it, and nothing but it. It is for
trying things out, and for tests, which may also kill its task managers: :class:`Cluster`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ldpbeam.runners.cache import cache
from ldpbeam.runners.flink.parts import BEAM, BEAM_KEY, FLINK, FlinkError, Parts, fetch
from ldpbeam.runners.flink.processes import Process, end, forget, mark, remember, running
from ldpbeam.runners.flink.rest import Rest

PORT = 8081
TASK_MANAGERS = 2
#: Seconds until all of it is there; half a minute is usual on a busy machine.
PATIENCE = 180.0

#: Milliseconds; of much longer times Flink's scheduler says that they are too long.
_MONTH = 30 * 24 * 3600 * 1000

#: One second, two, four, eight, eight, eight; from the start after five minutes that went well.
_RESTARTS = {
    "initial-backoff": "1 s",
    "backoff-multiplier": 2.0,
    "max-backoff": "8 s",
    "jitter-factor": 0.0,
    "attempts-before-reset-backoff": 6,
    "reset-backoff-threshold": "5 min",
}

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
# Java 17 closes what Flink opens by reflection.
_OPENED = (
    "lang lang.reflect net io nio text time util util.concurrent util.concurrent.atomic util.concurrent.locks"
)
_JAVA = [
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.management/sun.management=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED.split()),
]
#: Megabytes that what Python workers are sent passes through, a partition of users at a time.
_OFF_HEAP = 768
# Flink's start scripts compute these from one number; a task manager without them does not start.
_MEMORY = {
    "cpu.cores": "1.0",
    "memory.task.heap.size": "400m",
    "memory.task.off-heap.size": f"{_OFF_HEAP}m",
    "memory.framework.heap.size": "128m",
    "memory.framework.off-heap.size": "128m",
    "memory.managed.size": "256m",
    "memory.jvm-metaspace.size": "256m",
    "memory.jvm-overhead.min": "128m",
    "memory.jvm-overhead.max": "128m",
}
#: Megabytes of buffers between tasks, a slot; with half as many a study with windows does not start.
_NETWORK = 128
_TASK_MANAGER_JAVA = ["-Xms528m", "-Xmx528m", "-XX:MaxMetaspaceSize=256m"]
_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = File
appender.file.append = true
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss,SSS} %-5p %-40.40c{1.} - %m%n
"""


class Cluster:
    """A cluster, which lasts as long as the ``with`` block, or from ``start`` to ``stop``.

    Args:
        folder: for its configuration, logs and checkpoints, and the state file that ``stop`` reads; of one
            cluster at a time.
        parts: Flink's jars and Beam's.
        task_managers: how many there are at the start.
        slots: how many tasks each takes at a time.
        port: of the web page and the REST API; a free one by default.
        environment: variables that its processes have besides those of this one; so have their workers.
    """

    def __init__(
        self,
        folder: Path,
        parts: Parts,
        *,
        task_managers: int = TASK_MANAGERS,
        slots: int = 1,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self.parts = parts
        self.slots = slots
        self.environment = dict(environment or {})
        self.job_manager: Process
        #: Those that run, as far as anybody here knows.
        self.task_managers: list[Process] = []
        self._wanted = task_managers
        self._started = 0
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self.rest = Rest(f"localhost:{port or _free_port()}")

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """What jobs are told as ``--flink_master``."""
        return self.rest.address

    def start(self) -> None:
        """Start everything and wait until it is there.

        Raises:
            FlinkError: if there is a cluster in the folder already, no Java, or a process ends.
        """
        if running(self.folder):
            raise FlinkError(f"{self.folder}: a cluster is running there already")
        if shutil.which("java") is None:
            raise FlinkError("there is no java on PATH: install Java 11 or 17")
        forget(self.folder)
        self._configure()
        try:
            self.job_manager = self._run(_JOB_MANAGER, "jobmanager", ["-Xmx768m"], [])
            for _ in range(self._wanted):
                self.start_task_manager()
            self.wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process that is still there, task managers first, and wait until they are gone."""
        _stop(self.folder)
        for child in self._children.values():
            child.wait()
        self.task_managers.clear()

    def start_task_manager(self) -> Process:
        """One more; :meth:`wait` until it is there."""
        name = f"taskmanager-{self._started}"
        network = _NETWORK * self.slots
        settings = {
            "resource-id": name,
            **_MEMORY,
            "memory.network.min": f"{network}m",
            "memory.network.max": f"{network}m",
        }
        arguments = [part for key, value in settings.items() for part in ("-D", f"taskmanager.{key}={value}")]
        # Buffers, what Flink itself has, and what the task has beside its heap.
        java = [*_TASK_MANAGER_JAVA, f"-XX:MaxDirectMemorySize={network + 128 + _OFF_HEAP}m"]
        process = self._run(_TASK_MANAGER, name, java, arguments)
        self.task_managers.append(process)
        self._started += 1
        return process

    def kill_task_manager(self, process: Process) -> None:
        """End one at once, as a machine does that loses its power."""
        self.task_managers.remove(process)
        child = self._children[process.pid]
        child.send_signal(signal.SIGKILL)
        child.wait()

    def wait(self) -> None:
        """Wait until the cluster has the task managers that were started, and misses those that were killed.

        Raises:
            FlinkError: if one of its processes ends, or it takes minutes.
        """
        patience = time.monotonic() + PATIENCE
        while time.monotonic() < patience:
            with contextlib.suppress(FlinkError):
                if set(self.rest.task_managers()) == {process.name for process in self.task_managers}:
                    return
            for process in (self.job_manager, *self.task_managers):
                if self._children[process.pid].poll() is not None:
                    log = self.folder / "log" / process.name
                    raise FlinkError(f"the {process.name} ended: {_complaint(log)}")
            time.sleep(0.3)
        raise FlinkError(f"the task managers were not there after {PATIENCE:.0f} s; see {self.folder}/log")

    def _configure(self) -> None:
        for name in ("conf", "log", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        temporary = self.folder / "tmp"
        host = {f"{part}.{what}": "localhost" for part, what in (
            ("jobmanager", "rpc.address"), ("jobmanager", "bind-host"), ("rest", "address"),
            ("rest", "bind-address"), ("taskmanager", "host"), ("taskmanager", "bind-host"),
        )}  # fmt: skip
        settings: dict[str, Any] = {
            **host,
            "jobmanager.rpc.port": _free_port(),
            "rest.port": int(self.address.rpartition(":")[2]),
            "jobmanager.memory.process.size": "1g",
            "taskmanager.numberOfTaskSlots": self.slots,
            "io.tmp.dirs": str(temporary),
            "web.tmpdir": str(temporary),
            "state.checkpoints.dir": (self.folder / "checkpoints").as_uri(),
            # A job that lost its task manager waits for another one, rather than use up its attempts. One
            # that lost a Python worker fails until it is no longer taken for alive; one that always fails
            # has done so after half a minute.
            "resourcemanager.standalone.start-up-time": _MONTH,
            "restart-strategy.type": "exponential-delay",
            **{f"restart-strategy.exponential-delay.{name}": value for name, value in _RESTARTS.items()},
            # Else one that was killed is missed after fifty seconds.
            "heartbeat.interval": 1000,
            "heartbeat.timeout": 6000,
            # Jobs bring no classes of their own.
            "classloader.resolve-order": "parent-first",
            BEAM_KEY: BEAM,
        }
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in settings.items()]
        (self.folder / "conf" / "config.yaml").write_text("".join(lines))
        (self.folder / "conf" / "log4j.properties").write_text(_LOGGING)

    def _run(self, main: str, name: str, java: Sequence[str], arguments: Sequence[str]) -> Process:
        log = self.folder / "log" / name
        command = [
            "java", *_JAVA, *java,
            f"-Dlog4j.configurationFile={(self.folder / 'conf' / 'log4j.properties').as_uri()}",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            mark(self.folder, name),
            "-cp", f"{self.parts.flink}/*:{self.parts.beam}/*",
            main, "--configDir", str(self.folder / "conf"), *arguments,
        ]  # fmt: skip
        with log.with_suffix(".out").open("wb") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                # Not of this terminal: what ends this command does not end the cluster.
                start_new_session=True,
            )
        self._children[child.pid] = child
        process = Process(child.pid, name)
        remember(self.folder, process)
        return process


def _stop(folder: Path) -> int:
    count = end(folder)
    # Processes that were killed left theirs behind.
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    return count


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("localhost", port))
        except OSError:
            return False
    return True


def _complaint(log: Path) -> str:
    said = [
        line
        for path in (log.with_suffix(".out"), log.with_suffix(".log"))
        if path.exists()
        for line in path.read_text(errors="replace").splitlines()
        if line.strip()
    ]
    errors = [line for line in said if "Exception" in line or "Error" in line]
    return (errors[:1] or said[-1:] or ["it said nothing"])[0].strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """``up`` or ``down``; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ldpbeam.runners.flink.cluster", description="A Flink cluster on this machine."
    )
    parser.add_argument("what", choices=("up", "down"))
    parser.add_argument("--task-managers", type=int, default=TASK_MANAGERS)
    parser.add_argument("--slots", type=int, default=1, help="tasks that each takes at a time (default 1)")
    parser.add_argument(
        "--port", type=int, help=f"of the web page; without it {PORT}, or a free one if that is taken"
    )
    parser.add_argument(
        "--folder", type=Path, default=cache() / "flink" / "cluster", help="for logs, checkpoints and state"
    )
    options = parser.parse_args(arguments)
    try:
        return _down(options.folder) if options.what == "down" else _up(options)
    except FlinkError as error:
        print(f"ldpbeam: {error}", file=sys.stderr)
        return 2


def _up(options: argparse.Namespace) -> int:
    if options.port is not None and not _is_free(options.port):
        raise FlinkError(f"--port {options.port}: something else listens there")
    port = options.port or (PORT if _is_free(PORT) else None)
    cluster = Cluster(
        options.folder, fetch(), task_managers=options.task_managers, slots=options.slots, port=port
    )
    cluster.start()
    print(f"Flink {FLINK} with {options.task_managers} task managers: {cluster.rest.url}")
    print(f"jobs take --flink_master={cluster.address}; logs are in {cluster.folder}/log")
    return 0


def _down(folder: Path) -> int:
    count = _stop(folder)
    print(f"ended {count} processes" if count else f"no cluster is running in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
