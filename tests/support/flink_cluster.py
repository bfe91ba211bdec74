"""A Flink cluster on this machine: a job manager and some task managers, as separate processes.

``python -m support.flink_cluster up`` starts a cluster, and ``down`` ends that cluster only. Such a
cluster is for experiments and for tests, which may also kill its task managers: :class:`Cluster`.

The cluster serves this account only. Flink's ports are on loopback and require the cluster's key
(:mod:`ldpbeam.runners.flink.cluster_keys`). Beam's servers listen on Unix sockets in a private folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ldpbeam.runners.cache import cache
from ldpbeam.runners.flink import cluster_keys as keys
from ldpbeam.runners.flink.parts import FLINK, FlinkError, Parts, fetch
from ldpbeam.runners.flink.processes import Process, drop, end, forget, lost, mark, remember, running
from ldpbeam.runners.flink.rest import ANEW, Rest
from ldpbeam.runners.flink.settings import JAVA, of_cluster, of_task_manager, write_settings
from ldpbeam.runners.sockets import root_of_sockets

PORT = 8081
TASK_MANAGERS = 2
#: Seconds after which the start fails if the cluster is incomplete; half a minute is usual on a busy machine.
PATIENCE = 180.0

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
#: The name, in a cluster's folder, of the link to the folder of its sockets.
_SOCKETS = "sockets"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"


class Cluster:
    """A cluster that runs during a ``with`` block, or from ``start`` to ``stop``.

    Args:
        folder: the folder for configuration, logs, checkpoints, and the state file that ``stop`` reads; only
            one cluster at a time may use it.
        parts: Flink's and Beam's jars.
        task_managers: the number of task managers at the start.
        slots: the number of tasks that a task manager runs at a time.
        port: the port of the web page and the REST API; by default a free one.
        environment: further environment variables of the cluster's processes and of their workers.
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
        #: The task managers that were started and not killed by this object.
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
        """The address for ``--flink_master``."""
        return self.rest.address

    def start(self) -> None:
        """Start all processes, and wait until the cluster is complete.

        Raises:
            FlinkError: if a cluster is already running in the folder, Java is missing, a process ends, or the
                cluster is not complete in time.
        """
        if running(self.folder):
            gone = lost(self.folder)
            but = f", but its {' and '.join(gone)} ended: {ANEW}" if gone else ""
            raise FlinkError(f"{self.folder}: a cluster is running there already{but}")
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
        """End all processes that still run, task managers first, and wait until they have ended."""
        _stop(self.folder)
        for child in self._children.values():
            child.wait()
        self.task_managers.clear()

    def start_task_manager(self) -> Process:
        """Start another task manager; :meth:`wait` waits until the cluster has it."""
        name = f"taskmanager-{self._started}"
        java, arguments = of_task_manager(name, self.slots)
        process = self._run(_TASK_MANAGER, name, java, arguments)
        self.task_managers.append(process)
        self._started += 1
        return process

    def kill_task_manager(self, process: Process) -> None:
        """Kill a task manager with SIGKILL, as if its machine lost power."""
        self.task_managers.remove(process)
        child = self._children[process.pid]
        child.send_signal(signal.SIGKILL)
        child.wait()
        drop(self.folder, process)

    def wait(self) -> None:
        """Wait until the cluster lists all started task managers with all their slots, and no killed ones.

        A task manager is listed as soon as it has registered; its slots follow with its first report.

        Raises:
            FlinkError: if one of its processes ends, or it takes longer than ``PATIENCE``.
        """
        patience = time.monotonic() + PATIENCE
        wanted = {process.name: self.slots for process in self.task_managers}
        there: dict[str, int] = {}
        while time.monotonic() < patience:
            with contextlib.suppress(FlinkError):
                there = self.rest.task_managers()
            for process in (self.job_manager, *self.task_managers):
                code = self._children[process.pid].poll()
                if code is not None:
                    raise FlinkError(f"the {process.name} ended: {self._reason(process, code)}")
            if there == wanted:
                return
            time.sleep(0.3)
        missing = " and ".join(sorted(wanted.keys() - there.keys())) or "the cluster's new state"
        raise FlinkError(f"{missing} was not there after {PATIENCE:.0f} s; see {self.folder}/log")

    def _reason(self, process: Process, code: int) -> str:
        if code < 0:
            return f"something killed it ({signal.Signals(-code).name})"
        return _complaint(self.folder / "log" / process.name)

    def _configure(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Logs and checkpoints contain data of jobs.
        self.folder.chmod(0o700)
        for name in ("log", "tmp"):
            (self.folder / name).mkdir(exist_ok=True)
        port = int(self.address.rpartition(":")[2])
        settings = {
            **of_cluster(self.folder, port, _free_port(), self.slots),
            **keys.make(self.folder / keys.KEYS).settings(),
        }
        write_settings(self.folder / "conf", settings)
        # Not a folder of a run: the cluster outlives this process.
        sockets = tempfile.mkdtemp(prefix="ldpbeam-flink-", dir=root_of_sockets())
        (self.folder / _SOCKETS).symlink_to(sockets, target_is_directory=True)
        keys.announce(port, self.folder)

    def _run(self, main: str, name: str, java: Sequence[str], arguments: Sequence[str]) -> Process:
        log = self.folder / "log" / name
        # Paths of sockets must be short, and each process needs its own folder.
        sockets = (self.folder / _SOCKETS).readlink() / str(len(self._children))
        sockets.mkdir()
        command = [
            "java", *JAVA, *java,
            f"-Dldpbeam.sockets={sockets}",
            f"-Dlog4j.configurationFile={(self.folder / 'conf' / 'log4j.properties').as_uri()}",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            mark(self.folder, name),
            "-cp", self.parts.class_path,
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
                # In its own session, the cluster does not end with this command's terminal.
                start_new_session=True,
            )
        self._children[child.pid] = child
        process = Process(child.pid, name)
        remember(self.folder, process)
        return process


def _stop(folder: Path) -> int:
    count = end(folder)
    keys.withdraw(folder)
    # Killed processes left their temporary files behind.
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    sockets = folder / _SOCKETS
    if sockets.is_symlink():
        shutil.rmtree(sockets.readlink(), ignore_errors=True)
        sockets.unlink()
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
    """Run the command ``up`` or ``down``, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m support.flink_cluster", description="A Flink cluster on this machine."
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
