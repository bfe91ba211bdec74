"""A Flink cluster on this machine, for tests and trials: a job manager and two task managers.

Flink's ports are on loopback, and Beam's, which a job opens, on every interface: all of them run programs of
whoever connects. ``python -m support.flink_cluster up`` starts a cluster, and ``down`` ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from maven import jars
from ports import NoServerError, held_port, port_of

from ldpbeam.runners.flink.rest import FlinkError, Rest

ROOT = Path(__file__).parents[2]
POM = Path(__file__).with_name("flink.xml")
PORT, TASK_MANAGERS = 8081, 2
JOB_MANAGER = "jobmanager"
#: Seconds after which the start fails if the cluster is incomplete; half a minute is usual on a busy machine.
PATIENCE = 180.0
#: Only the job server needs these jars. They contain older copies of classes of which a cluster has newer
#: ones; with both, results would not deserialise.
_JOB_SERVER_ONLY = ("harness", "expansion-service", "transform-service")
# Flink uses these packages by reflection, which Java 17 forbids by default.
_OPENED = (
    "lang lang.reflect net io nio text time util util.concurrent util.concurrent.atomic util.concurrent.locks"
)
_JAVA = (
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED.split()),
)
SETTINGS = {
    **dict.fromkeys(
        ("jobmanager.rpc.address", "jobmanager.bind-host", "rest.address", "rest.bind-address",
         "taskmanager.host", "taskmanager.bind-host"), "localhost",
    ),
    "jobmanager.memory.process.size": "1g",
    "taskmanager.numberOfTaskSlots": 1,
    # Flink's start scripts compute these from one number. Without them a task manager does not start.
    "taskmanager.cpu.cores": 1.0,
    "taskmanager.memory.task.heap.size": "400m",
    # Data for Python workers pass through this, one shard of users at a time.
    "taskmanager.memory.task.off-heap.size": "768m",
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.managed.size": "256m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "128m",
    "taskmanager.memory.jvm-overhead.max": "128m",
    # Buffers between tasks; with half as many, a study with windows does not start.
    "taskmanager.memory.network.min": "128m",
    "taskmanager.memory.network.max": "128m",
    # A job that lost its task manager waits a month for another one instead of using up its attempts.
    "resourcemanager.standalone.start-up-time": 30 * 24 * 3600 * 1000,
    # A job that lost a Python worker fails until Flink knows that the worker has ended, after three seconds.
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "5 s",
    "restart-strategy.fixed-delay.attempts": 10,
    # By default, Flink notices a killed task manager after fifty seconds.
    "heartbeat.interval": 1000,
    "heartbeat.timeout": 6000,
    # Jobs have no classes of their own.
    "classloader.resolve-order": "parent-first",
}  # fmt: skip


class Cluster:
    """A cluster that runs from ``start`` to ``stop``.

    Args:
        folder: a folder for configuration, logs, checkpoints and the job server's jar.
        port: the port of the REST API; by default a free one.
        environment: further environment variables of the cluster's processes and of their workers.

    Raises:
        NoServerError: if the jars cannot be had.
    """

    def __init__(
        self, folder: Path, port: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder.absolute()
        self.environment = dict(environment or {})
        # As long as this object lives: a cluster that was stopped may start again.
        self._held = [held_port(), held_port()]
        rest, self._rpc = map(port_of, self._held)
        self.rest = Rest(f"localhost:{port or rest}")
        self.job_server = self.folder / "job-server.jar"
        #: The processes that were started and not killed by this object, by their names.
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._task_managers = 0
        self._jars = jars(POM)

    @property
    def options(self) -> list[str]:
        """The options of ``ldpbeam estimate`` for this cluster."""
        return [f"--flink-master={self.rest.address}", f"--flink_job_server_jar={self.job_server}"]

    def start(self) -> None:
        """Start all processes, and wait until the cluster is complete."""
        (self.folder / "conf").mkdir(parents=True, exist_ok=True)
        settings = {
            **SETTINGS,
            "rest.port": int(self.rest.address.rpartition(":")[2]),
            "jobmanager.rpc.port": self._rpc,
            "io.tmp.dirs": str(self.folder / "tmp"),
            "state.checkpoints.dir": (self.folder / "checkpoints").as_uri(),
        }
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in settings.items()]
        (self.folder / "conf" / "config.yaml").write_text("".join(lines))
        cluster, alone = [], []
        for jar in sorted(self._jars.glob("*.jar")):
            (alone if any(word in jar.name for word in _JOB_SERVER_ONLY) else cluster).append(jar)
        self._class_path = ":".join(map(str, cluster))
        _write_job_server(self.job_server, [*cluster, *alone])
        try:
            self.start_job_manager()
            for _ in range(TASK_MANAGERS):
                self.start_task_manager()
            self.wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all processes, task managers first: without a job manager they would look for it."""
        for process in reversed(self._processes.values()):
            process.terminate()
            process.wait()
        self._processes.clear()

    def start_job_manager(self) -> None:
        """Start the job manager, at the same address each time, so that task managers find it."""
        self._run(JOB_MANAGER, ["-Xmx768m"], "entrypoint.StandaloneSessionClusterEntrypoint")

    def start_task_manager(self) -> None:
        """Start another task manager; :meth:`wait` waits until the cluster has it."""
        name = f"taskmanager-{self._task_managers}"
        self._task_managers += 1
        java = ["-Xmx528m", "-XX:MaxMetaspaceSize=256m", "-XX:MaxDirectMemorySize=1g"]
        self._run(name, java, "taskexecutor.TaskManagerRunner", "-D", f"taskmanager.resource-id={name}")

    def kill_job_manager(self) -> None:
        """Kill the job manager, as if its machine lost power; its jobs are lost."""
        self._kill(JOB_MANAGER)

    def kill_task_manager(self) -> None:
        """Kill the oldest task manager, as if its machine lost power."""
        self._kill(next(name for name in self._processes if name != JOB_MANAGER))

    def wait(self) -> None:
        """Wait until the cluster lists the slots of all started task managers, and no killed ones.

        Raises:
            FlinkError: if one of its processes ends, or it takes longer than ``PATIENCE``.
        """
        patience = time.monotonic() + PATIENCE
        wanted = dict.fromkeys(self._processes.keys() - {JOB_MANAGER}, 1)
        while time.monotonic() < patience:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise FlinkError(f"the {name} ended; its log is in {self.folder}")
            with contextlib.suppress(FlinkError):
                if self.rest.task_managers() == wanted:
                    return
            time.sleep(0.3)
        raise FlinkError(f"{', '.join(wanted)}: not all came within {PATIENCE:.0f} s; see {self.folder}")

    def _run(self, name: str, java: Sequence[str], main: str, *arguments: str) -> None:
        command = ["java", *_JAVA, *java, "-cp", self._class_path, f"org.apache.flink.runtime.{main}"]
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*command, "--configDir", str(self.folder / "conf"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                # In its own session, the cluster does not end with this command's terminal.
                start_new_session=True,
            )

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()


def _write_job_server(path: Path, class_path: Sequence[Path]) -> None:
    """Write a jar that starts Beam's job server with other jars as its class path."""
    entries = {
        "Manifest-Version": "1.0",
        "Main-Class": "org.apache.beam.runners.flink.FlinkJobServerDriver",
        "Add-Opens": "java.base/java.lang java.base/java.util java.base/java.nio java.base/java.time",
        "Class-Path": " ".join(jar.as_uri() for jar in class_path),
    }
    lines = []
    for name, value in entries.items():
        # A line has at most 72 bytes with its end, and goes on after a space.
        text = f"{name}: {value}"
        parts = [text[:70], *(text[at : at + 69] for at in range(70, len(text), 69))]
        lines.append("\r\n ".join(parts) + "\r\n")
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "".join(lines))


def main(what: str, folder: Path = ROOT / "build" / "flink") -> None:
    """Start a cluster that outlives this process, or end it."""
    if what == "down":
        conf = str(folder / "conf")
        left = [one for one in psutil.process_iter(["cmdline"]) if conf in (one.info["cmdline"] or ())]
        for process in left:
            process.terminate()
        psutil.wait_procs(left)
        return
    try:
        cluster = Cluster(folder, PORT)
        cluster.start()
    except (NoServerError, FlinkError, OSError) as error:
        raise SystemExit(f"{error}") from None
    print(f"Flink runs; its logs are in {folder}. Give runs these options:")
    print("  --runner flink", *cluster.options)


if __name__ == "__main__":
    main(sys.argv[1])
