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
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ldpbeam.runners.flink.parts import BEAM, BEAM_KEY, FLINK, FlinkError, Parts, cache, fetch
from ldpbeam.runners.flink.rest import Rest

PORT = 8081
TASK_MANAGERS = 2
#: In its folder.
STATE = "cluster.json"
#: Seconds until all of it is there; half a minute is usual on a busy machine.
PATIENCE = 180.0
#: Seconds until a process that was asked to end is killed.
_ENDING = 15.0

#: Milliseconds; of much longer times Flink's scheduler says that they are too long.
_MONTH = 30 * 24 * 3600 * 1000

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
# Flink's start scripts compute these from one number; a task manager without them does not start.
_MEMORY = {
    "cpu.cores": "1.0",
    "memory.task.heap.size": "400m",
    "memory.task.off-heap.size": "0b",
    "memory.framework.heap.size": "128m",
    "memory.framework.off-heap.size": "128m",
    "memory.network.min": "96m",
    "memory.network.max": "96m",
    "memory.managed.size": "256m",
    "memory.jvm-metaspace.size": "256m",
    "memory.jvm-overhead.min": "128m",
    "memory.jvm-overhead.max": "128m",
}
_TASK_MANAGER_JAVA = ["-Xms528m", "-Xmx528m", "-XX:MaxDirectMemorySize=224m", "-XX:MaxMetaspaceSize=256m"]
_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = File
appender.file.append = false
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss,SSS} %-5p %-40.40c{1.} - %m%n
"""


class Process(NamedTuple):
    """A process of a cluster: its number, and what it is."""

    pid: int
    name: str


class Cluster:
    """A cluster, which lasts as long as the ``with`` block, or from ``start`` to ``stop``.

    Args:
        folder: for its configuration, logs and checkpoints, and the state file that ``stop`` reads; of one
            cluster at a time.
        parts: Flink's jars and Beam's.
        task_managers: how many there are at the start.
        slots: how many tasks each takes at a time.
        port: of the web page and the REST API; a free one by default.
    """

    def __init__(
        self,
        folder: Path,
        parts: Parts,
        *,
        task_managers: int = TASK_MANAGERS,
        slots: int = 1,
        port: int | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self.parts = parts
        self.slots = slots
        self._wanted = task_managers
        self._started = 0
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self.job_manager: Process
        self.task_managers: list[Process] = []
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
        self._configure()
        try:
            self.job_manager = self._run(_JOB_MANAGER, "jobmanager", ["-Xmx768m"], [])
            for _ in range(self._wanted):
                self.start_task_manager()
            self.wait_for_task_managers(self._wanted)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process that is still there, task managers first, and wait until they are gone."""
        stop(self.folder)
        for child in self._children.values():
            child.wait()

    def start_task_manager(self) -> Process:
        """One more; it may take half a minute until it is there."""
        memory = [part for key, value in _MEMORY.items() for part in ("-D", f"taskmanager.{key}={value}")]
        name = f"taskmanager-{len(self.task_managers)}"
        process = self._run(_TASK_MANAGER, name, _TASK_MANAGER_JAVA, memory)
        self.task_managers.append(process)
        return process

    def kill_task_manager(self, process: Process) -> None:
        """End one at once, as a machine that loses its power does."""
        child = self._children[process.pid]
        child.send_signal(signal.SIGKILL)
        child.wait()

    def wait_for_task_managers(self, count: int) -> None:
        """Wait until so many are registered.

        Raises:
            FlinkError: if one of those ends, or it takes minutes.
        """
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(FlinkError):
                if len(self.rest.slots()) == count:
                    return
            for process in (self.job_manager, *self.task_managers[-count:]):
                if self._children[process.pid].poll() is not None:
                    raise FlinkError(
                        f"the {process.name} ended: {_complaint(self.folder / 'log' / process.name)}"
                    )
            time.sleep(0.3)
        raise FlinkError(
            f"{count} task managers were not there after {PATIENCE:.0f} s; see {self.folder}/log"
        )

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
            # A job that lost its task manager waits for another one, rather than use up its attempts;
            # one that always fails has soon done so.
            "resourcemanager.standalone.start-up-time": _MONTH,
            "restart-strategy.type": "failure-rate",
            "restart-strategy.failure-rate.max-failures-per-interval": 5,
            "restart-strategy.failure-rate.failure-rate-interval": "1 min",
            "restart-strategy.failure-rate.delay": "1 s",
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
            f"-Dlog.file={log}.log",
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
                # Not of this terminal: what ends this command does not end the cluster.
                start_new_session=True,
            )
        self._children[child.pid] = child
        process = Process(child.pid, name)
        _write_state(self.folder, self.address, [*_read_state(self.folder).processes, process])
        return process


class State(NamedTuple):
    """What the state file says."""

    address: str = ""
    processes: tuple[Process, ...] = ()


def _write_state(folder: Path, address: str, processes: Sequence[Process]) -> None:
    entry = {"address": address, "processes": [process._asdict() for process in processes]}
    new = folder / f".{STATE}"
    new.write_text(json.dumps(entry, indent=2) + "\n")
    new.replace(folder / STATE)


def _read_state(folder: Path) -> State:
    """What was last started in a folder; nothing where nothing was, or the file is not one of ours."""
    try:
        entry = json.loads((folder / STATE).read_text())
        return State(entry["address"], tuple(Process(p["pid"], p["name"]) for p in entry["processes"]))
    except (OSError, ValueError, LookupError, TypeError):
        return State()


def running(folder: Path) -> list[Process]:
    """The processes of a folder's cluster that still run."""
    # A number may be another process's by now.
    return [process for process in _read_state(folder).processes if _is_ours(process, folder)]


def _is_ours(process: Process, folder: Path) -> bool:
    mark = f"-Dlog.file={folder.absolute() / 'log' / process.name}.log"
    return mark in _command_line(process.pid)


def _command_line(pid: int) -> list[str]:
    """The words of a process's command line, none if there is no such process."""
    proc = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self/cmdline").exists():
        try:
            return proc.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return []
    listed = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return listed.stdout.split()


def stop(folder: Path) -> int:
    """End the processes of a folder's cluster, and wait until they are gone; gives how many there were."""
    # Task managers first: without a job manager they would try to find it again.
    processes = running(folder)[::-1]
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
    end = time.monotonic() + _ENDING
    while left := running(folder):
        if time.monotonic() > end:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.1)
    (folder / STATE).unlink(missing_ok=True)
    return len(processes)


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
    count = stop(folder)
    print(f"ended {count} processes" if count else f"no cluster is running in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
